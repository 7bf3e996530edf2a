"""A problem with its data, studied: fits, strategies, comparisons, and what is decided.

A `Study` is a problem with its data, checked and traced once (`study.py`, `plan.py`, `data.py`).
Folds and everything are masks over the outcomes of that one trace (`folds.py`). `Fits` make each
fit once, by strength of calibration and mask (`fits.py`). A `Strategy` turns fits into decisions
(`strategies/`), `Cases` are what it decides about (`cases.py`), and a `Comparison` is what the
decisions of several strategies have cost on the same cases (`comparison.py`), with intervals that
allow for dependence (`intervals.py`, `dependence.py`).

`calibrate` is a study without folds and two fits; `choose` is one with folds and any number of
strategies. They return a `Calibration` and a `Choice`.

The way of one row: `read_data` makes it an element of the model's arguments. Fits see its outcome
unless their mask hides it. A fitted strategy decides about it as one of the `Cases`, those of the
fit or others, whose members `predictor_for` recognises by their labels (`members.py`). The decision
goes back to the user with the labels of the row, as a column of the table if there was one.
"""

from stakes.study.calibrating import calibrate as calibrate
from stakes.study.calibrating import calibration_of as calibration_of
from stakes.study.calibration import Calibration as Calibration
from stakes.study.cases import LEVELS as LEVELS
from stakes.study.cases import NOT_CALIBRATED as NOT_CALIBRATED
from stakes.study.cases import Cases as Cases
from stakes.study.cases import Forecast as Forecast
from stakes.study.cases import are_inside as are_inside
from stakes.study.cases import are_whole_numbers as are_whole_numbers
from stakes.study.cases import predictive_quantiles as predictive_quantiles
from stakes.study.choice import Choice as Choice
from stakes.study.choice import Saving as Saving
from stakes.study.choice import Summary as Summary
from stakes.study.choice import WayLine as WayLine
from stakes.study.choice import coverage_doubt as coverage_doubt
from stakes.study.choice import finite as finite
from stakes.study.choice import unbounded as unbounded
from stakes.study.choosing import calibrations as calibrations
from stakes.study.choosing import check_ways as check_ways
from stakes.study.choosing import choose as choose
from stakes.study.choosing import chosen_among as chosen_among
from stakes.study.choosing import default_ways as default_ways
from stakes.study.choosing import enter as enter
from stakes.study.comparison import Comparison as Comparison
from stakes.study.comparison import Diagnosis as Diagnosis
from stakes.study.comparison import net_benefit as net_benefit
from stakes.study.data import Coords as Coords
from stakes.study.data import read_data as read_data
from stakes.study.dependence import By as By
from stakes.study.dependence import dependence_of as dependence_of
from stakes.study.file_journal import FileJournal as FileJournal
from stakes.study.folds import Forward as Forward
from stakes.study.folds import Mask as Mask
from stakes.study.gang_fits import fit_on_workers as fit_on_workers
from stakes.study.intervals import Clustered as Clustered
from stakes.study.intervals import Crossed as Crossed
from stakes.study.intervals import Dependence as Dependence
from stakes.study.intervals import Independent as Independent
from stakes.study.intervals import Ordered as Ordered
from stakes.study.intervals import interval as interval
from stakes.study.intervals import relative as relative
from stakes.study.options import Journal as Journal
from stakes.study.options import Keys as Keys
from stakes.study.options import Options as Options
from stakes.study.plan import Plan as Plan
from stakes.study.plan import beyond_made as beyond_made
from stakes.study.plan import hide_others as hide_others
from stakes.study.plan import prepare as prepare
from stakes.study.plan import stack_trees as stack_trees
from stakes.study.screening import Screen as Screen
from stakes.study.screening import screen as screen
from stakes.study.strategies.baselines import Given as Given
from stakes.study.strategies.baselines import Same as Same
from stakes.study.strategies.by_posterior import NUTS as NUTS
from stakes.study.strategies.by_posterior import Calibrated as Calibrated
from stakes.study.strategies.by_posterior import LinearResponse as LinearResponse
from stakes.study.strategies.by_posterior import Plain as Plain
from stakes.study.strategies.by_posterior import Reweighted as Reweighted
from stakes.study.strategies.corrected import Corrected as Corrected
from stakes.study.strategies.correction import CalibrationMap as CalibrationMap
from stakes.study.strategies.correction import FittedMap as FittedMap
from stakes.study.strategies.correction import Identity as Identity
from stakes.study.strategies.correction import MapInputs as MapInputs
from stakes.study.strategies.maps import Level as Level
from stakes.study.strategies.maps import Monotone as Monotone
from stakes.study.strategies.maps import Regressor as Regressor
from stakes.study.strategies.maps import Shift as Shift
from stakes.study.strategies.network import Network as Network
from stakes.study.strategies.strategy import FittedStrategy as FittedStrategy
from stakes.study.strategies.strategy import Strategy as Strategy
from stakes.study.strategies.strategy import below as below
from stakes.study.study import Study as Study
from stakes.study.study import Work as Work
from stakes.study.svi import CalibratedELBO as CalibratedELBO
