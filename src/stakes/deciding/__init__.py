"""Best decisions for predicted outcomes: the searches, exact and numerical decisions, and rules."""

from stakes.deciding.best import best_decision, known_decision, numerical_decision, term_decision
from stakes.deciding.m_step import BayesDecisions, NumericalDecisions
from stakes.deciding.promise import by_promise
from stakes.deciding.regret import objective_of
from stakes.deciding.search import by_parabolas

__all__ = [
    "BayesDecisions",
    "NumericalDecisions",
    "best_decision",
    "by_parabolas",
    "by_promise",
    "known_decision",
    "numerical_decision",
    "objective_of",
    "term_decision",
]
