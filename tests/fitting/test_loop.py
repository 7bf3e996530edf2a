"""The loop: minibatches, stopping, numerical failure, interruption and rows of minibatches."""

import os
import signal
import threading
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pytest
from gaussian_port import LocalMeans, OneMean
from quick import quickly

import stakes
from stakes._types import Array, Key, Params
from stakes.decisions import objective_of
from stakes.expectation import ClosedForm
from stakes.fitting import (
    EM,
    MOST_SKIPPED,
    RATES,
    VI,
    Fit,
    FitSettings,
    History,
    Hooks,
    Joint,
    Stop,
    adaptive,
    are_drifting,
    default,
    has_stopped_rising,
    least_steps,
    natural_gradient,
    owned,
    run,
    stages,
    start_history,
)
from stakes.fitting.ascent import draws_of
from stakes.fitting.history import next_stage, verdict
from stakes.fitting.natural import natural_gradients
from stakes.host.progress import part_of
from stakes.port import (
    Approximation,
    Batches,
    Instances,
    NormalPair,
    RowIndex,
    Subsample,
    normals_of,
    over_batches,
    steps_of_a_pass,
)
from stakes.study import FileJournal, prepare

KEY = jax.random.key(0)
Y = jnp.array([6.0, 7.0, 5.5, 6.5])
SQUARED = stakes.Linearized()(stakes.Squared(), 4.0)


def fit_vi(port: Approximation, settings: FitSettings) -> Fit:
    state = VI().init(port.init(KEY), settings)
    return run("VI", VI().step(settings), port, state, jax.random.key(1), settings)


def fit_calibrated(
    port: Approximation, method: Joint | EM, settings: FitSettings, decisions: Array | None = None
) -> Fit:
    start = jnp.zeros(port.instances.shape) if decisions is None else decisions
    state = method.init(port.init(KEY), start, settings)
    objective = objective_of(SQUARED, ClosedForm())
    step = method.step(objective, settings)
    return run("calibrated", step, port, state, jax.random.key(1), settings)


def short(steps: int, **options: object) -> FitSettings:
    return FitSettings(steps=steps, draws=4, progress=False, **options)


# Progress ----------------------------------------------------------------------------------


def test_batches_without_an_instance_that_is_asked_about_are_left_out() -> None:
    computed: list[int] = []

    def question(batch: Any) -> Any:
        computed.append(int(batch["day"][0]))
        return np.outer(batch["day"] + 1.0, [1.0, 10.0])

    asked = np.zeros((7, 2), bool)
    asked[4, 1] = True
    instances = Instances((7, 2), ("day", "dish"))
    found = over_batches(question, instances, (Subsample("day", 7, 3),), asked=asked)
    assert computed == [3]
    np.testing.assert_array_equal(found[:, 1], [0, 0, 0, 40, 50, 60, 0])


def test_a_fit_that_is_part_of_something_tells_its_share() -> None:
    shares: list[float] = []
    with part_of(shares.append):
        fit_vi(OneMean(Y), short(300, all_steps=True))
    fit_vi(OneMean(Y), short(100))
    assert shares == pytest.approx([1 / 3, 2 / 3, 1])


# Minibatches -------------------------------------------------------------------------------

SIZES = [(12, 4), (10, 4), (7, 6), (5, 1)]


