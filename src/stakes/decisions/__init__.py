"""Decisions for predicted outcomes: the task, searches, rules of EM, and what a fit maximises."""

from stakes.decisions.best import (
    SecondMinimum,
    best_decision,
    numerical_decision,
    second_minimum,
    second_minimum_on,
)
from stakes.decisions.minimise import by_parabolas, by_promise
from stakes.decisions.regret import objective_of
from stakes.decisions.rules import BayesDecisions, NumericalDecisions, term_decision
from stakes.decisions.task import DecisionTask

__all__ = [
    "BayesDecisions",
    "DecisionTask",
    "NumericalDecisions",
    "SecondMinimum",
    "best_decision",
    "by_parabolas",
    "by_promise",
    "numerical_decision",
    "objective_of",
    "second_minimum",
    "second_minimum_on",
    "term_decision",
]
