"""Compiled programs are shared where they do the same, and only there."""

import re
import threading
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer.autoguide import AutoNormal

import stakes
from benchmarks.compiling import compilations
from stakes.host import compiling, programs
from stakes.host.programs import Program
from stakes.study import plan

KEY = jax.random.key(3)
Y = np.array([1.0, -0.5, 2.0, 0.3, 0.9, 1.4])


@pytest.fixture
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "COMPILED", compiling.LRU(compiling.MOST_COMPILED))


def times(factor):
    return Program(lambda x: x * factor)


# Programs --------------------------------------------------------------------------------------


def test_same_text_is_compiled_once(nothing_kept):
    ones, fives = jnp.ones(2), 5 * jnp.ones(2)
    with compilations() as names:
        first, second = times(3.0)(ones), times(3.0)(fives)
    assert len(names) == 1
    assert first.tolist() == [3, 3]
    assert second.tolist() == [15, 15]


def test_what_a_function_closes_over_is_part_of_the_program(nothing_kept):
    array = jnp.arange(200.0)
    assert times(3.0)(jnp.ones(2)).tolist() == [3, 3]
    assert times(4.0)(jnp.ones(2)).tolist() == [4, 4]
    np.testing.assert_array_equal(times(array)(1.0), array)
    np.testing.assert_array_equal(times(array.at[150].set(-1))(1.0), array.at[150].set(-1))


def test_arguments_that_are_not_used_are_not_mixed_up(nothing_kept):
    assert float(Program(lambda a, b: a + 1)(1.0, 10.0)) == 2
    assert float(Program(lambda a, b: b + 1)(1.0, 10.0)) == 11


def test_returned_trees_are_those_of_the_function(nothing_kept):
    assert Program(lambda x: {"a": x, "b": x + 1})(1.0) == {"a": 1, "b": 2}
    assert Program(lambda x: {"c": x, "d": x + 1})(1.0) == {"c": 1, "d": 2}


def test_functions_that_are_called_back_are_not_shared(nothing_kept):
    def calling(function):
        return Program(lambda x: jax.pure_callback(function, jax.ShapeDtypeStruct((), "f"), x))

    assert float(calling(lambda x: np.float32(x + 1))(1.0)) == 2
    assert float(calling(lambda x: np.float32(x + 2))(1.0)) == 3


def test_numbers_that_are_looked_at_become_part_of_the_program(nothing_kept):
    seen = []

    def either(x, n):
        seen.append(n)
        return x + 1 if n > 0 else x - 1

    program = Program(either, numbers=("n",))
    assert [float(program(1.0, n)) for n in (2.0, -2.0, 2.0, 3.0)] == [2, 0, 2, 2]
    assert [n for n in seen if isinstance(n, float)] == [2.0, -2.0, 3.0]


def test_donated_static_and_default_arguments(nothing_kept):
    @partial(Program, static=("count", "twice"), donated=("state",))
    def step(state, count, by=1.0, *, twice=False):
        return state + count * by * (2 if twice else 1)

    state = jnp.ones(3)
    assert step(state, 2).tolist() == [3, 3, 3]
    assert state.is_deleted()
    assert step(jnp.ones(3), count=2, by=2.0, twice=True).tolist() == [9, 9, 9]


ONE, THREE = jnp.asarray(1.5), jnp.arange(3.0)


def with_slope(slope):
    @jax.custom_jvp
    def own(x):
        return jnp.sin(x)

    own.defjvp(lambda primals, tangents: (own(*primals), slope * tangents[0]))
    return own


def steps(count, **how):
    return lambda x: jax.lax.scan(lambda at, y: (at * y, at + y), x, jnp.ones(count), **how)


def chosen(first, second):
    return lambda x: jax.lax.cond(x > 0, first, second, x)


def adding(number):
    return lambda x: x + number


def ending(end):
    return lambda x: jax.lax.while_loop(lambda y: y < end, lambda y: y + 1, x)


def drawn(seed, impl="threefry2x32"):
    key = jax.random.key(seed, impl=impl)
    return lambda x: x + jax.random.normal(key)


def taken(mode):
    return lambda x: THREE.at[4 * x.astype(int)].get(mode=mode)


