"""Best decisions for predicted outcomes: the searches, exact and numerical decisions, and rules."""

from stakes.deciding.best import best_decision
from stakes.deciding.coarse import term_decision
from stakes.deciding.dips import Rival, rival
from stakes.deciding.known import known_decision
from stakes.deciding.m_step import BayesDecisions, NumericalDecisions
from stakes.deciding.numerical import numerical_decision, rivals
from stakes.deciding.promise import by_promise
from stakes.deciding.regret import objective_of
from stakes.deciding.search import by_parabolas

__all__ = [
    "BayesDecisions",
    "NumericalDecisions",
    "Rival",
    "best_decision",
    "by_parabolas",
    "by_promise",
    "known_decision",
    "numerical_decision",
    "objective_of",
    "rival",
    "rivals",
    "term_decision",
]
