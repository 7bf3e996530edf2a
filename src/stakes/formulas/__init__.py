"""Models from formulas: `sold ~ weekday + sunshine + (1 | store)`, for a table of the user.

`grammar` reads the text, `design` makes columns of a table, and `model` the NumPyro model, with the
`families` and `priors` of its outcomes and effects. `program` writes it out.
"""

from stakes.formulas.families import FAMILIES as FAMILIES
from stakes.formulas.model import FormulaColumns as FormulaColumns
from stakes.formulas.model import FormulaModel as FormulaModel
from stakes.formulas.model import formula as formula
from stakes.formulas.model import formula_columns as formula_columns
