"""Joint optimisation: decisions are further parameters of the bound."""

from dataclasses import dataclass
from typing import ClassVar, final

from stakes._types import Array, Batch, Key, Params
from stakes.fitting.ascent import Chart, climb, start
from stakes.fitting.settings import FitSettings
from stakes.fitting.step import Info, State, Step
from stakes.port import (
    Approximation,
    columns_in,
    rows_of_decisions,
    rows_of_params,
)
from stakes.protocols import Gain, Groups, Objective, Space


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
        parted = len(objective.space.axes)

        def step(
            approximation: Approximation, state: State, key: Key, batch: Batch
        ) -> tuple[State, Info]:
            at = {
                "params": rows_of_params(approximation, state.variables["params"], batch),
                "decisions": rows_of_decisions(approximation, batch, leading=parted),
            }
            here = objective.at(columns_in(approximation, objective.needs, batch))
            variables, state, info, _ = climb(
                approximation,
                state,
                key,
                batch,
                settings=settings,
                trained=state.variables,
                rows=at,
                split=lambda part: (part["params"], part["decisions"]),
                term=here.term,
                parts=parted,
                chart=_chart(here.space, here.groups),
            )
            return state._replace(variables=variables), info

        return step


def _chart(space: Space, groups: Groups) -> Chart:
    """Coordinates in which decisions have no limits."""
    return Chart(
        lambda here: {**here, "decisions": space.to_line(groups.gather(here["decisions"]))},
        lambda free: {**free, "decisions": groups.spread(space.from_line(free["decisions"]))},
    )
