"""The port: what the algorithms need from a model and its approximation.

`approximation` says what that is, `minibatches` which rows a step sees, and `division` how rows are
divided among processes.

An algorithm that uses nothing else can be tested on any model, such as a Gaussian whose optimum is
known.
"""

from stakes.port.approximation import Approximation as Approximation
from stakes.port.approximation import Draw as Draw
from stakes.port.approximation import Instances as Instances
from stakes.port.approximation import NormalPair as NormalPair
from stakes.port.approximation import Outcome as Outcome
from stakes.port.approximation import Response as Response
from stakes.port.approximation import Subsample as Subsample
from stakes.port.approximation import normals_of as normals_of
from stakes.port.approximation import outcome_at as outcome_at
from stakes.port.approximation import responds as responds
from stakes.port.approximation import steps_of_a_pass as steps_of_a_pass
from stakes.port.division import Division as Division
from stakes.port.minibatches import Batches as Batches
from stakes.port.minibatches import RowIndex as RowIndex
from stakes.port.minibatches import columns_in as columns_in
from stakes.port.minibatches import count_in as count_in
from stakes.port.minibatches import gather as gather
from stakes.port.minibatches import over_batches as over_batches
from stakes.port.minibatches import params_in as params_in
from stakes.port.minibatches import rows_of_decisions as rows_of_decisions
from stakes.port.minibatches import rows_of_params as rows_of_params
from stakes.port.minibatches import scatter as scatter
from stakes.port.minibatches import sweep as sweep
