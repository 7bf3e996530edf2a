"""Models from formulas: `sold ~ weekday + sunshine + (1 | store)`, for a table of the user."""

from stakes.formulas.families import FAMILIES
from stakes.formulas.model import FormulaModel, formula, formula_columns

__all__ = ["FAMILIES", "FUNCTIONS", "LINKS", "FormulaModel", "formula", "formula_columns"]
