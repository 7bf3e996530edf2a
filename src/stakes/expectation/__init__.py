"""The inner expectation E_p(y|θ) of a loss or utility: one module per way, behind one protocol.

In order of preference: a closed form; enumeration of a discrete outcome; quadrature over a
continuous one; reparameterised Monte Carlo. `choose` takes the first without an objection;
passing one as `expectation=` overrides it. `stats` has the statistics that closed forms
need, `families` what is known of each distribution.
"""

from stakes.expectation import families, stats
from stakes.expectation.closed_form import ClosedForm
from stakes.expectation.componentwise import Componentwise
from stakes.expectation.enumeration import Enumeration
from stakes.expectation.monte_carlo import MonteCarlo, ScoreFunction
from stakes.expectation.points import ByPoints
from stakes.expectation.predicted import Mixture, Single
from stakes.expectation.quadrature import Quadrature
from stakes.expectation.selection import check, choose
from stakes.expectation.sums import Rule

__all__ = [
    "ByPoints",
    "ClosedForm",
    "Componentwise",
    "Enumeration",
    "Mixture",
    "MonteCarlo",
    "Quadrature",
    "Rule",
    "ScoreFunction",
    "Single",
    "check",
    "choose",
    "families",
    "stats",
]
