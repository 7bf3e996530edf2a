"""Problems with data, studied: fits, strategies, comparisons, and what is decided."""

from stakes.study.assessment import (
    LEFT_OUT,
    Assessment,
    are_whole_numbers,
    decided,
    labelled_decisions,
    predictive_quantiles,
    why_not_judged,
)
from stakes.study.bench import Bench
from stakes.study.benefit import net_benefit
from stakes.study.choice import Choice, coverage_doubt
from stakes.study.comparison import Comparison, relative
from stakes.study.contest import (
    STRENGTHS,
    check_ways,
    choose,
    chosen_among,
    default_ways,
    opened_bench,
)
from stakes.study.data import CheckedData, Coords, given, handed_back
from stakes.study.dependence import By, dependence_of
from stakes.study.folds import NO_FOLDS, Forward
from stakes.study.ground import Forecast, Ground, Outlook
from stakes.study.intervals import (
    Clustered,
    ConfidenceInterval,
    Crossed,
    Dependence,
    Independent,
    Ordered,
    interval,
)
from stakes.study.journal import Journal
from stakes.study.keys import Keys
from stakes.study.leave_one_out import smoothed
from stakes.study.members import predictor_for
from stakes.study.options import Options
from stakes.study.pipeline import calibrate, calibrate_with
from stakes.study.plan import Plan, beyond_made, check_whole, prepare, seeing
from stakes.study.result import Calibration
from stakes.study.strategies.baselines import Given, Same
from stakes.study.strategies.corrected import Corrected
from stakes.study.strategies.correction import Head
from stakes.study.strategies.fitted import NUTS, Calibrated, Plain
from stakes.study.strategies.heads import Level, Regressor, Shift
from stakes.study.strategies.keeping import kept, restored
from stakes.study.strategies.monotone import Monotone
from stakes.study.strategies.network import Network
from stakes.study.strategies.reweighted import Reweighted
from stakes.study.strategies.way import Fitted, Way
from stakes.study.svi import CalibratedELBO

__all__ = [
    "LEFT_OUT",
    "NO_FOLDS",
    "NUTS",
    "STRENGTHS",
    "Assessment",
    "Bench",
    "By",
    "Calibrated",
    "CalibratedELBO",
    "Calibration",
    "CheckedData",
    "Choice",
    "Clustered",
    "Comparison",
    "ConfidenceInterval",
    "Coords",
    "Corrected",
    "Crossed",
    "Dependence",
    "Fitted",
    "Forecast",
    "Forward",
    "Given",
    "Ground",
    "Head",
    "Independent",
    "Journal",
    "Keys",
    "Level",
    "Monotone",
    "Network",
    "Options",
    "Ordered",
    "Outlook",
    "Plain",
    "Plan",
    "Regressor",
    "Reweighted",
    "Same",
    "Shift",
    "Way",
    "are_whole_numbers",
    "beyond_made",
    "calibrate",
    "calibrate_with",
    "check_ways",
    "check_whole",
    "choose",
    "chosen_among",
    "coverage_doubt",
    "decided",
    "default_ways",
    "dependence_of",
    "given",
    "handed_back",
    "interval",
    "kept",
    "labelled_decisions",
    "net_benefit",
    "opened_bench",
    "predictive_quantiles",
    "predictor_for",
    "prepare",
    "relative",
    "restored",
    "seeing",
    "smoothed",
    "why_not_judged",
]