@pytest.mark.parametrize(("size", "batch_size"), SIZES)
def test_every_member_is_visited_once_an_epoch(size: int, batch_size: int) -> None:
    """Where the last batch is not full, members of earlier ones fill it up: twice at the most."""
    batches = Batches(KEY, (Subsample("row", size, batch_size),))
    an_epoch = -(-size // batch_size)
    for epoch in range(3):
        taken = batches.take(epoch * an_epoch, an_epoch)["row"]
        assert taken.shape == (an_epoch, batch_size)
        visits = Counter(taken.ravel().tolist())
        assert set(visits) == set(range(size))
        fill = an_epoch * batch_size - size
        assert sorted(visits.values()) == [1] * (size - fill) + [2] * fill


@pytest.mark.parametrize(("size", "batch_size"), SIZES)
def test_members_of_a_batch_are_distinct(size: int, batch_size: int) -> None:
    for batch in Batches(KEY, (Subsample("row", size, batch_size),)).take(0, 40)["row"]:
        assert len(set(batch.tolist())) == batch_size


def test_batches_are_a_function_of_key_and_step_alone() -> None:
    parts = (Subsample("row", 10, 4), Subsample("column", 6, 4))
    whole = Batches(KEY, parts).take(0, 20)
    resumed = Batches(KEY, parts)
    for start, count in [(13, 5), (0, 2), (7, 1), (13, 5)]:  # also back and forth
        for plate, taken in resumed.take(start, count).items():
            np.testing.assert_array_equal(taken, whole[plate][start : start + count])


def test_epochs_keys_and_plates_have_orders_of_their_own() -> None:
    parts = (Subsample("row", 30, 30 - 1), Subsample("column", 30, 30 - 1))
    taken = Batches(KEY, parts).take(0, 4)
    other = Batches(jax.random.key(1), parts).take(0, 4)
    orders = [taken["row"][0], taken["row"][2], taken["column"][0], other["row"][0]]
    assert len({tuple(order.tolist()) for order in orders}) == len(orders)


# Stopping ----------------------------------------------------------------------------------


def noise(length: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=length)


def test_a_rising_trace_has_not_stopped_rising() -> None:
    assert not has_stopped_rising(np.arange(60) + noise(60), patience=30)


def test_flat_noise_has_mostly_stopped_rising() -> None:
    """The bar is one standard error, which noise alone stays below five times in six."""
    flat = [has_stopped_rising(noise(60, seed), patience=30) for seed in range(300)]
    assert 0.75 < np.mean(flat) < 0.95


def test_a_slow_rise_is_not_mistaken_for_noise_once_the_stage_is_long() -> None:
    slope = 0.01  # noise from step to step is a hundred times as large
    rising = [
        not has_stopped_rising(slope * np.arange(600) + noise(600, seed), patience=30)
        for seed in range(100)
    ]
    assert all(rising)


def test_minibatches_that_cancel_within_a_chunk_still_count_as_noise() -> None:
    """Each chunk goes through all rows: its mean is steady, and its steps are not."""
    steps = np.tile([-50.0, 50.0], (60, 50))  # standard error of a third: 50 over root 2000, twice
    slow, fast = (np.linspace(0, rise, 60)[:, None] for rise in (1.5, 15.0))
    for constant in (0.0, -1e6):  # the bound is known but for a constant
        assert has_stopped_rising(constant + slow + steps, patience=30)
        assert not has_stopped_rising(constant + fast + steps, patience=30)


def test_a_stage_lasts_as_long_as_patience_says() -> None:
    assert not has_stopped_rising(np.zeros(29), patience=30)
    assert has_stopped_rising(np.zeros(30), patience=30)


def test_chunks_without_a_finite_mean_are_left_out_of_the_judgement() -> None:
    trace = np.array([float("nan")] * 20 + [0.0] * 29)
    assert not has_stopped_rising(trace, patience=30)
    assert has_stopped_rising(np.append(trace, 0.0), patience=30)


def test_the_step_limit_is_kept_to_the_step() -> None:
    fit = fit_vi(OneMean(Y), short(250, chunk=100))
    assert fit.reason is Stop.STEP_LIMIT
    assert not fit.converged
    assert fit.steps == len(fit.elbo) == len(fit.bound) == 250
    assert "step limit after 250 steps" in repr(fit)


def test_a_schedule_takes_all_its_steps_and_is_not_called_converged() -> None:
    """Under a rate that falls to zero every bound levels off, wherever it is."""
    falling = optax.adam(optax.exponential_decay(0.03, 50, 0.3))
    fit = fit_vi(OneMean(Y), short(2000, chunk=20, patience=6, optimizer=falling, all_steps=True))
    assert fit.steps == 2000
    assert float(fit.params["mean"]) < 4  # of six
    assert fit.reason is Stop.STEP_LIMIT


def test_a_fit_that_has_stopped_rising_says_so() -> None:
    fit = fit_vi(OneMean(Y), short(10_000, chunk=20, patience=6))
    assert fit.reason is Stop.CONVERGED
    assert fit.converged
    assert fit.steps < 10_000


def rounds(*levels: float, seed: int = 0) -> tuple[History, FitSettings]:
    """A history at the end of a round, of rounds whose last stages were at these levels."""
    settings = FitSettings(steps=10_000, chunk=10, patience=6)
    noise, elbo, history = np.random.default_rng(seed).normal, [], None
    state = VI().init(OneMean(Y).init(KEY), settings)
    for number, level in enumerate(levels):
        for _ in RATES:
            elbo.append(level + noise(size=60 * 2**number))
            start = sum(map(len, elbo[:-1]))
            history = (history or start_history(state))._replace(
                stage_start=start, stage=len(elbo) - 1
            )
        if number + 1 < len(levels):
            history = history._replace(round_start=sum(map(len, elbo)), settled_start=start)
    trace = np.concatenate(elbo)
    return history._replace(elbo=trace, utility=0 * trace, finite=trace < np.inf), settings


def test_a_fit_has_converged_when_another_round_gains_nothing() -> None:
    """Noise alone has not stopped rising once in six times and gains two standard errors once in
    44: of 200 fits some 160 are to have converged, and less than 140 once in a thousand times."""
    ends = [verdict(*rounds(0.0, 0.0, seed=seed), False) for seed in range(200)]
    assert np.mean([end is Stop.CONVERGED for end in ends]) > 0.7
    # The standard error of the gain is that of 40 and of 80 steps, some 0.2: 2 is ten of them.
    ends = [verdict(*rounds(0.0, 2.0, seed=seed), False) for seed in range(200)]
    assert all(end is None for end in ends)
    ends = [verdict(*rounds(0.0, 2.0, 2.0, seed=seed), False) for seed in range(200)]
    assert np.mean([end is Stop.CONVERGED for end in ends]) > 0.7


def test_variables_at_rest_are_mostly_seen_to_be_and_drifting_ones_always() -> None:
    """The bar is two standard deviations, and more where it takes account of dependence."""
    for chunks, count in ((10, 2), (10, 90), (30, 20)):
        noise = np.random.default_rng(chunks).normal(size=(200, chunks, count))
        assert np.mean([are_drifting(still) for still in noise]) < 0.05
        if count > 2:  # two variables in six chunks have too little to tell
            moving = noise + np.linspace(0, 9, chunks)[:, None]
            assert np.mean([are_drifting(drift) for drift in moving]) > 0.95
    assert not are_drifting(np.ones((30, 5)))


def test_a_stage_of_full_step_size_goes_on_while_variables_drift() -> None:
    """But not for ever, for there are directions in which nothing rests."""
    history, settings = rounds(0.0)
    history = history._replace(stage=0, stage_start=0, elbo=np.zeros(300), utility=np.zeros(300))
    still = np.random.default_rng(0).normal(size=(30, 50))
    drifting = still + np.arange(30.0)[:, None]
    assert next_stage(history._replace(watched=still), settings).stage == 1
    assert next_stage(history._replace(watched=drifting), settings).stage == 0
    few = replace(settings, steps=1500)
    assert next_stage(history._replace(watched=drifting), few).stage == 1


def test_one_round_is_not_enough_to_have_converged() -> None:
    assert all(verdict(*rounds(0.0, seed=seed), False) is None for seed in range(20))


def test_a_round_for_which_no_steps_are_left_is_not_begun() -> None:
    """The fit ends at the smallest step size and with an average, rather than amid a round."""
    history, settings = next(
        (history, settings)
        for history, settings in (rounds(0.0, 2.0, seed=seed) for seed in range(20))
        if next_stage(history, settings) is not history
    )
    done = len(history.elbo)
    assert next_stage(history, settings).rate == 1
    tight = replace(settings, steps=done + 3 * 24 * 10 - 1)
    assert next_stage(history, tight) is history


def test_a_round_that_was_begun_ends_at_the_smallest_step_size() -> None:
    """However long the bound keeps rising at a larger one."""
    rising = 0.1 * np.arange(2000.0)
    history, settings = rounds(0.0, 0.0)
    history = history._replace(stage=3, stage_start=0, elbo=rising, utility=0 * rising)
    assert next_stage(history, settings) is history
    tight = replace(settings, steps=2000 + 2 * 12 * 10)
    assert next_stage(history, tight).stage == 4


def test_gradients_of_a_bad_start_do_not_shorten_the_steps_for_long() -> None:
    """Five a million times as large as those to come, which all have the same sign."""
    optimizer = FitSettings().transformation()
    slopes = jnp.where(jnp.arange(3000) < 5, 1e6, 1.0)
    start = jnp.zeros(())

    def one(state, slope):
        update, state = optimizer.update(slope, state, start)
        return state, jnp.abs(update)

    _, steps = jax.lax.scan(one, optimizer.init(start), slopes)
    assert steps[-1] > 0.5 * steps[0]


def lengths(slopes: Array, *, are_normal: bool) -> Array:
    """How far the default moves parameters at each step: locations of normals, or others."""
    normals = (NormalPair("z_loc", "z_scale", jax.nn.softplus),) if are_normal else ()
    # So narrow that the natural gradient hardly moves them, and Adam does.
    start = {"z_loc": jnp.zeros(slopes.shape[1:]), "z_scale": jnp.full(slopes.shape[1:], -12.0)}
    optimizer = adaptive()

    def one(state, slope):
        slope = {"z_loc": slope, "z_scale": jnp.zeros_like(slope)}
        update, state = optimizer.update(slope, state, start, normals=normals)
        return state, jnp.abs(update["z_loc"])

    _, steps = jax.lax.scan(one, optimizer.init(start), slopes)
    return steps


@pytest.mark.parametrize(("are_normal", "least"), [(True, 0.2), (False, 1.0)])
def test_steps_are_long_where_gradients_agree_and_short_where_they_are_noise(
    are_normal: bool, least: float
) -> None:
    """A hundred parameters, 400 steps: what Adam moves by itself is some 0.18 of its step size
    where all is noise; the standard error of that is below a hundredth."""
    noise = jax.random.normal(jax.random.key(0), (400, 100))
    steady = lengths(1.0 + 0.1 * noise, are_normal=are_normal)
    noisy = lengths(noise, are_normal=are_normal)
    assert steady[-1].mean() == pytest.approx(0.03, rel=0.02)
    alone = 0.03 * np.sqrt(0.1 / 1.9) * np.sqrt(2 / np.pi)
    assert noisy[200:].mean() == pytest.approx(least * alone, rel=0.1)


def test_em_with_few_draws_decides_by_more() -> None:
    """By one draw of θ, the decision would leave out that θ is not known."""
    port, settings = OneMean(Y), replace(short(1), draws=1)
    gain = stakes.Linearized()(stakes.Tilted(0.05), 1.0)
    step = EM().step(objective_of(gain, ClosedForm()), settings)
    state = EM().init(port.init(KEY), jnp.full(len(Y), 50.0), settings)
    found = step(port, state, KEY, {})[0].variables["decisions"]
    asked = EM(draws=15).step(objective_of(gain, ClosedForm()), settings)
    np.testing.assert_array_equal(found, asked(port, state, KEY, {})[0].variables["decisions"])


def test_a_step_is_the_natural_gradient_and_adams_together() -> None:
    normals = (NormalPair("z_loc", "z_scale", jax.nn.softplus),)
    at = {"z_loc": jnp.array([0.0, 0.0]), "z_scale": jnp.array([2.0, -1.0])}
    slope = {"z_loc": jnp.array([0.1, -0.2]), "z_scale": jnp.array([0.05, 0.0])}
    found, state = adaptive(0.5, adam=0.03).update(slope, adaptive().init(at), at, normals=normals)
    natural = natural_gradient(0.5)
    expected, _ = natural.update(slope, natural.init(at), at, normals=normals)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value - 0.03 * jnp.sign(slope[name]), rtol=1e-5)
    assert state.signal.shape == (2,)  # a number for each array, not for each parameter


