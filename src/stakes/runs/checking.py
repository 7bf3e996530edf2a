"""A run before it is made: traced and timed for a few steps, with nothing kept."""

import time
from dataclasses import asdict, dataclass, replace
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from stakes import evaluation, numpyro_adapter
from stakes.batches import Batches
from stakes.evaluation import Fitted
from stakes.expectation import Enumeration
from stakes.fitting import Fitting, State, Step, compiled
from stakes.preparation import Plan, prepare
from stakes.spec import Job


@final
@dataclass(frozen=True)
class Item:
    """A site of the model, or an argument of it."""

    name: str
    kind: str
    shape: tuple[int, ...]
    plates: tuple[str, ...]
    dtype: str


@final
@dataclass(frozen=True)
class Checked:
    problem: str
    sites: tuple[Item, ...]
    arguments: tuple[Item, ...]
    rows: int
    held_out: int
    parameters: int
    minibatches: str
    expectation: str
    steps: int
    megabytes: float
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def checked(job: Job) -> Checked:
    key = jax.random.key(job.spec.seed)
    options = {n: v for n, v in job.options.items() if n != "warm_start"}
    arguments = job.fit.arguments
    plan = prepare(key, job.problem, arguments, **options, coords=None, progress=False)
    plan = _with_window(plan, key)
    structure = plan.approximation.structure
    bytes_, seconds = _cost(plan, key)
    outcome = job.problem.outcome
    return Checked(
        problem=repr(job.problem),
        sites=_sites(plan, outcome),
        arguments=tuple(_argument(name, value) for name, value in arguments.items()),
        rows=len(arguments[outcome]),
        held_out=0 if job.held_out is None else len(job.held_out.arguments[outcome]),
        parameters=sum(leaf.size for leaf in jax.tree.leaves(structure.start)),
        minibatches=", ".join(f"{s.batch_size} of {s.size} {s.plate}" for s in structure.subsamples)
        or "none",
        expectation=str(plan.expectation),
        steps=plan.settings.steps,
        megabytes=bytes_ / 1e6,
        seconds=seconds,
    )


def _sites(plan: Plan, outcome: str) -> tuple[Item, ...]:
    structure, dtype = plan.approximation.structure, str(jnp.result_type(float))
    latents = [
        Item(name, "latent", latent.shape, latent.dims, dtype)
        for name, latent in structure.latents.items()
    ]
    own = plan.approximation.data[outcome]
    instances = structure.instances
    return (
        *latents,
        Item(outcome, "outcome", instances.shape, instances.dims, str(np.asarray(own).dtype)),
    )


def _argument(name: str, value: Any) -> Item:
    array = np.asarray(value)
    return Item(name, "column" if array.ndim else "constant", array.shape, (), str(array.dtype))


def _with_window(plan: Plan, key: jax.Array) -> Plan:
    """Counts are summed over a window, which a run takes from VI; here from where VI starts."""
    if not isinstance(plan.expectation, Enumeration) or plan.expectation.points is not None:
        return plan
    posterior = Fitted(plan.approximation, plan.approximation.structure.start)
    predictor = numpyro_adapter.predictor(plan.problem, plan.approximation)
    wide = evaluation.widened(plan.expectation, posterior, predictor, key)
    return replace(plan, expectation=wide)


def _cost(plan: Plan, key: jax.Array) -> tuple[float, float]:
    """Bytes and seconds of both fits, from one chunk of steps of each."""
    params = plan.approximation.structure.start
    decisions = jnp.zeros(plan.approximation.instances.shape)
    steps: list[tuple[Step, State]] = [
        (plan.vi_step(), plan.vi_state(params)),
        (plan.step(1.0), plan.state(params, decisions)),
    ]
    costs = [_chunk_cost(plan, step, state, key) for step, state in steps]
    return max(size for size, _ in costs), sum(seconds for _, seconds in costs)


def _chunk_cost(plan: Plan, step: Step, state: State, key: jax.Array) -> tuple[float, float]:
    settings: Fitting = plan.settings
    count = min(settings.chunk, settings.steps)
    batches = Batches(key, plan.approximation.subsamples).take(0, count)
    state = jax.tree.map(lambda leaf: jnp.array(leaf, leaf.dtype), state)
    given: dict[str, Any] = {"key": key, "numbers": np.arange(count), "batches": batches}
    started = time.perf_counter()
    jitted: Any = compiled(step)
    chunk = jitted.lower(plan.approximation, state, **given).compile()
    compiling = time.perf_counter() - started
    started = time.perf_counter()
    _, info = chunk(plan.approximation, state, **given)
    info.elbo.block_until_ready()
    stepping = (time.perf_counter() - started) * settings.steps / count
    memory = chunk.memory_analysis()
    sizes = ("argument_size_in_bytes", "output_size_in_bytes", "temp_size_in_bytes")
    return sum(getattr(memory, size, 0) for size in sizes), compiling + stepping
