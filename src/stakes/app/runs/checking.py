"""A check before a run: the model is traced, and a few steps of its fits are timed.

Nothing is kept. The time of a run follows from these steps: a fit takes at least the fewest steps
after which it can be called converged, and at most all its steps.
"""

import time
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np

from stakes import checks, predicting
from stakes._types import Params
from stakes.app.runs.solution import check_study, study_of
from stakes.app.spec import Job, job_on_all_rows
from stakes.fitting import State, Step, compiled, least_steps, sweeping
from stakes.host.progress import begin
from stakes.port import Batches
from stakes.predicting import FittedPosterior
from stakes.study import Plan

# Steps that are timed together, as in a fit, so that what a call costs is spread over them.
CHUNK = 20
# The fewest and the most chunks that are timed, and the seconds after which no more are.
FEWEST, MOST, PATIENCE = 3, 50, 5.0
# Decisions for the rows of a fit are timed; predictions, rows held out and the report's tables take
# about as long each, and the report's page takes some seconds of its own.
PASSES, PAGE = 3, 5.0
# Fits of a choice are compiled as one batch, which at best takes this share of their time one by
# one: they read the same data.
TOGETHER = 1 / 3


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
    """The findings of a check; times are in seconds.

    Attributes:
        problem: model, outcome and loss, as they print.
        formula: the formula and its priors; empty for other models.
        sites: latents and outcome of the model.
        arguments: of the model, for the rows of the fit.
        rows: the number of rows to fit to.
        held_out: the number of rows that judge the fits.
        refit: the number of rows of the fits that decide about new rows, where these are other
            fits; 0 where they are the same.
        parameters: the number of parameters of the guide.
        minibatches: the size of minibatches, in words.
        expectation: how the loss is averaged over outcomes.
        least_steps: the fewest steps after which a fit can be called converged.
        steps: the most steps of a fit.
        megabytes: the memory of a compiled fit, with its data.
        least_seconds: the time of the fits if each takes the fewest steps.
        seconds: the time of the fits if each takes all its steps.
        deciding_seconds: the time of decisions and report, after the fits.
        ways: the strategies to choose among; none where the run makes no choice.
        folds: the number of folds of that choice.
        least_choice_seconds: the time of the fits of the choice if each takes the fewest steps.
            Corrections and NUTS take extra time.
        choice_seconds: the same if each takes all its steps.
        notes: what is odd about the tables, but stops no fit.
        about: how each file is written, and what each column holds.
    """

    problem: str
    formula: str
    sites: tuple[Item, ...]
    arguments: tuple[Item, ...]
    rows: int
    held_out: int
    refit: int
    parameters: int
    minibatches: str
    expectation: str
    least_steps: int
    steps: int
    megabytes: float
    least_seconds: float
    seconds: float
    deciding_seconds: float
    ways: tuple[str, ...]
    folds: int
    least_choice_seconds: float
    choice_seconds: float
    notes: tuple[str, ...]
    about: tuple[str, ...]


