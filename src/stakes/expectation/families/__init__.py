"""What is known of each outcome distribution: importing this answers the questions of `stats`."""

from stakes.expectation.families import bounded as bounded
from stakes.expectation.families import derived as derived
from stakes.expectation.families import finite as finite
from stakes.expectation.families import mixtures as mixtures
from stakes.expectation.families import negative_binomial as negative_binomial
from stakes.expectation.families import normal as normal
from stakes.expectation.families import poisson as poisson
from stakes.expectation.families import real_line as real_line
