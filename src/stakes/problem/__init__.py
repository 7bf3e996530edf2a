"""A decision problem, as the user states it, and what it says about its data."""

from stakes.problem.problem import Problem
from stakes.problem.validation import check_guide, checked_key

__all__ = ["Argument", "Problem", "check_guide", "checked_key"]
