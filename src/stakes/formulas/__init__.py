"""Models from formulas: `sold ~ weekday + sunshine + (1 | store)`, for a table of the user."""

from stakes.formulas.families import FAMILIES as FAMILIES
from stakes.formulas.model import FormulaColumns as FormulaColumns
from stakes.formulas.model import FormulaModel as FormulaModel
from stakes.formulas.model import formula as formula
from stakes.formulas.model import formula_columns as formula_columns
