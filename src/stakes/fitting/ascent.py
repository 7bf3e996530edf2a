"""One stochastic gradient step on a bound, at the cost of the rows in the minibatch.

Variables with a row per member of a subsampled plate (local variational parameters, decisions) are
gathered for the members in the batch, differentiated and updated with their share of the
optimiser's state, and scattered back: the cost of a step does not grow with the plate.

The bound is eq. 1 of the paper, ELBO(λ) + Σ_i U(λ, h_i), estimated with the same reparameterised
draws of θ for both terms.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from stakes import checks
from stakes._types import Array, Batch, Distribution, Float, Key, Params, PyTree
from stakes.decisions import Regret
from stakes.errors import check_shape
from stakes.fitting.noise import noise_for
from stakes.fitting.settings import FitSettings, check_optimizer
from stakes.fitting.step import Info, State
from stakes.host.compiling import once
from stakes.port import (
    Approximation,
    Draw,
    NormalPair,
    Outcome,
    RowIndex,
    gather,
    normals_of,
    responds,
    scatter,
)
from stakes.protocols import UtilityTerm

if TYPE_CHECKING:
    import optax

Bound: TypeAlias = Callable[[PyTree], tuple[Array, tuple[Array, Array, *tuple[Any, ...]]]]
"""Variables in the batch -> bound, (elbo, utility) and whatever else the step is to hand on."""

# The rows of an array that has none of its own: it is taken as a whole.
WHOLE = RowIndex({}, {})


class Outcomes(NamedTuple):
    """Predicted outcomes at some draws of θ, which decisions are made for.

    Attributes:
        each: p(y|θ), stacked over the draws.
        weight: how much each case counts.
    """

    each: Distribution
    weight: Array


class Chart(NamedTuple):
    """Coordinates for variables in the batch in which they have no limits.

    Attributes:
        free: from the variables to these coordinates.
        held: from these coordinates back, inside the limits.
    """

    free: Callable[[PyTree], PyTree]
    held: Callable[[PyTree], PyTree]


# Coordinates of variables without limits: their own.
SAME = Chart(lambda variables: variables, lambda free: free)


def start(variables: PyTree, trained: PyTree, optimizer: "optax.GradientTransformation") -> State:
    """Return the state before the first step.

    Args:
        variables: everything that is optimised or decided.
        trained: the variables that follow the gradient, for which the optimiser keeps state.
        optimizer: the optax optimiser.
    """
    return State(
        variables=variables,
        optimizer=optimizer.init(trained),
        rate=jax.device_put(np.ones((), jnp.result_type(float))),
        taken=jax.device_put(np.int32(0)),
        skipped=jax.device_put(np.int32(0)),
    )


def ascend(
    optimizer: "optax.GradientTransformation",
    objective: Bound,
    trained: PyTree,
    trained_rows: PyTree,
    state: State,
    *,
    chart: Chart | None = None,
    normals: tuple[NormalPair, ...] = (),
) -> tuple[PyTree, State, Info, *tuple[PyTree, ...]]:
    """One step up in the trained variables; skipped where value or gradient is not finite.

    With a `chart`, the step is one in other coordinates, in which there are no limits. The
    optimiser is told which parameters belong to `normals`, and which share of its step is taken.
    What the objective
    returns beside elbo and utility comes last.
    """
    import optax

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
    (value, (elbo, utility, *kept)), slope = jax.value_and_grad(
        lambda free: objective(chart.held(free)), has_aux=True
    )(here)
    is_finite = jnp.isfinite(value) & _all_finite(slope)
    updates, memory_after = optax.with_extra_args_support(optimizer).update(
        jax.tree.map(jnp.negative, slope),
        memory,
        here,
        value=-value,
        normals=normals,
        share_taken=state.rate,
    )
    after = jax.tree.map(lambda old, update: old + state.rate * update, here, updates)
    after, memory_after = jax.tree.map(
        lambda new, old: jnp.where(is_finite, new, old), (after, memory_after), (here, memory)
    )
    return (
        scatter(trained, chart.held(after), trained_rows),
        state._replace(
            optimizer=scatter(state.optimizer, memory_after, state_rows),
            taken=state.taken + 1,
            skipped=jnp.where(is_finite, 0, state.skipped + 1),
        ),
        Info(elbo, utility, is_finite),
        *kept,
    )


class Trained(NamedTuple):
    """What a step moves: variables, and which of their rows.

    Attributes:
        split: variables in the batch -> the parameters and decisions that they stand for.
    """

    variables: PyTree
    rows: PyTree
    split: Callable[[PyTree], tuple[Params, Array | None]]
    chart: Chart = SAME


def climb(
    approximation: Approximation,
    state: State,
    key: Key,
    batch: Batch,
    settings: FitSettings,
    trained: Trained,
    term: UtilityTerm | None = None,
) -> tuple[PyTree, State, Info, Outcomes | None]:
    """Take one step up the bound.

    Args:
        approximation: model and guide, with their data.
        state: before the step.
        key: for the draws of θ.
        batch: the members in this minibatch.
        settings: how many draws, and which optimiser.
        trained: what is moved.
        term: the utility term; None for the ELBO alone.

    Returns:
        The trained variables, the state and what to report of the step. The outcomes at its draws
        come last; None where they respond to decisions.
    """
    draws, independent = settings.draws, settings.independent

    def objective(part: PyTree) -> tuple[Array, tuple[Array, Array, Outcomes | None]]:
        params, decisions = trained.split(part)
        drawn = draws_of(approximation, params, key, batch, draws, independent=independent)
        return _bound_and_outcomes(approximation, term, decisions, *drawn)

    after, state, info, outcomes = ascend(
        settings.transformation(),
        objective,
        trained.variables,
        trained.rows,
        state,
        chart=trained.chart,
        normals=normals_of(approximation),
    )
    return after, state, info, outcomes


def bound(
    approximation: Approximation,
    term: UtilityTerm | None,
    draws: int,
    key: Key,
    batch: Batch,
    params: Params,
    decisions: Float[Array, "*instance"] | None,
    *,
    independent: bool = False,
) -> tuple[Array, tuple[Array, Array]]:
    """Estimate ELBO + Σ_i U(λ, h_i), eq. 1, with the same draws of θ for both terms.

    Args:
        approximation: model and guide, with their data.
        term: the utility term; None for the ELBO alone.
        draws: the number of draws of θ.
        key: for these draws, and for random expectations.
        batch: the members in this minibatch.
        params: the variational parameters, unconstrained.
        decisions: may have axes before those of the cases, for the parts of a decision.
        independent: whether draws are independent, instead of in pairs and evenly spread.

    Returns:
        The bound, and its two terms.
    """
    draws = checks.whole("`bound(draws=...)`", draws)
    independent = checks.flag("`bound(independent=...)`", independent)
    if term is not None:
        checks.function("`bound(term=...)`", term, ("key", "outcome", "decisions"))

    drawn = draws_of(approximation, params, key, batch, draws, independent=independent)
    value, (elbo, utility, _) = _bound_and_outcomes(approximation, term, decisions, *drawn)
    return value, (elbo, utility)


def _bound_and_outcomes(
    approximation: Approximation,
    term: UtilityTerm | None,
    decisions: Array | None,
    drawn: Draw,
    y_keys: Key,
) -> tuple[Array, tuple[Array, Array, Outcomes | None]]:
    elbo = drawn.log_ratio.mean()
    if term is None or decisions is None:
        return elbo, (elbo, jnp.zeros(()), None)

    def gained(key: Key, outcome: Outcome, weight: Array) -> Array:
        each = here(key, outcome, decisions)
        shape = decisions.shape[jnp.ndim(decisions) - weight.ndim :]
        check_shape("The utility term of the loss or utility", each.shape, shape)
        counted = jnp.where(weight > 0, weight * each, 0.0)
        # As a product, since XLA's own sums keep the threads of a CPU waiting for one another.
        return jnp.vdot(jnp.ones_like(counted), counted, precision="highest")

    outcomes = jax.tree.map(once, drawn.outcome)
    here = term
    if isinstance(term, Regret):
        search_key = jax.random.fold_in(y_keys[0], 1)
        here = term.among(search_key, outcomes, drawn.weight[0], decisions)
    utility = jax.vmap(gained)(y_keys, outcomes, drawn.weight).mean()
    # A response runs the model again, with parameters that mean nothing outside of this gradient.
    kept = None if responds(drawn.outcome) else Outcomes(outcomes, drawn.weight[0])
    return elbo + utility, (elbo, utility, kept)


def draws_of(
    approximation: Approximation,
    params: Params,
    key: Key,
    batch: Batch,
    draws: int,
    *,
    independent: bool,
) -> tuple[Draw, Key]:
    """Draws of θ, along a leading axis, and for each a key for what comes next.

    Those of normals are in pairs and evenly spread, unless they are to be `independent`.
    """

    def draw(key: Key, noise: dict[str, Array]) -> Draw:
        return approximation.draw(params, key, batch, noise)

    normals = () if independent else normals_of(approximation)
    noise = noise_for(normals, params, jax.random.fold_in(key, draws), draws)
    if approximation.division is not None:  # or processes would make parts of it for each other
        noise = approximation.division.everywhere(noise)
    keys = jax.vmap(jax.random.split)(jax.random.split(key, draws))
    return jax.vmap(draw)(keys[:, 0], noise), keys[:, 1]


def _all_finite(tree: PyTree) -> Array:
    # As a sum, which processes find in one message with those of the gradient.
    bad = [jnp.sum(~jnp.isfinite(leaf), dtype=float) for leaf in jax.tree.leaves(tree)]
    return jnp.array(bad).sum() == 0
