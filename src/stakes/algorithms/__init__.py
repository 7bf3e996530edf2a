"""Algorithms as pairs of pure functions: a start and a `step` for the loop in `fitting`."""

from stakes.algorithms.em import EM, BayesDecisions, NumericalDecisions
from stakes.algorithms.joint import Joint
from stakes.algorithms.vi import VI

__all__ = ["EM", "VI", "BayesDecisions", "Joint", "NumericalDecisions"]
