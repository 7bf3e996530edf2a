"""Decisions for predicted outcomes: the task, searches, rules of EM, and what a fit maximises.

`best_decision` finds the Bayes decision by a formula or a search, for all cases at once. During a
fit, `BayesDecisions` and `NumericalDecisions` set decisions more coarsely, and `objective_of` is
what the bound has in addition to the ELBO.
"""

from stakes.decisions.best import SecondMinimum as SecondMinimum
from stakes.decisions.best import best_decision as best_decision
from stakes.decisions.best import numerical_decision as numerical_decision
from stakes.decisions.best import second_minimum as second_minimum
from stakes.decisions.best import second_minimum_on as second_minimum_on
from stakes.decisions.minimise import by_parabolas as by_parabolas
from stakes.decisions.minimise import by_promise as by_promise
from stakes.decisions.regret import Regret as Regret
from stakes.decisions.regret import objective_of as objective_of
from stakes.decisions.rules import BayesDecisions as BayesDecisions
from stakes.decisions.rules import NumericalDecisions as NumericalDecisions
from stakes.decisions.rules import term_decision as term_decision
from stakes.decisions.task import DecisionTask as DecisionTask
