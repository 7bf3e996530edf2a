"""One stochastic gradient step on a bound, at the cost of the rows in the minibatch.

Variables with a row per member of a subsampled plate (local variational parameters, decisions)
are gathered for the members in the batch, differentiated and updated with their share of the
optimiser's state, and scattered back: the cost of a step does not grow with the plate.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import optax

from stakes import checks
from stakes._types import Array, Batch, Float, Key, Params, PyTree
from stakes.errors import check_shape
from stakes.optimise.settings import check_optimizer
from stakes.optimise.step import Info, State
from stakes.port import Approximation, NormalPair, Rows, gather, scatter
from stakes.protocols import UtilityTerm

Bound: TypeAlias = Callable[[PyTree], tuple[Array, tuple[Array, Array]]]
"""Variables in the batch -> bound, (elbo, utility)."""

WHOLE = Rows({}, {})


class Chart(NamedTuple):
    """Coordinates for variables in the batch in which they have no limits, and back."""

    free: Callable[[PyTree], PyTree]
    held: Callable[[PyTree], PyTree]


SAME = Chart(lambda variables: variables, lambda free: free)


def start(variables: PyTree, trained: PyTree, optimizer: optax.GradientTransformation) -> State:
    return State(
        variables=variables,
        optimizer=optimizer.init(trained),
        rate=jax.device_put(np.ones((), jnp.result_type(float))),
        taken=jax.device_put(np.int32(0)),
        skipped=jax.device_put(np.int32(0)),
    )


def ascend(
    optimizer: optax.GradientTransformation,
    objective: Bound,
    trained: PyTree,
    trained_rows: PyTree,
    state: State,
    *,
    chart: Chart | None = None,
    normals: tuple[NormalPair, ...] = (),
) -> tuple[PyTree, State, Info]:
    """One step up in the trained variables; skipped where value or gradient is not finite.

    With a `chart`, the step is one in other coordinates, in which there are no limits. The
    optimiser is told which parameters belong to `normals`.
    """
    check_optimizer("`ascend(optimizer=...)`", optimizer)
    checks.function("`ascend(objective=...)`", objective, ("variables",))
    checks.instance("`ascend(state=...)`", state, State, "a `State`, as `init` or a step left it")
    state_rows = optax.tree_map_params(
        optimizer,
        lambda _, at: at,
        state.optimizer,
        trained_rows,
        transform_non_params=lambda _: WHOLE,
    )
    chart = chart or SAME
    here, memory = chart.free(gather(trained, trained_rows)), gather(state.optimizer, state_rows)
    (value, (elbo, utility)), slope = jax.value_and_grad(
        lambda free: objective(chart.held(free)), has_aux=True
    )(here)
    updates, memory_after = optax.with_extra_args_support(optimizer).update(
        jax.tree.map(jnp.negative, slope), memory, here, value=-value, normals=normals
    )
    after = jax.tree.map(lambda old, update: old + state.rate * update, here, updates)
    finite = jnp.isfinite(value) & _all_finite(slope)
    after, memory_after = jax.tree.map(
        lambda new, old: jnp.where(finite, new, old), (after, memory_after), (here, memory)
    )
    return (
        scatter(trained, chart.held(after), trained_rows),
        state._replace(
            optimizer=scatter(state.optimizer, memory_after, state_rows),
            taken=state.taken + 1,
            skipped=jnp.where(finite, 0, state.skipped + 1),
        ),
        Info(elbo, utility, finite),
    )


def bound(
    approximation: Approximation,
    term: UtilityTerm | None,
    draws: int,
    key: Key,
    batch: Batch,
    params: Params,
    decisions: Float[Array, "*instance"] | None,
    *,
    parts: int = 0,
) -> tuple[Array, tuple[Array, Array]]:
    """ELBO + Σ_i U(λ, h_i), eq. 1, estimated with the same draws of θ for both terms.

    Decisions have `parts` axes before those of the instances.
    """

    draws = checks.whole("`bound(draws=...)`", draws)
    if term is not None:
        checks.function("`bound(term=...)`", term, ("key", "outcome", "decisions"))

    def one(key: Key) -> tuple[Array, Array]:
        theta_key, y_key = jax.random.split(key)
        draw = approximation.draw(params, theta_key, batch)
        if term is None or decisions is None:
            return draw.log_ratio, jnp.zeros(())
        here = term.weighing(draw.weight) if hasattr(term, "weighing") else term
        gained = here(y_key, draw.outcome, decisions)
        expected = decisions.shape[parts:]
        check_shape("The utility term of the loss or utility", gained.shape, expected)
        return draw.log_ratio, jnp.sum(jnp.where(draw.weight > 0, draw.weight * gained, 0.0))

    elbos, utilities = jax.vmap(one)(jax.random.split(key, draws))
    elbo, utility = elbos.mean(), utilities.mean()
    return elbo + utility, (elbo, utility)


def _all_finite(tree: PyTree) -> Array:
    return jnp.all(jnp.array([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree)]))
