"""A check before a run: the model traced, and its work timed on a small scale; nothing is kept."""

import time
from dataclasses import asdict, dataclass
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
from stakes.study import Forward, Plan

CHUNK = 20
# Of the chunks that are timed, and the seconds after which no more are.
FEWEST, MOST, PATIENCE = 3, 50, 5.0
# As long as deciding about the rows of a fit takes, so do decisions and predictions for others; and
# the seconds that a page takes.
PASSES, PAGE = 3, 5.0
# Of the time that fits would take one by one, what a compiled batch of them takes at best.
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
    """What is known of a run before it starts; times are in seconds.

    Attributes:
        formula: what a formula says and which priors it has, in words; nothing for other models.
        refit: rows of the fits that decide about new ones, where they are others.
        least_steps: the fewest that a fit takes before it can be called converged.
        least_seconds: if all fits take the fewest steps.
        seconds: the same if they take all their steps.
        deciding_seconds: of decisions after the fits, and of the report.
        ways: ways to a decision to choose among; none where the choice is left out.
        least_choice_seconds: the same for the fits of the choice; NUTS and corrections take extra
            time.
        notes: what is odd about the tables, but stops no fit.
        about: how files are written, and what their columns hold.
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

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def checked(job: Job) -> Checked:
    checks.instance("`job`", job, Job, "what `read_job(path)` returns")
    key = jax.random.key(job.spec.seed)
    begin("tracing the model")
    study = study_of(job)
    check_study(study, job)
    whole = job_on_all_rows(job)
    pairs = 1 if whole is None else 2
    plan = study.plan
    approximation, settings = plan.approximation, plan.settings
    least = least_steps(sweeping(settings, approximation, approximation.start))
    least = min(settings.steps, least)
    which = (
        "both fits and timing some of their" if job.calibrates else "the fit and timing some of its"
    )
    begin(f"compiling {which} steps")
    rehearsed = _rehearsed(plan, key, calibrated=job.calibrates)
    return Checked(
        problem=repr(job.problem),
        formula=str(job.problem.model) if job.by_table else "",
        sites=_sites(plan),
        arguments=tuple(_argument(name, value) for name, value in job.fit.arguments.items()),
        rows=job.rows_in(job.fit),
        held_out=0 if job.held_out is None else job.rows_in(job.held_out),
        refit=0 if whole is None else whole.rows_in(whole.fit),
        parameters=sum(leaf.size for leaf in jax.tree.leaves(approximation.start)),
        minibatches=", ".join(
            f"{part.batch_size} of {part.size} {part.plate}" for part in approximation.subsamples
        )
        or "none",
        expectation=rehearsed.expectation,
        least_steps=least,
        steps=settings.steps,
        megabytes=rehearsed.bytes / 1e6,
        least_seconds=pairs * rehearsed.seconds(least),
        seconds=pairs * rehearsed.seconds(settings.steps),
        deciding_seconds=(pairs + PASSES) * rehearsed.deciding + PAGE,
        ways=() if job.choosing is None else tuple(way.name for way in job.choosing.ways),
        folds=_folds(job),
        least_choice_seconds=rehearsed.choosing(job, least) * TOGETHER,
        choice_seconds=rehearsed.choosing(job, settings.steps),
        notes=job.notes,
        about=job.tables.about,
    )


def _folds(job: Job) -> int:
    folds = 0 if job.choosing is None else job.choosing.folds
    return folds.blocks if isinstance(folds, Forward) else int(folds)


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


@final
@dataclass(frozen=True)
class _Rehearsed:
    """What the parts of a run took.

    Attributes:
        compiling: of VI and of the calibrated fit together.
        deciding: seconds to decide about all rows, with what has to be compiled for it.
    """

    expectation: str
    bytes: float
    compiling: float
    vi_step: float
    calibrated_step: float
    deciding: float

    def seconds(self, steps: int) -> float:
        """Of both fits."""
        return self.compiling + steps * (self.vi_step + self.calibrated_step)

    def choosing(self, job: Job, steps: int) -> float:
        """Of a fit for each fold, one for everything, and all strengths, one after the other."""
        if job.choosing is None:
            return 0.0
        each = self.vi_step + len(job.choosing.calibrated) * self.calibrated_step
        return self.compiling + (_folds(job) + 1) * steps * each


def _rehearsed(plan: Plan, key: jax.Array, *, calibrated: bool) -> _Rehearsed:
    """A few steps of plain VI, and of the calibrated fit from there, if there is to be one."""
    vi = _steps(plan, plan.vi_step(), plan.vi_state(plan.approximation.start), key)
    # After some steps: where the guide starts, outcomes may spread over many more values.
    plan = plan.sized(vi.params, key)
    deciding = _deciding(plan, vi.params, key)
    if not calibrated:
        return _Rehearsed(str(plan.expectation), vi.bytes, vi.compiling, vi.step, 0.0, deciding)
    parts = plan.problem.space.axes
    decisions = np.zeros((*parts, *plan.approximation.instances.shape))
    fit = _steps(plan, plan.step(1.0), plan.state(vi.params, decisions), key)
    return _Rehearsed(
        expectation=str(plan.expectation),
        bytes=max(vi.bytes, fit.bytes),
        compiling=vi.compiling + fit.compiling,
        vi_step=vi.step,
        calibrated_step=fit.step,
        deciding=deciding,
    )


def _deciding(plan: Plan, params: Params, key: jax.Array) -> float:
    posterior, started = FittedPosterior(plan.approximation, params), time.perf_counter()
    task, predictor = plan.problem.task, plan.predictors.on()
    predicting.decide(task, posterior, predictor, plan.expectation, key)
    return time.perf_counter() - started


class _Steps(NamedTuple):
    params: Params
    bytes: float
    compiling: float
    step: float


def _steps(plan: Plan, step: Step, state: State, key: jax.Array) -> _Steps:
    """The first steps of a fit: as many as fit into a short time."""
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
    return _Steps(state.variables["params"], size, compiling, float(np.median(took)) / CHUNK)