NEARLY_THE_SAME = {
    "numbers": [adding(n) for n in (0.1, float(np.nextafter(0.1, 1)), float("nan"))],
    "signs of zero": [lambda x: x * 0.0, lambda x: x * -0.0],
    "types": [lambda x: x.astype("int32") + 1, lambda x: x.astype("int16") + 1],
    "orders": [lambda x: (x, x + 1), lambda x: (x + 1, x), lambda x: 2 - x, lambda x: x - 2],
    "arrays": [adding(jnp.asarray([1, 2, last])) for last in (3.0, 4.0)],
    "shapes": [adding(np.ones(shape)) for shape in ((3, 1), (1, 3))],
    "scans": [steps(3), steps(4), steps(3, reverse=True), steps(3, unroll=3)],
    "branches": [chosen(jnp.sin, jnp.cos), chosen(jnp.cos, jnp.sin)],
    "loops": [ending(8), ending(9)],
    "keys": [drawn(7), drawn(8), drawn(7, impl="rbg")],
    "sums": [lambda x: jnp.cumsum(x * THREE), lambda x: jax.lax.cumsum(x * THREE, reverse=True)],
    "elements": [taken("clip"), taken("fill")],
    "slopes": [jax.grad(with_slope(2.0)), jax.grad(with_slope(3.0)), with_slope(2.0)],
}


@pytest.mark.parametrize("kind", NEARLY_THE_SAME)
def test_no_program_is_taken_for_another(nothing_kept, kind):
    for function in NEARLY_THE_SAME[kind]:
        found, expected = Program(function)(ONE), jax.jit(function)(ONE)
        jax.tree.map(np.testing.assert_array_equal, found, expected)
    with compilations() as names:
        for function in NEARLY_THE_SAME[kind]:
            Program(function)(ONE)
    assert names == []


def test_slopes_that_nobody_takes_are_no_part_of_a_program(nothing_kept):
    with compilations() as names:
        assert float(Program(with_slope(2.0))(ONE)) == float(Program(with_slope(3.0))(ONE))
    assert len(names) == 1


def test_settings_of_jax_are_part_of_a_program(nothing_kept):
    of_all = Program(lambda x: jnp.dot(x * THREE, THREE) + jax.random.normal(jax.random.key(0)))
    with compilations() as names:
        of_all(ONE)
        with jax.default_matmul_precision("highest"):
            of_all(ONE)
        with jax.threefry_partitionable(False):
            of_all(ONE)
    assert len(names) == 3


@dataclass(frozen=True)
class Holds:
    value: Any


@pytest.mark.parametrize("within", [lambda v: v, lambda v: (v,), lambda v: Holds((v,))])
def test_static_values_that_python_calls_equal_are_told_apart(nothing_kept, within):
    def shown(x, how):
        return x + len(repr(how))

    program = Program(shown, static=("how",))
    for value in (1, True, 1.0, np.float32(1), 0.0, -0.0, 1):
        assert float(program(0.0, within(value))) == len(repr(within(value)))


def test_inside_another_program_and_on_a_device(nothing_kept):
    double = times(2.0)
    assert jax.vmap(double)(jnp.arange(3.0)).tolist() == [0, 2, 4]
    assert float(jax.grad(lambda x: double(x) ** 2)(1.0)) == 8
    assert float(double(jax.device_put(1.0, jax.devices()[0]))) == 2


def test_arrays_on_a_device_are_compiled_for_once_and_numbers_are_looked_at(nothing_kept):
    program = Program(lambda x, n: x + n if n > 0 else x - n, numbers=("n",))
    with compilations() as names:
        for _ in range(3):
            there = jax.device_put(np.float32(1.0), jax.devices()[0])
            assert float(program(there, 2.0)) == 3
            assert float(program(there, -2.0)) == 3
    assert len(names) == 2


def test_double_precision_is_another_program(nothing_kept):
    double = times(2.0)
    assert double(np.float64(1.5)).dtype == "float32"
    with jax.enable_x64(True):
        assert double(np.float64(1.5)).dtype == "float64"


DECIDE = "_answer"


class Lowered:
    """A program that says where it is compiled, and may fail at first."""

    in_avals, out_info = (), ()

    def __init__(self, failures=0, text="text"):
        self.threads, self._failures, self._text = [], failures, text

    def as_text(self):
        return self._text

    def compile(self, compiler_options):
        self.threads.append(threading.current_thread())
        if len(self.threads) <= self._failures:
            raise MemoryError("no room")
        return "program"


