"""Section 5 of the paper: from a problem and data to calibrated decisions."""

import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stakes import checks
from stakes._types import Key
from stakes.errors import InputError, warn
from stakes.fitting import Method, Stop
from stakes.host.progress import waiting
from stakes.host.workers import checked_client, shared_folder
from stakes.problem import Problem, checked_key
from stakes.protocols import Estimator, Expectation, Transform
from stakes.study.calibration import Calibration
from stakes.study.data import Coords, InputData
from stakes.study.fits import PAPER
from stakes.study.gang_fits import fit_on_workers
from stakes.study.options import Journal, KeyWords, Options
from stakes.study.study import Study, Work
from stakes.tables import Stream

if TYPE_CHECKING:
    import optax
    from distributed import Client


def calibrate(
    key: Key,
    problem: Problem,
    data: InputData,
    *,
    transform: Transform | None = None,
    method: Method | None = None,
    expectation: Expectation | None = None,
    estimator: Estimator | None = None,
    steps: int = 30_000,
    draws: int | None = None,
    independent: bool = False,
    optimizer: "optax.GradientTransformation | None" = None,
    all_steps: bool = False,
    warm_start: bool = True,
    options: Options | None = None,
    coords: Coords | None = None,
    progress: bool = True,
    journal: Journal | None = None,
    on: object = None,
) -> Calibration:
    """Fit plain VI, find M_q, transform the loss, and fit the calibrated posterior.

    Args:
        key: a JAX random key; the same key gives the same result.
        problem: model, outcome, loss or utility, and guide.
        data: the model's arguments by name; the one named like the outcome has the observations. Or
            a table whose columns have these names. Its index labels the rows, words become codes in
            alphabetical order, and decisions come back as a column with that index. For a column of
            dates, `day`, the argument `day_weekday` gets the weekday and `day_days` the days since
            the first one; likewise year, quarter, month, week, day, dayofyear and hour. A `Stream`
            is a table that may be larger than memory.
        transform: from loss to utility, `Linearized(quantile=0.9)` by default; not for a problem
            that is given by a utility.
        method: `Joint()`, the default, or `EM()`, the default for whole numbers and actions.
        expectation: how the loss or utility is averaged over outcomes; by default the first of the
            library's expectations that applies.
        estimator: of the utility term, where the transform puts a utility inside a logarithm.
        steps: at most this many, for each of the two fits. Fewer than the default are taken for a
            trial run, in which a fit that does not converge gives no warning.
        draws: of θ at each step; 10 by default, 32 for small problems.
        independent: draw each θ independently. By default draws from mean-field normal guides come
            in pairs and are evenly spread, which makes fits less noisy.
        optimizer: any optax optimiser; by default natural gradients, for guides made of normals,
            and Adam together, in steps that shrink where gradients are all noise. Step sizes are
            reduced tenfold, twice, as the bound levels off, and again until that gains nothing
            more.
        all_steps: take every step at the optimiser's own step size, for an optimiser with a
            schedule of `steps` steps. With a rate that falls to zero the bound always levels off,
            so such a fit is never called converged: look at its trace.
        warm_start: whether the calibrated fit starts from VI's optimum.
        options: all of these as one value, instead of them.
        coords: labels of the plates' members, by plate; `decide` recognises members by them.
        progress: whether to show a progress bar on a terminal.
        journal: keeps a record of both fits, from which they can be resumed.
        on: a `dask.distributed.Client`: its workers make both fits together. The rows of
            minibatches are divided among them, and with the rows local parameters, decisions and
            their optimiser state.

    Examples:
        >>> import jax, numpyro, numpyro.distributions as dist, stakes
        >>> def coin(n, y=None):
        ...     p = numpyro.sample("p", dist.Beta(1, 1))
        ...     with numpyro.plate("toss", n):
        ...         numpyro.sample("y", dist.Bernoulli(p), obs=y)
        >>> problem = stakes.Problem(coin, outcome="y", loss=stakes.Squared())
        >>> data = {"n": 4, "y": jax.numpy.array([1, 1, 0, 1])}
        >>> result = stakes.calibrate(jax.random.key(0), problem, data, steps=300)
        >>> result.decisions.dims
        ('toss',)
    """
    chosen = Options(
        transform=transform,
        method=method,
        expectation=expectation,
        estimator=estimator,
        steps=steps,
        draws=draws,
        independent=independent,
        optimizer=optimizer,
        all_steps=all_steps,
        warm_start=warm_start,
    ).replaced_by(options, "calibrate")
    work = Work(progress=checks.flag("`progress=`", progress), journal=journal)
    client = None if on is None else checked_client(on)
    if client is not None and journal is not None:
        raise InputError("`journal=`: workers keep one of their own; leave it out with `on=`.")
    if client is None:
        study = Study(key, problem, data, chosen, coords=coords, work=work)
    else:
        study = _fitted_on(client, key, problem, data, chosen, coords, work)
    result = calibration_of(study)
    _warn_of_unconverged(result, chosen)
    return result


