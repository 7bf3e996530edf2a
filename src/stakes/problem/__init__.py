"""A decision problem, as the user states it, and what it says about its data."""

from stakes.problem.checking import check_guide, checked_key
from stakes.problem.problem import Problem

__all__ = ["Argument", "Problem", "check_guide", "checked_key"]
