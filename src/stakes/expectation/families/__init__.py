"""What is known of each outcome distribution: importing this answers the questions of `stats`.

A module for each kind of support or of formula; within, each function answers one question for one
type of NumPyro's distributions, and its docstring has the formula. A distribution that has no
answer here still works: the expectation is then found by enumeration, quadrature or draws.

Tests compare each answer with SciPy's, in single and in double precision. Where the textbook's
formula cancels or overflows, another form is used, and its docstring says which.
"""

from stakes.expectation.families import bounded as bounded
from stakes.expectation.families import derived as derived
from stakes.expectation.families import finite as finite
from stakes.expectation.families import mixtures as mixtures
from stakes.expectation.families import negative_binomial as negative_binomial
from stakes.expectation.families import normal as normal
from stakes.expectation.families import poisson as poisson
from stakes.expectation.families import real_line as real_line
