"""A decision problem, as the user states it, and what it says about its data."""

from stakes.problem.problem import Problem as Problem
from stakes.problem.validation import check_guide as check_guide
from stakes.problem.validation import checked_key as checked_key
