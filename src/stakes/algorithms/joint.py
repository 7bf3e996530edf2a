"""Joint optimisation: decisions are further parameters of the bound."""

from dataclasses import dataclass
from typing import final

from stakes import rows
from stakes.algorithms.ascent import ascend, bound, start
from stakes.approximation import Approximation
from stakes.expectation import Expectation
from stakes.fitting import Fitting, Info, State, Step
from stakes.typing import Array, Batch, Key, Params
from stakes.utilities import Gain
from stakes.utility_term import UtilityTerm


@final
@dataclass(frozen=True)
class Joint:
    """Gradient ascent on the bound over variational parameters and decisions together.

    >>> import stakes
    >>> stakes.Joint()
    Joint()
    """

    def init(self, params: Params, decisions: Array, settings: Fitting) -> State:
        variables = {"params": params, "decisions": decisions}
        return start(variables, variables, settings.transformation())

    def step(
        self, term: UtilityTerm, gain: Gain, expectation: Expectation, settings: Fitting
    ) -> Step:
        optimizer = settings.transformation()

        def step(
            approximation: Approximation, state: State, key: Key, batch: Batch
        ) -> tuple[State, Info]:
            at = {
                "params": rows.of_params(approximation, state.variables["params"], batch),
                "decisions": rows.of_decisions(
                    approximation.instances, approximation.subsamples, batch
                ),
            }
            variables, state, info = ascend(
                optimizer,
                lambda here: bound(approximation, term, settings.draws, key, batch, **here),
                state.variables,
                at,
                state,
            )
            return state._replace(variables=variables), info

        return step