def counts_plan(**options: Any) -> Any:
    model, data = counts_of_rows(20, 5)
    problem = stakes.Problem(model, outcome="y", loss=stakes.Tilted(0.8))
    return prepare(KEY, problem, data, stakes.Options(draws=4, **options))


@pytest.mark.skipif(
    jnp.result_type(float) == jnp.float64, reason="only numbers of 32 bits are halved"
)
def test_means_of_large_arrays_take_half_of_the_memory_and_lead_to_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each time that a mean is kept, it is rounded to eight bits, by a 256th at most."""

    def fitted(steps: int) -> tuple[History, Params]:
        plan = counts_plan(steps=steps)
        state, seen = plan.vi_state(owned(plan.approximation.start)), list[History]()
        settings = replace(plan.settings, progress=False)
        fit = run(
            "VI",
            plan.vi_step(),
            plan.approximation,
            state,
            KEY,
            settings,
            hooks=Hooks(watch=seen.append),
        )
        journal = FileJournal(tmp_path / f"{steps}.npz", 0)
        journal.watch("VI", seen[-1])
        kept = FileJournal(tmp_path / f"{steps}.npz", 0).history("VI", start_history(state))
        jax.tree.map(np.testing.assert_array_equal, kept.state, seen[-1].state)
        return kept, fit.params

    whole, usual = fitted(600)
    monkeypatch.setattr(default, "MANY", 1)
    half, found = fitted(600)
    for name, mean in half.state.optimizer.mean.items():
        wanted = whole.state.optimizer.mean[name]
        assert (mean.dtype, wanted.dtype) == (np.uint16, np.float32)
        assert 2 * mean.nbytes == wanted.nbytes
        np.testing.assert_allclose(found[name], usual[name], atol=0.03)
    numbers = jax.random.normal(KEY, (1000,)) * 10.0 ** jnp.arange(-10, 10).repeat(50)
    again = default.unpacked(default.packed(numbers, jnp.dtype("uint16")), numbers.dtype)
    np.testing.assert_allclose(again, numbers, rtol=2**-8)


def test_a_state_is_taken_over_without_a_copy_and_copied_where_others_may_have_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = counts_plan()
    start = plan.approximation.start
    state = plan.state(start, np.zeros(20))
    state = state._replace(rate=jnp.asarray(1.0))  # of a weak type, which has to become strong
    assert plan.hands_over
    monkeypatch.setattr(stages, "LARGE", 1)
    assert not set(arrays(start_history(state).state)) & set(arrays(state))
    after = start_history(state, handed_over=True).state
    assert set(arrays(after)) & set(arrays(state)) == set(arrays(state._replace(rate=None)))
    assert not after.rate.weak_type


def arrays(tree: Any) -> list[int]:
    """Where the memory of each begins."""
    return list({leaf.unsafe_buffer_pointer(): leaf for leaf in jax.tree.leaves(tree)})


def test_fits_take_over_what_they_begin_with_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Arrays are large from one number on: the numbers are those of fits that copy all."""
    problem, data = counts_plan().problem, counts_of_rows(20, 5)[1]
    usual = stakes.calibrate(KEY, problem, data, steps=200, draws=4, progress=False)
    monkeypatch.setattr(stages, "LARGE", 1)
    found = stakes.calibrate(KEY, problem, data, steps=200, draws=4, progress=False)
    for name in ("vi", "calibrated"):
        jax.tree.map(
            np.testing.assert_array_equal,
            getattr(found, name).variables,
            getattr(usual, name).variables,
        )
    np.testing.assert_array_equal(found.vi_decisions, usual.vi_decisions)


