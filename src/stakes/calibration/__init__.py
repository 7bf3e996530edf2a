"""What a user gets: the pipeline of the paper, its result, and whether it helped."""

from stakes.calibration.assessment import (
    LEFT_OUT,
    Assessment,
    are_whole_numbers,
    decided,
    labelled_decisions,
    predictive_quantiles,
    why_not_judged,
)
from stakes.calibration.benefit import net_benefit
from stakes.calibration.comparison import Comparison, relative
from stakes.calibration.data import Coords, Given, given, handed_back
from stakes.calibration.dependence import By, dependence_of
from stakes.calibration.intervals import (
    Clustered,
    Crossed,
    Dependence,
    Independent,
    Interval,
    Ordered,
    interval,
)
from stakes.calibration.journal import Journal
from stakes.calibration.keys import Keys
from stakes.calibration.leave_one_out import smoothed
from stakes.calibration.members import predictor_for
from stakes.calibration.options import Options
from stakes.calibration.pipeline import calibrate, calibrate_with
from stakes.calibration.plan import Plan, beyond_made, check_whole, prepare, seeing
from stakes.calibration.result import Calibration
from stakes.calibration.seeds import (
    PlainFits,
    calibrate_scales,
    calibrate_seeds,
    continued,
    fit_vi,
    stacked,
)
from stakes.calibration.svi import CalibratedELBO

__all__ = [
    "LEFT_OUT",
    "Assessment",
    "By",
    "CalibratedELBO",
    "Calibration",
    "Clustered",
    "Comparison",
    "Coords",
    "Crossed",
    "Dependence",
    "Given",
    "Independent",
    "Interval",
    "Journal",
    "Keys",
    "Options",
    "Ordered",
    "PlainFits",
    "Plan",
    "are_whole_numbers",
    "beyond_made",
    "calibrate",
    "calibrate_scales",
    "calibrate_seeds",
    "calibrate_with",
    "check_whole",
    "continued",
    "decided",
    "dependence_of",
    "fit_vi",
    "given",
    "handed_back",
    "interval",
    "labelled_decisions",
    "net_benefit",
    "predictive_quantiles",
    "predictor_for",
    "prepare",
    "relative",
    "seeing",
    "smoothed",
    "stacked",
    "why_not_judged",
]
