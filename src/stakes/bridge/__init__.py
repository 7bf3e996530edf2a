"""NumPyro behind the port: no other package uses handlers, sites, plates and constraints.

`approximate` traces a problem's model and guide on the data of a fit, and gives what the port asks
for. `Predictors` puts the same model on other cases. Everything else here checks, before a fit,
that model, guide and data go together; asks which members of plates an outcome depends on; or
samples by NUTS.
"""

from stakes.bridge.approximation import NumPyroApproximation as NumPyroApproximation
from stakes.bridge.approximation import Weighed as Weighed
from stakes.bridge.approximation import approximate as approximate
from stakes.bridge.approximation import check_even as check_even
from stakes.bridge.approximation import prior_draws as prior_draws
from stakes.bridge.approximation import row_check as row_check
from stakes.bridge.forms import parts_of as parts_of
from stakes.bridge.influence import groups_of as groups_of
from stakes.bridge.influence import lost_parameters as lost_parameters
from stakes.bridge.influence import seen_members as seen_members
from stakes.bridge.model_trace import ModelTrace as ModelTrace
from stakes.bridge.predictor import Predictor as Predictor
from stakes.bridge.predictor import Predictors as Predictors
from stakes.bridge.running import Running as Running
from stakes.bridge.running import guide_with_decisions as guide_with_decisions
from stakes.bridge.sampling import Diagnostics as Diagnostics
from stakes.bridge.sampling import check_sampling as check_sampling
from stakes.bridge.sampling import nuts as nuts