def test_a_program_that_was_begun_is_compiled_once_beside_what_follows(nothing_kept):
    lowered = Lowered()
    begun = compiling.compiled(lowered, {}, (), later=True)
    assert compiling.compiled(lowered, {}, ()) is begun
    assert begun.result() == "program"
    [thread] = lowered.threads
    assert thread is not threading.current_thread()


def test_programs_whose_text_does_not_say_all_are_not_shared(nothing_kept):
    for text in ("custom_call @callback", "%arg0: tensor<3xf32> {jax.const = true}"):
        first, second = (compiling.compiled(Lowered(text=text), {}, ()) for _ in range(2))
        assert first is not second


def test_what_failed_to_compile_beside_others_is_tried_again(nothing_kept):
    lowered = Lowered(failures=1)
    begun = compiling.compiled(lowered, {}, (), later=True)
    assert begun.result() == "program"
    assert lowered.threads[1] is threading.current_thread()
    fails = Program(lambda x: x + 1, options={"xla_no_such_option": 1})
    fails.bound(1.0)
    for _ in range(2):
        with pytest.raises(Exception, match="xla_no_such_option"):
            fails(1.0)


def test_a_program_that_was_begun_is_not_traced_again(nothing_kept):
    traced = []

    def double(x):
        traced.append(x)
        return 2 * x

    program = Program(double)
    with jax.disable_jit():
        assert not program.bound(1.5).is_compiling()
    assert traced == []
    program.bound(1.5)
    assert float(program(1.5)) == 3.0
    assert len(traced) == 1
    assert not program.bound(2.5).is_compiling()  # nothing is going on any more
    assert not Program(double).bound(1.5).is_compiling()  # the same text
    assert float(program.bound(2.5)()) == 5.0


def test_what_follows_plain_vi_is_compiled_beside_it_in_a_first_fit_alone(
    nothing_kept, monkeypatch
):
    """Of which the calibrated fit asks for the very program that was begun."""
    kept, asked = compiling.compiled, []

    def compiled(lowered, options, types, *, later=False):
        found = kept(lowered, options, types, later=later)
        name = re.search(r"module @jit_(\w+)", lowered.as_text())[1]
        asked.append((name, later, found))
        return found

    monkeypatch.setattr(compiling, "compiled", compiled)
    monkeypatch.setattr(plan, "usable_cores", lambda: 2)
    fit(steps=300)
    chunks = [found for name, _, found in asked if name == "chunk"]
    assert len(chunks) == 3
    assert chunks[2] is chunks[1]
    assert next(later for name, later, _ in asked if name == DECIDE)
    for cores in (2, 1):
        monkeypatch.setattr(plan, "usable_cores", lambda cores=cores: cores)
        asked.clear()
        if cores == 1:
            monkeypatch.setattr(compiling, "COMPILED", compiling.LRU(compiling.MOST_COMPILED))
        fit(steps=300)
        assert len([name for name, _, _ in asked if name == "chunk"]) == 2
        assert not any(later for name, later, _ in asked if name == DECIDE)


def test_few_are_kept(nothing_kept, monkeypatch):
    monkeypatch.setattr(compiling, "COMPILED", compiling.LRU(3))
    monkeypatch.setattr(programs, "MOST_TRACED", 2)
    double = times(2.0)
    for size in range(1, 6):
        double(np.ones(size))
    assert len(compiling.COMPILED) == 3
    assert len(double._ready) == 2


# Fits ------------------------------------------------------------------------------------------

SPREAD = 3.0


def model(n, y=None):
    mean = numpyro.sample("mean", dist.Normal(0, SPREAD))
    with numpyro.plate("row", n):
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


def bounded(y=None):
    """The support of the latent depends on the data."""
    mean = numpyro.sample("mean", dist.Uniform(0.0, jnp.max(y)))
    with numpyro.plate("row", 6):
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


def fit(key=KEY, *, q=0.2, scale=2.0, n=6, y=Y, guide=None, model=model, steps=60, **options):
    data = {"n": n, "y": y} if model.__code__.co_argcount == 2 else {"y": y}
    problem = stakes.Problem(model, outcome="y", loss=stakes.Tilted(q), guide=guide)
    transform = stakes.Linearized(scale=scale)
    return stakes.calibrate(
        key, problem, data, transform=transform, steps=steps, progress=False, **options
    )


def numbers(result):
    return [
        *jax.tree.leaves(result.calibrated.variables),
        result.calibrated.bound,
        result.vi.bound,
        result.decisions.values,
    ]


