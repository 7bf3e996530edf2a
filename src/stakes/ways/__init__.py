"""Ways to a decision, and the choice among them."""

from stakes.ways.bench import Bench
from stakes.ways.choice import Choice, coverage_doubt
from stakes.ways.choosing import STRENGTHS, choose, chosen_among, default_ways, opened_bench
from stakes.ways.corrected import Corrected
from stakes.ways.folds import NO_FOLDS, Forward
from stakes.ways.ground import Forecast, Ground, Outlook
from stakes.ways.heads import Level, Regressor, Shift
from stakes.ways.keeping import kept, restored
from stakes.ways.monotone import Monotone
from stakes.ways.network import Network
from stakes.ways.posteriors import NUTS, Calibrated, Plain
from stakes.ways.reweighted import Reweighted
from stakes.ways.simple import Given, Same
from stakes.ways.way import Fitted

__all__ = [
    "NO_FOLDS",
    "NUTS",
    "STRENGTHS",
    "Bench",
    "Calibrated",
    "Choice",
    "Corrected",
    "Fitted",
    "Forecast",
    "Forward",
    "Given",
    "Ground",
    "Level",
    "Monotone",
    "Network",
    "Outlook",
    "Plain",
    "Regressor",
    "Reweighted",
    "Same",
    "Shift",
    "choose",
    "chosen_among",
    "coverage_doubt",
    "default_ways",
    "kept",
    "opened_bench",
    "restored",
]
