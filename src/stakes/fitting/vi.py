"""Plain variational inference: maximise the ELBO."""

from dataclasses import dataclass
from typing import final

from stakes._types import Batch, Key, Params
from stakes.fitting.ascent import climb, start
from stakes.fitting.settings import FitSettings
from stakes.fitting.step import Info, State, Step
from stakes.port import Approximation, rows_of_params


@final
@dataclass(frozen=True)
class VI:
    """Reparameterised gradient ascent on the ELBO."""

    def init(self, params: Params, settings: FitSettings) -> State:
        return start({"params": params}, params, settings.transformation())

    def step(self, settings: FitSettings) -> Step:
        def step(
            approximation: Approximation, state: State, key: Key, batch: Batch
        ) -> tuple[State, Info]:
            params = state.variables["params"]
            params, state, info, _ = climb(
                approximation,
                state,
                key,
                batch,
                settings=settings,
                trained=params,
                rows=rows_of_params(approximation, params, batch),
                split=lambda part: (part, None),
            )
            return state._replace(variables={"params": params}), info

        return step
