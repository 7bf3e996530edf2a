"""Ways to a decision, and the choice among them."""

from stakes.ways.choice import Choice
from stakes.ways.choosing import choose
from stakes.ways.corrected import Corrected
from stakes.ways.folds import Forward
from stakes.ways.heads import Level, Regressor, Shift
from stakes.ways.monotone import Monotone
from stakes.ways.network import Network
from stakes.ways.posteriors import NUTS, Calibrated, Plain
from stakes.ways.simple import Given, Same

__all__ = [
    "NUTS",
    "Calibrated",
    "Choice",
    "Corrected",
    "Forward",
    "Given",
    "Level",
    "Monotone",
    "Network",
    "Plain",
    "Regressor",
    "Same",
    "Shift",
    "choose",
]
