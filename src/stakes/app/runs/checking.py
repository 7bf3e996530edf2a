"""A check before a run: the model traced and a few steps timed, with nothing kept."""

import time
from dataclasses import asdict, dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from stakes import checks
from stakes.app.spec import Job
from stakes.calibration import Plan, prepare
from stakes.optimise import FitSettings, State, Step, compiled
from stakes.port import Batches


@final
@dataclass(frozen=True)
class Item:
    """A site or an argument of the model."""

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
    checks.instance("`job`", job, Job, "what `read_job(path)` returns")
    key = jax.random.key(job.spec.seed)
    plan = prepare(key, job.problem, job.fit.arguments, job.options)
    # A run sizes the expectation after VI; here it is sized where VI starts.
    plan = plan.sized(plan.approximation.start, key)
    approximation = plan.approximation
    bytes_, seconds = _cost(plan, key)
    return Checked(
        problem=repr(job.problem),
        sites=_sites(plan),
        arguments=tuple(_argument(name, value) for name, value in job.fit.arguments.items()),
        rows=job.rows_in(job.fit),
        held_out=0 if job.held_out is None else job.rows_in(job.held_out),
        parameters=sum(leaf.size for leaf in jax.tree.leaves(approximation.start)),
        minibatches=", ".join(
            f"{part.batch_size} of {part.size} {part.plate}" for part in approximation.subsamples
        )
        or "none",
        expectation=str(plan.expectation),
        steps=plan.settings.steps,
        megabytes=bytes_ / 1e6,
        seconds=seconds,
    )


def _sites(plan: Plan) -> tuple[Item, ...]:
    approximation, dtype = plan.approximation, str(jnp.result_type(float))
    latents = [
        Item(name, "latent", latent.shape, latent.dims, dtype)
        for name, latent in approximation.latents.items()
    ]
    outcome, instances = plan.problem.outcome, approximation.instances
    own = approximation.data[outcome]
    return (
        *latents,
        Item(outcome, "outcome", instances.shape, instances.dims, str(np.asarray(own).dtype)),
    )


def _argument(name: str, value: Any) -> Item:
    array = np.asarray(value)
    return Item(name, "column" if array.ndim else "constant", array.shape, (), str(array.dtype))


def _cost(plan: Plan, key: jax.Array) -> tuple[float, float]:
    """Bytes and seconds of both fits, from one chunk of steps of each."""
    params = plan.approximation.start
    decisions = jnp.zeros(plan.approximation.instances.shape)
    steps: list[tuple[Step, State]] = [
        (plan.vi_step(), plan.vi_state(params)),
        (plan.step(1.0), plan.state(params, decisions)),
    ]
    costs = [_chunk_cost(plan, step, state, key) for step, state in steps]
    return max(size for size, _ in costs), sum(seconds for _, seconds in costs)


def _chunk_cost(plan: Plan, step: Step, state: State, key: jax.Array) -> tuple[float, float]:
    settings: FitSettings = plan.settings
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
