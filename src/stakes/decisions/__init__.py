"""Best decisions for predicted outcomes: the searches, exact and numerical decisions, and rules."""

from stakes.decisions.best import best_decision
from stakes.decisions.coarse import term_decision
from stakes.decisions.dips import Rival, rival
from stakes.decisions.known import known_decision
from stakes.decisions.m_step import BayesDecisions, NumericalDecisions
from stakes.decisions.numerical import numerical_decision, rivals
from stakes.decisions.promise import by_promise
from stakes.decisions.regret import objective_of
from stakes.decisions.search import by_parabolas
from stakes.decisions.task import DecisionTask

__all__ = [
    "BayesDecisions",
    "DecisionTask",
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
