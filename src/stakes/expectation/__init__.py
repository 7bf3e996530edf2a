"""The inner expectation E_p(y|θ) of a loss or utility: one module per way, behind one protocol.

In order of preference: a closed form; enumeration of a discrete outcome; quadrature over a
continuous one; reparameterised Monte Carlo. `choose` takes the first without an objection;
passing one as `expectation=` overrides it. `stats` has the statistics that closed forms
need, `families` what is known of each distribution.
"""

from stakes.expectation import families as families
from stakes.expectation import stats as stats
from stakes.expectation.closed_form import ClosedForm as ClosedForm
from stakes.expectation.componentwise import Componentwise as Componentwise
from stakes.expectation.enumeration import Enumeration as Enumeration
from stakes.expectation.monte_carlo import MonteCarlo as MonteCarlo
from stakes.expectation.monte_carlo import ScoreFunction as ScoreFunction
from stakes.expectation.points import ByPoints as ByPoints
from stakes.expectation.predicted import Mixture as Mixture
from stakes.expectation.predicted import Single as Single
from stakes.expectation.quadrature import Quadrature as Quadrature
from stakes.expectation.selection import check as check
from stakes.expectation.selection import choose as choose
from stakes.expectation.sums import Rule as Rule