def test_arrays_in_the_state_of_an_optimiser_of_the_user_stay_the_users(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The loop hands over what it steps from, which would be gone for the second fit."""
    monkeypatch.setattr(stages, "LARGE", 1)
    table, adam = jnp.arange(6.0), optax.adam(0.01)

    def update(slopes: Any, state: Any, params: Any = None) -> Any:
        steps, inner = adam.update(slopes, state[0], params)
        return steps, (inner, state[1])

    own = optax.GradientTransformation(lambda params: (adam.init(params), table), update)
    model, data = counts_of_rows(20, 5)
    problem = stakes.Problem(model, outcome="y", loss=stakes.Tilted(0.8))
    result = stakes.calibrate(KEY, problem, data, optimizer=own, steps=200, progress=False)
    assert result.calibrated.steps == 200
    assert table.tolist() == [0, 1, 2, 3, 4, 5]


def test_one_wild_gradient_is_forgotten() -> None:
    """Without a limit, the mean of the last steps would lead away for a hundred more."""
    normals = (NormalPair("z_loc", "z_scale", jax.nn.softplus),)
    optimizer, at = adaptive(), {"z_loc": jnp.array(0.0), "z_scale": jnp.array(0.0)}
    state = optimizer.init(at)
    for loc in [1e12, *[-1.0] * 60]:
        slope = {"z_loc": jnp.array(loc), "z_scale": jnp.array(0.0)}
        step, state = optimizer.update(slope, state, at, normals=normals)
    assert step["z_loc"] > 0


def test_skewed_noise_of_minibatches_does_not_shift_where_a_fit_ends() -> None:
    """Twenty thousand outcomes in large units, ten at a step: single gradients lead fifty times as
    far as the posterior is wide. The standard error of the mean is a third of that width; cut off
    at ten times the width, gradients would end up four times the width away."""
    rows, unit = 20_000, 1000.0
    width = unit / np.sqrt(rows)
    normals = (NormalPair("z_loc", "z_scale", jnp.exp),)
    optimizer, begin = adaptive(), {"z_loc": jnp.array(unit), "z_scale": jnp.log(width)}
    rate = RATES[1]

    def one(history, seen):
        at, state = history
        slope = {"z_loc": (at["z_loc"] - seen) / width**2, "z_scale": jnp.array(0.0)}
        step, state = optimizer.update(slope, state, at, normals=normals, share_taken=rate)
        return (optax.apply_updates(at, jax.tree.map(lambda x: rate * x, step)), state), at["z_loc"]

    seen = unit * jax.random.gamma(KEY, 10.0, (20_000,)) / 10
    _, places = jax.lax.scan(one, (begin, optimizer.init(begin)), seen)
    assert float(places[5_000:].mean()) == pytest.approx(unit, abs=1.5 * width)


def counts_of_rows(rows: int, batch: int) -> tuple[Any, dict[str, Any]]:
    """Counts with a latent of their own; as data, some of each count from zero to nine."""

    def model(y: Array | None = None) -> None:
        with numpyro.plate("row", rows, subsample_size=batch) as at:
            z = numpyro.sample("z", dist.Normal(0, 1))
            seen = None if y is None else jnp.asarray(y)[at]
            numpyro.sample("y", dist.Poisson(jnp.exp(z)), obs=seen)

    return model, {"y": np.arange(rows, dtype=np.float32) % 10}


def test_a_normal_says_how_often_a_minibatch_counts_its_rows() -> None:
    model, data = counts_of_rows(30, 5)
    problem = stakes.Problem(model, outcome="y", loss=stakes.Squared())
    [pair] = normals_of(prepare(KEY, problem, data, stakes.Options()).approximation)
    assert pair.times == 6


def test_no_fit_ends_before_its_rows_have_come_up_several_times() -> None:
    """In a first pass the bound is level: every step meets rows that have yet to move."""
    settings = FitSettings(steps=100_000, chunk=100, sweep=1500)
    assert least_steps(FitSettings(steps=100_000, chunk=100)) == 5_400
    assert least_steps(settings) == 2 * (6 + 1 + 1) * 1500
    model, data = counts_of_rows(30_000, 5)
    problem = stakes.Problem(model, outcome="y", loss=stakes.Squared())
    approximation = prepare(KEY, problem, data, stakes.Options()).approximation
    assert steps_of_a_pass(approximation, approximation.start) == 6_000
    model, data = counts_of_rows(30, 30)
    problem = stakes.Problem(model, outcome="y", loss=stakes.Squared())
    approximation = prepare(KEY, problem, data, stakes.Options()).approximation
    assert steps_of_a_pass(approximation, approximation.start) == 0
    [pair] = normals_of(approximation)
    [(_, loc), _] = natural_gradients(approximation.start, (pair,), 0.5)
    assert not loc.comes_up_now_and_then


@pytest.mark.parametrize("optimizer", [adaptive(), natural_gradient()])
def test_natural_gradients_of_rows_lead_no_further_in_small_minibatches(
    optimizer: optax.GradientTransformation,
) -> None:
    """A minibatch counts its rows for those that it leaves out. At a rate of one they would jump to
    their optimum, given all else, and oscillate beyond."""
    at = {"z_loc": jnp.array([0.0, 1.0]), "z_scale": jnp.array([0.5, -1.0])}
    slope = {"z_loc": jnp.array([0.1, -2.0]), "z_scale": jnp.array([0.05, 0.4])}

    def step(times: float) -> Params:
        normals = (NormalPair("z_loc", "z_scale", jax.nn.softplus, times),)
        longer = jax.tree.map(lambda x: times * x, slope)
        return optimizer.update(longer, optimizer.init(at), at, normals=normals)[0]

    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5), step(20.0), step(200.0))


def test_scales_of_rows_in_small_minibatches_are_right() -> None:
    """Counts have skewed gradients. Where these are cut off, scales are wrong by a quarter."""
    model, data = counts_of_rows(100, 5)
    problem = stakes.Problem(model, outcome="y", loss=stakes.Squared())
    plan = prepare(KEY, problem, data, stakes.Options(steps=6000, draws=2))
    found = fit_vi(plan.approximation, replace(plan.settings, progress=False)).params
    loc, variance = np.zeros(100), np.full(100, 0.5)
    for _ in range(200):  # the optimum is where E exp(z) + 1 = 1 / s² and y - E exp(z) = m
        rate = np.exp(loc + variance / 2)
        loc += 0.5 * (data["y"] - rate - loc) / (1 + rate)
        variance += 0.5 * (1 / (1 + rate) - variance)
    ratio = jax.nn.softplus(found["z_auto_scale"]) / np.sqrt(variance)
    assert float(jnp.log(ratio).mean()) == pytest.approx(0, abs=0.06)


@pytest.mark.slow
def test_a_neural_network_is_not_called_converged_on_a_plateau() -> None:
    """Its bound is level from step 1,500 to 5,500 at full step size, for every key tried, and then
    rises by almost four nats. Another 20,000 steps, of a rate that falls from full to zero, are to
    gain nothing much; figures have a standard error of some 0.05."""

    def network(x: Array, y: Array | None = None) -> None:
        def weights(name: str, *shape: int) -> Array:
            return numpyro.sample(name, dist.Normal(0, 1).expand(shape).to_event(len(shape)))

        hidden = jnp.tanh(x @ weights("w", 1, 15) + weights("b", 15))
        mean = hidden @ weights("v", 15)
        noise = numpyro.sample("s", dist.HalfNormal(1.0))
        with numpyro.plate("row", len(x)):
            numpyro.sample("y", dist.Normal(mean, noise), obs=y)

    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, (150, 1)).astype(np.float32)
    y = (np.sin(1.5 * x[:, 0]) + 0.2 * rng.normal(size=150)).astype(np.float32)
    problem = stakes.Problem(network, outcome="y", loss=stakes.Tilted(0.2))
    plan = prepare(KEY, problem, {"x": x, "y": y}, stakes.Options())
    port, settings = plan.approximation, plan.settings

    def ended(start: Params, settings: FitSettings) -> Fit:
        state = VI().init(start, settings)
        return run("VI", VI().step(settings), port, state, jax.random.key(5), settings)

    first = ended(port.start, settings)
    falling = optax.adam(optax.cosine_decay_schedule(0.03, 20_000))
    longer = ended(first.params, replace(settings, steps=20_000, optimizer=falling, all_steps=True))
    gained = longer.last_tenth(longer.bound).mean() - first.last_tenth(first.bound).mean()
    assert gained < 0.4 or not first.converged


# Numerical failure -------------------------------------------------------------------------


def nan_now_and_then(params: Params, key: Key) -> Array:
    return jnp.where(jax.random.uniform(key) < 0.01, jnp.nan, 0.0)


def nan_beyond_two(params: Params, key: Key) -> Array:
    return jnp.where(params["mean"] > 2.0, jnp.nan, 0.0)


@pytest.fixture(scope="module")
def troubled() -> Fit:
    """About four in a hundred of its steps are not finite."""
    return fit_vi(OneMean(Y, trouble=nan_now_and_then), short(8000, patience=6))


def test_steps_that_are_not_finite_are_skipped_and_counted(troubled: Fit) -> None:
    assert troubled.skipped == np.isnan(troubled.bound).sum()
    assert 0.02 < troubled.skipped / troubled.steps < 0.06
    assert "steps skipped" in repr(troubled)


def test_a_fit_with_skipped_steps_reaches_the_same_optimum(troubled: Fit) -> None:
    port = OneMean(Y)
    precision = len(Y) / port.noise**2 + 1 / port.prior_sd**2
    mean = (Y.sum() / port.noise**2 + port.prior_mean / port.prior_sd**2) / precision
    assert float(troubled.params["mean"]) == pytest.approx(float(mean), abs=0.1)
    assert float(jnp.exp(troubled.params["log_sd"])) == pytest.approx(precision**-0.5, rel=0.1)


def test_a_fit_with_skipped_steps_notices_that_it_has_converged(troubled: Fit) -> None:
    assert troubled.reason is Stop.CONVERGED


def test_skipped_steps_do_not_hide_the_bound_that_was_reached(troubled: Fit) -> None:
    assert "nan" not in repr(troubled)


@pytest.mark.parametrize("method", [Joint(), EM()], ids=["joint", "EM"])
def test_repeated_failure_stops_with_the_last_good_state(method: Joint | EM) -> None:
    """The mean climbs from below two towards six; past two no step is finite any more."""
    port = OneMean(Y, trouble=nan_beyond_two)
    start = port.init(KEY)["mean"]
    assert start < 2
    fit = fit_calibrated(port, method, FitSettings(steps=5000, draws=4, chunk=10, progress=False))
    assert fit.reason is Stop.NUMERICAL_FAILURE
    assert fit.skipped >= MOST_SKIPPED
    assert np.isfinite(fit.bound[: -fit.skipped]).all()
    assert 2.0 < float(fit.params["mean"]) < 2.2  # one step past two
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(fit.variables))


# Interruption ------------------------------------------------------------------------------


def test_an_interrupted_fit_gives_back_what_there_is() -> None:
    """Ctrl-C while a fit runs that would otherwise go on for hours."""
    # A shell may have started the tests with Ctrl-C ignored.
    outside = signal.signal(signal.SIGINT, signal.default_int_handler)
    before = signal.getsignal(signal.SIGINT)
    endless = short(10**9, patience=10**9)
    press = threading.Timer(2.0, os.kill, (os.getpid(), signal.SIGINT))
    press.start()
    try:
        fit = fit_vi(OneMean(Y), endless)
        press.join()
        after = signal.getsignal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, outside)
    assert fit.reason is Stop.INTERRUPTED
    assert fit.steps > 0
    assert np.isfinite(fit.bound).all()
    assert np.isfinite(float(fit.params["mean"]))
    assert after is before


# Rows of minibatches -----------------------------------------------------------------------


def test_gathering_then_scattering_changes_the_rows_of_the_batch_alone() -> None:
    instances = Instances((4, 5, 3), ("a", "b", "c"))
    at = RowIndex.of(instances, {"b": np.array([4, 1], np.int32), "c": np.array([0, 2], np.int32)})
    whole = jnp.arange(60.0).reshape(4, 5, 3)
    part = at.gather(whole)
    np.testing.assert_array_equal(part, np.asarray(whole)[:, [4, 1]][:, :, [0, 2]])
    back = np.asarray(at.scatter(whole, part + 100))
    expected = np.asarray(whole).copy()
    expected[np.ix_(range(4), [4, 1], [0, 2])] += 100
    np.testing.assert_array_equal(back, expected)


LOCAL_Y = jnp.array([-6.0, -3.0, 0.0, 1.0, 4.0, 8.0, 9.0])


@pytest.mark.parametrize("method", [Joint(), EM()], ids=["joint", "EM"])
def test_one_step_moves_the_rows_in_the_batch_and_no_others(method: Joint | EM) -> None:
    port = LocalMeans(LOCAL_Y, batch_size=3)
    fit = fit_calibrated(port, method, short(1), jnp.full(len(LOCAL_Y), 50.0))
    before = port.init(KEY)
    moved = {
        name: np.flatnonzero(np.asarray(after) != np.asarray(before[name]))
        for name, after in fit.params.items()
    }
    moved["decisions"] = np.flatnonzero(np.asarray(fit.variables["decisions"]) != 50.0)
    [members] = {tuple(members.tolist()) for members in moved.values()}
    assert len(members) == 3


@pytest.mark.usefixtures("double_precision")
def test_a_step_on_gathered_rows_is_the_dense_step_on_those_rows() -> None:
    """With momentum, so that rows of the optimiser's memory are gathered along with them."""
    settings = short(1, optimizer=optax.sgd(1e-3, momentum=0.9))
    port, dense = LocalMeans(LOCAL_Y, batch_size=3), LocalMeans(LOCAL_Y)
    step, batch = VI().step(settings), {"row": jnp.array([5, 0, 2])}
    state = VI().init(port.init(KEY), settings)
    sparse_after, _ = quickly(lambda state: step(port, state, KEY, batch), state)

    part = LocalMeans(LOCAL_Y[batch["row"]])
    scaled = short(1, optimizer=optax.sgd(1e-3 * len(LOCAL_Y) / 3, momentum=0.9))
    here = {name: value[batch["row"]] for name, value in dense.init(KEY).items()}
    dense_step = VI().step(scaled)
    dense_after, _ = quickly(
        lambda state: dense_step(part, state, KEY, {}), VI().init(here, scaled)
    )
    for name, value in dense_after.variables["params"].items():
        np.testing.assert_allclose(
            sparse_after.variables["params"][name][batch["row"]], value, rtol=1e-9
        )


@pytest.mark.some(2)
@pytest.mark.parametrize("batch_size", [None, 3], ids=["dense", "minibatches"])
@pytest.mark.parametrize("method", [Joint(), EM(draws=100)], ids=["joint", "EM"])
def test_minibatches_reach_the_same_optimum_as_dense_updates(
    method: Joint | EM, batch_size: int | None
) -> None:
    """For each row 1/v = 1/s² + 1/s₀² + 2/M, m = (y/s²) / (1/s² + 1/s₀²), h = m: the optimum of
    `test_gaussian_oracle` with one observation a row."""
    port = LocalMeans(LOCAL_Y, batch_size=batch_size)
    settings = FitSettings(steps=8000, draws=16, patience=6, progress=False)
    fit = fit_calibrated(port, method, settings)
    posterior = 1 / port.noise**2 + 1 / port.prior_sd**2
    mean = LOCAL_Y / port.noise**2 / posterior
    sd = (posterior + 2 / SQUARED.scale) ** -0.5
    np.testing.assert_allclose(fit.params["mean"], mean, atol=0.1 * sd)
    np.testing.assert_allclose(jnp.exp(fit.params["log_sd"]), sd, rtol=0.06)
    np.testing.assert_allclose(fit.variables["decisions"], mean, atol=0.15)


def test_a_fit_ends_with_an_average_however_long_its_last_stage_lasted() -> None:
    """Nothing is learned here, so that decisions are the noise of their M-steps and no more; an
    average over half a stage of eight M-steps is to halve it."""
    port = LocalMeans(jnp.zeros(400))
    settings = short(10_000, chunk=1, patience=8, optimizer=optax.sgd(0.0))
    fit = fit_calibrated(port, EM(draws=30), settings)
    assert fit.converged
    away = np.asarray(fit.variables["decisions"] - port.init(KEY)["mean"])
    one_m_step = 30**-0.5
    assert away.std() < 0.75 * one_m_step


# EM ----------------------------------------------------------------------------------------


def test_em_sets_decisions_only_as_often_as_it_was_told() -> None:
    start = jnp.full(len(Y), 50.0)
    before = fit_calibrated(OneMean(Y), EM(every=5), short(4), start)
    after = fit_calibrated(OneMean(Y), EM(every=5), short(5), start)
    np.testing.assert_array_equal(before.variables["decisions"], start)
    assert (np.asarray(after.variables["decisions"]) < 40).all()


def test_em_decides_by_the_draws_of_the_step_and_runs_the_model_once() -> None:
    """Draws that are told from others by their mean; those of its own, and rare ones, differ."""
    port, settings = OneMean(Y), replace(short(1), draws=10)
    runs = Counter[str]()

    def counted(params: Params, key: Key) -> Array:
        runs["model"] += 1
        return jnp.zeros(())

    def decided(method: EM) -> np.ndarray:
        runs.clear()
        watched = replace(port, trouble=counted)
        state = method.init(port.init(KEY), jnp.full(len(Y), 50.0), settings)
        step = method.step(objective_of(SQUARED, ClosedForm()), settings)
        return np.asarray(step(watched, state, KEY, {})[0].variables["decisions"])

    e_key = jax.random.split(KEY, 3)[0]
    drawn, _ = draws_of(port, port.init(KEY), e_key, {}, settings.draws, independent=False)
    of_the_step = np.broadcast_to(drawn.outcome.loc.mean(axis=0), Y.shape)
    np.testing.assert_allclose(decided(EM()), of_the_step, rtol=1e-6)
    assert runs["model"] == 1
    assert (np.abs(decided(EM(draws=settings.draws)) - of_the_step) > 1e-3).all()
    assert runs["model"] == 2