def checked(job: Job) -> Checked:
    """Check a job as far as that is possible without fitting, and estimate what a run takes.

    Args:
        job: what `read_job(path)` returns.

    Returns:
        What `stakes check` prints.

    Raises:
        InputError: where the model, its data or a strategy cannot be handled.
    """
    checks.instance("`job`", job, Job, "what `read_job(path)` returns")
    key = jax.random.key(job.spec.seed)
    begin("tracing the model")
    study = study_of(job)
    check_study(study, job)
    whole = job_on_all_rows(job)
    pairs = 1 if whole is None else 2
    plan = study.plan
    approximation, most = plan.approximation, plan.settings.steps
    least = min(most, least_steps(sweeping(plan.settings, approximation, approximation.start)))
    both = (
        "both fits and timing some of their" if job.calibrates else "the fit and timing some of its"
    )
    begin(f"compiling {both} steps")
    vi = _timed(plan, plan.vi_step(), plan.vi_state(approximation.start), key)
    # After some steps: where the guide starts, outcomes may spread over many more values.
    plan = plan.sized(vi.params, key)
    deciding, fits = _seconds_to_decide(plan, vi.params, key), [vi]
    if job.calibrates:
        decisions = np.zeros((*plan.problem.space.axes, *approximation.instances.shape))
        fits.append(_timed(plan, plan.step(1.0), plan.state(vi.params, decisions), key))
    compiling, step = sum(fit.compiling for fit in fits), sum(fit.step for fit in fits)
    folds, choice_step = len(study.splits.masks), 0.0
    if job.choosing is not None:
        one_fold = vi.step + sum(map(len, study.strengths.values())) * fits[-1].step
        choice_step = (folds + 1) * one_fold  # each fold, and everything
    batches = [f"{b.batch_size} of {b.size} {b.plate}" for b in approximation.subsamples]
    return Checked(
        problem=repr(job.problem),
        formula=str(job.problem.model) if job.by_table else "",
        sites=_sites(plan),
        arguments=tuple(_argument(name, value) for name, value in job.fit.arguments.items()),
        rows=job.rows_in(job.fit),
        held_out=0 if job.held_out is None else job.rows_in(job.held_out),
        refit=0 if whole is None else whole.rows_in(whole.fit),
        parameters=sum(leaf.size for leaf in jax.tree.leaves(approximation.start)),
        minibatches=", ".join(batches) or "none",
        expectation=str(plan.expectation),
        least_steps=least,
        steps=most,
        megabytes=max(fit.bytes for fit in fits) / 1e6,
        least_seconds=pairs * (compiling + least * step),
        seconds=pairs * (compiling + most * step),
        deciding_seconds=(pairs + PASSES) * deciding + PAGE,
        ways=() if job.choosing is None else tuple(way.name for way in job.choosing.ways),
        folds=folds,
        least_choice_seconds=(compiling + least * choice_step) * TOGETHER if folds else 0.0,
        choice_seconds=compiling + most * choice_step if folds else 0.0,
        notes=job.notes,
        about=job.tables.about,
    )


def _sites(plan: Plan) -> tuple[Item, ...]:
    approximation, dtype = plan.approximation, str(jnp.result_type(float))
    latents = [
        Item(name, "latent", latent.shape, latent.dims, dtype)
        for name, latent in approximation.latents.items()
    ]
    outcome, instances = plan.problem.outcome, approximation.instances
    own = approximation.data.get(plan.problem.observations)
    kind = dtype if own is None else str(np.asarray(own).dtype)
    return (*latents, Item(outcome, "outcome", instances.shape, instances.dims, kind))


def _argument(name: str, value: Any) -> Item:
    array = np.asarray(value)
    return Item(name, "column" if array.ndim else "constant", array.shape, (), str(array.dtype))


def _seconds_to_decide(plan: Plan, params: Params, key: jax.Array) -> float:
    """The time of decisions for all rows, including compilation."""
    posterior, started = FittedPosterior(plan.approximation, params), time.perf_counter()
    task, predictor = plan.problem.task, plan.predictors.on()
    predicting.decide(task, posterior, predictor, plan.expectation, key)
    return time.perf_counter() - started


class _Timed(NamedTuple):
    """The first steps of a fit.

    Attributes:
        params: the variational parameters after them.
        bytes: the memory of the compiled steps.
        compiling: the seconds that compilation took.
        step: the seconds that one step took.
    """

    params: Params
    bytes: float
    compiling: float
    step: float


def _timed(plan: Plan, step: Step, state: State, key: jax.Array) -> _Timed:
    """Take as many steps of a fit as a short time allows."""
    approximation = plan.approximation
    took: list[float] = []
    schedule = Batches(key, approximation.subsamples)
    state = jax.tree.map(lambda leaf: jnp.array(leaf, leaf.dtype), state)

    def given(done: int) -> dict[str, Any]:
        numbers = np.arange(done, done + CHUNK)
        return {"key": key, "numbers": numbers, "batches": schedule.take(done, CHUNK)}

    started = time.perf_counter()
    chunk = compiled(step)
    whole: Any = chunk.func
    program = whole.prepare(approximation, state, **given(0), **chunk.keywords)
    compiling = time.perf_counter() - started
    while len(took) < FEWEST or (sum(took) < PATIENCE and len(took) < MOST):
        started = time.perf_counter()
        state, info = chunk(approximation, state, **given(CHUNK * len(took)))
        info.elbo.block_until_ready()
        took.append(time.perf_counter() - started)
    memory = program.memory_analysis()
    size = 0  # where the backend does not say
    if memory is not None:
        size += memory.argument_size_in_bytes + memory.output_size_in_bytes
        size += memory.temp_size_in_bytes
    return _Timed(state.variables["params"], size, compiling, float(np.median(took)) / CHUNK)
