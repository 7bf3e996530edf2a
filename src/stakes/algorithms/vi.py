"""Plain variational inference: maximise the ELBO."""

from dataclasses import dataclass
from typing import final

from stakes import rows
from stakes.algorithms.ascent import ascend, bound, start
from stakes.approximation import Approximation
from stakes.fitting import Fitting, Info, State, Step
from stakes.typing import Batch, Key, Params


@final
@dataclass(frozen=True)
class VI:
    """Reparameterised gradient ascent on the ELBO."""

    def init(self, params: Params, settings: Fitting) -> State:
        return start({"params": params}, params, settings.transformation())

    def step(self, settings: Fitting) -> Step:
        optimizer = settings.transformation()

        def step(
            approximation: Approximation, state: State, key: Key, batch: Batch
        ) -> tuple[State, Info]:
            params = state.variables["params"]
            params, state, info = ascend(
                optimizer,
                lambda here: bound(approximation, None, settings.draws, key, batch, here, None),
                params,
                rows.of_params(approximation, params, batch),
                state,
            )
            return state._replace(variables={"params": params}), info

        return step