@pytest.fixture(scope="module")
def first() -> None:
    numbers(fit())


@pytest.mark.some(4)
@pytest.mark.parametrize(
    "other",
    [
        {"y": Y[::-1] * 2},
        {"key": jax.random.key(8)},
        {"q": 0.35},
        {"scale": 7.5},
        {"guide": AutoNormal},
        {"guide": AutoNormal(model)},
    ],
    ids=["data", "key", "loss", "M", "guide", "own guide"],
)
def test_fitting_again_compiles_nothing(first, other):
    with compilations() as names:
        again = fit(**other)
        numbers(again)
    assert names == []


@pytest.mark.slow
def test_changes_that_matter_give_the_numbers_of_a_fresh_process(first, monkeypatch):
    """Whatever was kept: the same numbers as where nothing was, bit for bit."""

    kept = compiling.COMPILED
    changes = [
        {"q": 0.35, "scale": 7.5, "y": Y + 1},
        {"model": bounded, "y": np.abs(Y)},
        {"model": bounded, "y": np.abs(Y) * 3},
    ]
    for change in changes:
        monkeypatch.setattr(compiling, "COMPILED", kept)
        shared = numbers(fit(**change))
        monkeypatch.setattr(compiling, "COMPILED", compiling.LRU(compiling.MOST_COMPILED))
        for mine, fresh in zip(shared, numbers(fit(**change)), strict=True):
            np.testing.assert_array_equal(mine, fresh, err_msg=str(change))


def test_a_global_that_the_model_reads_may_change(first, monkeypatch):
    wide = fit(steps=400)
    monkeypatch.setitem(globals(), "SPREAD", 0.1)
    narrow = fit(steps=400)
    assert abs(narrow.vi.params["mean_auto_loc"]) < 0.2 < abs(wide.vi.params["mean_auto_loc"])


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """Those that programs are compiled with; for few numbers others, since tests have none."""
    asked: list[Any] = []
    kept = compiling.compiled

    def compiled(lowered: Any, options: Any, types: Any, **how: Any) -> Any:
        asked.append(dict(options))
        return kept(lowered, options, types, **how)

    monkeypatch.setattr(compiling, "compiled", compiled)
    monkeypatch.setattr(compiling, "SMALL", compiling.ONCE)
    monkeypatch.chdir(tmp_path)
    Path("flags.txt").write_text("--xla_cpu_prefer_vector_width=128\n")
    monkeypatch.setenv("XLA_FLAGS", "")
    return asked


@pytest.mark.parametrize(
    ("size", "flags", "expected"),
    [
        (10, "", compiling.ONCE),
        (10, "--xla_force_host_platform_device_count=1", compiling.ONCE),
        (10, "--xla_backend_optimization_level=0", {}),
        (compiling.LITTLE // 50, "", compiling.WIDE),
        (compiling.LITTLE // 50, "--xla_backend_optimization_level=0", compiling.WIDE),
        (compiling.LITTLE // 50, "--xla_cpu_prefer_vector_width=256", {}),
        (compiling.LITTLE // 50, "flags.txt", {}),
        (compiling.LITTLE // 50, "none.txt", compiling.WIDE),
    ],
)
def test_options_are_for_few_or_many_numbers_unless_the_user_has_set_them(
    monkeypatch: pytest.MonkeyPatch,
    options: list[Any],
    size: int,
    flags: str,
    expected: dict[str, Any],
) -> None:
    monkeypatch.setenv("XLA_FLAGS", flags)
    found = Program(lambda x, y: x.sum() + y)(jnp.ones(size), 2.0)
    assert float(found) == size + 2
    assert options == [expected]


def test_options_are_for_cpus_alone(monkeypatch: pytest.MonkeyPatch, options: list[Any]) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    Program(lambda x: 3 * x, options=compiling.ONCE)(jnp.ones(3))
    assert options == [{}]


@pytest.mark.parametrize(("draws", "expected"), [(10, compiling.ONCE), (10_001, compiling.WIDE)])
def test_options_may_depend_on_how_much_is_computed(
    options: list[Any], draws: int, expected: dict[str, Any]
) -> None:
    program = Program(
        lambda x, draws: jnp.broadcast_to(x, (draws, 10)).sum(),
        static=("draws",),
        work=lambda given: given["draws"] * given["x"].size,
    )
    assert float(program(jnp.ones(10), draws)) == 10 * draws
    assert options == [expected]
