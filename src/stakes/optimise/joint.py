"""Joint optimisation: decisions are further parameters of the bound."""

from dataclasses import dataclass
from typing import final

from stakes._types import Array, Batch, Key, Params
from stakes.optimise.ascent import ascend, bound, start
from stakes.optimise.settings import FitSettings
from stakes.optimise.step import Info, State, Step
from stakes.port import Approximation, Rows, rows_of_params
from stakes.protocols import Gain, Objective


@final
@dataclass(frozen=True)
class Joint:
    """Gradient ascent on the bound over variational parameters and decisions together.

    Examples:
        >>> import stakes
        >>> stakes.Joint().objection(stakes.Linearized()(stakes.Squared(), 1.0)) is None
        True
    """

    def objection(self, gain: Gain) -> str | None:
        return None

    def init(self, params: Params, decisions: Array, settings: FitSettings) -> State:
        variables = {"params": params, "decisions": decisions}
        return start(variables, variables, settings.transformation())

    def step(self, objective: Objective, settings: FitSettings) -> Step:
        optimizer, term = settings.transformation(), objective.term

        def step(
            approximation: Approximation, state: State, key: Key, batch: Batch
        ) -> tuple[State, Info]:
            at = {
                "params": rows_of_params(approximation, state.variables["params"], batch),
                "decisions": Rows.of(approximation.instances, batch),
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