def _fitted_on(
    client: "Client",
    key: Key,
    problem: Problem,
    data: InputData,
    options: Options,
    coords: Coords | None,
    work: Work,
) -> Study:
    """A study with the fits that workers have made; they alone have all rows of a stream."""
    make = partial(_study, KeyWords.of(checked_key(key)), problem, data, options, coords)
    given: object = data
    study = None if isinstance(given, Stream) else make(work)
    batch = None if study is None else study.plan.divided_batch()
    folder = tempfile.mkdtemp(prefix="stakes-", dir=shared_folder())
    try:
        with waiting("fitting on the workers", show=work.progress):
            made = fit_on_workers(client, make, Path(folder) / "fits.npz", batch=batch)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if study is None:
        rows: Any = made.stream
        study = Study(key, problem, rows, options, coords=coords, work=work)
    made.handed_to(study)
    return study


def _study(
    words: KeyWords,
    problem: Problem,
    data: InputData,
    options: Options,
    coords: Coords | None,
    work: Work,
) -> Study:
    """The study, made again in another process."""
    return Study(words.key(), problem, data, options, coords=coords, work=work)


def calibration_of(study: Study, *, plain: bool = False) -> Calibration:
    """Carry out section 5 of the paper: plain VI, M_q, and the calibrated fit.

    1. Plain VI maximises ELBO(λ).
    2. The posterior it finds has a Bayes decision h_i for each case. The q-quantile of the losses
       ℓ(y_i, h_i) is M_q, the scale on which the loss becomes a utility.
    3. The calibrated fit maximises ELBO(λ) + U(λ, h), starting from plain VI's λ and h.

    Args:
        study: without folds.
        plain: leave the calibrated fit out.
    """
    study.strengths.clear()
    if not plain:
        study.ask(None, PAPER)
    everything, fits = study.everything, study.fits()
    vi = fits.plain(everything)
    if plain:
        plan, calibrated = fits.sized, fits.not_made(Stop.LEFT_OUT)
    else:
        calibrated = fits.calibrated(PAPER, everything)
        plan = fits.reference().plan  # with M_q, found before the calibrated fit
    return Calibration(
        plan=plan,
        keys=study.keys,
        vi=vi,
        calibrated=calibrated,
        beyond=study.beyond,
        home=fits.cases(plan.expectation),
    )


def _warn_of_unconverged(result: Calibration, options: Options) -> None:
    trial = options.all_steps or options.steps < Options.steps
    bad = {Stop.NUMERICAL_FAILURE} if trial else {Stop.NUMERICAL_FAILURE, Stop.STEP_LIMIT}
    ended = [
        f"{name} {fit.reason} after {fit.steps:,} steps"
        for name, fit in result.fits.items()
        if fit.reason in bad
    ]
    if ended:
        warn(
            f"{' and '.join(ended)}, before it converged: with more steps the decisions may "
            f"change. Give more `steps=` or another `optimizer=`, and look at the `bound` of "
            f"`result.vi` and `result.calibrated`, one number for each step."
        )
