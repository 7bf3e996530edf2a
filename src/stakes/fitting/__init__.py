"""Fits: the loop, its steps, and the methods that define them.

A fit takes steps in compiled chunks. A `Method` makes the step: `VI` climbs the ELBO, `Joint`
climbs the bound over posterior and decisions together, `EM` alternates between the two. Between two
chunks `history` decides, from what has happened so far alone, whether to go on, with which step
size, or to stop: so a fit is resumed from its history bit for bit.

    method.step(objective, settings)     what one step does (`step`, `methods`)
    ascend(optimizer, objective, ...)    one step up, for the rows in the batch (`ascent`)
    noise_for(normals, params, ...)      draws in pairs, evenly spread (`noise`)
    adaptive(), natural_gradient()       how far the step goes (`default`, `natural`)
    run(title, step, ...)                chunks until a stop (`loop`, `history`, `stages`)
    run_together, run_apart              several fits in one program, several programs (`apart`)
"""

from stakes.fitting.apart import Together as Together
from stakes.fitting.apart import resume_together as resume_together
from stakes.fitting.apart import run_apart as run_apart
from stakes.fitting.apart import run_together as run_together
from stakes.fitting.ascent import ascend as ascend
from stakes.fitting.ascent import bound as bound
from stakes.fitting.ascent import start as start
from stakes.fitting.crew import axes_of as axes_of
from stakes.fitting.curvature import check_linear_response as check_linear_response
from stakes.fitting.curvature import linear_response as linear_response
from stakes.fitting.default import adaptive as adaptive
from stakes.fitting.fit import Fit as Fit
from stakes.fitting.fit import Stop as Stop
from stakes.fitting.history import MOST_SKIPPED as MOST_SKIPPED
from stakes.fitting.history import RATES as RATES
from stakes.fitting.history import History as History
from stakes.fitting.history import Watch as Watch
from stakes.fitting.history import least_steps as least_steps
from stakes.fitting.history import load_history as load_history
from stakes.fitting.history import not_begun as not_begun
from stakes.fitting.history import one_of as one_of
from stakes.fitting.history import start_history as start_history
from stakes.fitting.loop import Feed as Feed
from stakes.fitting.loop import Hooks as Hooks
from stakes.fitting.loop import begin_to_compile as begin_to_compile
from stakes.fitting.loop import compiled as compiled
from stakes.fitting.loop import run as run
from stakes.fitting.loop import sweeping as sweeping
from stakes.fitting.methods import EM as EM
from stakes.fitting.methods import VI as VI
from stakes.fitting.methods import FreshDecisions as FreshDecisions
from stakes.fitting.methods import Joint as Joint
from stakes.fitting.natural import natural_gradient as natural_gradient
from stakes.fitting.settings import FitSettings as FitSettings
from stakes.fitting.settings import adam as adam
from stakes.fitting.stages import Average as Average
from stakes.fitting.stages import are_drifting as are_drifting
from stakes.fitting.stages import finite_mean as finite_mean
from stakes.fitting.stages import has_stopped_rising as has_stopped_rising
from stakes.fitting.stages import owned as owned
from stakes.fitting.step import Info as Info
from stakes.fitting.step import Method as Method
from stakes.fitting.step import ParametricStep as ParametricStep
from stakes.fitting.step import State as State
from stakes.fitting.step import Step as Step
