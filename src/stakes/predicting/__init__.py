"""Posteriors, and what they predict and decide for all cases.

A `Posterior` is a source of draws of the latents: the guide of a fit, or draws of NUTS. With the
model on some data, a `Predictor`, it gives the distribution of each outcome, p(y|θ), for each draw;
from these come decisions, predictions and costs. Cases are gone through batch by batch, as the
model takes them, so that memory stays bounded.

What is asked is computed by compiled programs, one for each question and shape of the data.
"""

from stakes.predicting.decisions import begin_to_decide as begin_to_decide
from stakes.predicting.decisions import decide as decide
from stakes.predicting.decisions import draws_to_decide as draws_to_decide
from stakes.predicting.decisions import expected as expected
from stakes.predicting.decisions import second_minimum as second_minimum
from stakes.predicting.instances import CENTRAL as CENTRAL
from stakes.predicting.instances import Observations as Observations
from stakes.predicting.instances import observations as observations
from stakes.predicting.instances import observed as observed
from stakes.predicting.instances import one_outcome as one_outcome
from stakes.predicting.instances import outcomes as outcomes
from stakes.predicting.instances import outcomes_by_batch as outcomes_by_batch
from stakes.predicting.instances import predict as predict
from stakes.predicting.instances import predictive_costs as predictive_costs
from stakes.predicting.posteriors import FACTOR as FACTOR
from stakes.predicting.posteriors import FittedPosterior as FittedPosterior
from stakes.predicting.posteriors import LinearResponsePosterior as LinearResponsePosterior
from stakes.predicting.posteriors import Members as Members
from stakes.predicting.posteriors import Posterior as Posterior
from stakes.predicting.posteriors import SampledPosterior as SampledPosterior
from stakes.predicting.posteriors import derived_draws as derived_draws
from stakes.predicting.posteriors import explained as explained
from stakes.predicting.posteriors import latent_draws as latent_draws
from stakes.predicting.reweighting import decide_weighted as decide_weighted
from stakes.predicting.reweighting import weighed as weighed
from stakes.predicting.reweighting import weighed_latents as weighed_latents
