"""Joint optimisation: decisions are further parameters of the bound."""

from dataclasses import dataclass
from typing import ClassVar, final

from stakes._types import Array, Batch, Key, Params
from stakes.optimise.ascent import Chart, ascend, bound, start
from stakes.optimise.settings import FitSettings
from stakes.optimise.step import Info, State, Step
from stakes.port import Approximation, Rows, columns_in, normals_of, rows_of_params
from stakes.protocols import Gain, Objective, Space
from stakes.spaces import Real
from stakes.vectors import leading


@final
@dataclass(frozen=True)
class Joint:
    """Gradient ascent on the bound over variational parameters and decisions together.

    Examples:
        >>> import stakes
        >>> stakes.Joint().objection(stakes.Linearized()(stakes.Squared(), 1.0)) is None
        True
    """

    by_gradient: ClassVar[bool] = True
    """Decisions follow a gradient, which they cannot in every space."""

    def objection(self, gain: Gain) -> str | None:
        return None

    def init(self, params: Params, decisions: Array, settings: FitSettings) -> State:
        variables = {"params": params, "decisions": decisions}
        return start(variables, variables, settings.transformation())

    def step(self, objective: Objective, settings: FitSettings) -> Step:
        optimizer, parted = settings.transformation(), len(leading(objective.space))

        def step(
            approximation: Approximation, state: State, key: Key, batch: Batch
        ) -> tuple[State, Info]:
            at = {
                "params": rows_of_params(approximation, state.variables["params"], batch),
                "decisions": Rows.of(approximation.instances, batch, leading=parted),
            }
            here = objective.at(columns_in(approximation, objective.needs, batch))
            variables, state, info = ascend(
                optimizer,
                lambda part: bound(
                    approximation, here.term, settings.draws, key, batch, **part, parts=parted
                ),
                state.variables,
                at,
                state,
                chart=_chart(here.space),
                normals=normals_of(approximation),
            )
            return state._replace(variables=variables), info

        return step


def _chart(space: Space) -> Chart | None:
    """Coordinates in which decisions have no limits."""
    if isinstance(space, Real):
        return None
    return Chart(
        lambda here: {**here, "decisions": space.free(here["decisions"])},
        lambda free: {**free, "decisions": space.held(free["decisions"])},
    )
