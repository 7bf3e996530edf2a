"""Keys of traced programs: the same where the text of the lowered program is, and only there."""

import itertools
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend import core
from jax.extend.random import define_prng_impl

import stakes
from examples import radon
from stakes.demos import eight_schools
from stakes.host import compiling, traced
from stakes.host.traced import key_of, key_or_error

ONE, THREE = jnp.asarray(1.5), jnp.arange(3.0)


def with_slope(slope: float) -> Callable[[Any], Any]:
    @jax.custom_jvp
    def own(x: Any) -> Any:
        return jnp.sin(x)

    own.defjvp(lambda primals, tangents: (own(*primals), slope * tangents[0]))
    return own


def steps(count: int, **how: Any) -> Callable[[Any], Any]:
    return lambda x: jax.lax.scan(lambda at, y: (at * y, at + y), x, jnp.ones(count), **how)


def chosen(first: Any, second: Any) -> Callable[[Any], Any]:
    return lambda x: jax.lax.cond(x > 0, first, second, x)


def normal(impl: str) -> Callable[[Any], Any]:
    return lambda x: x + jax.random.normal(jax.random.key(0, impl=impl))


def product(**how: Any) -> Callable[[Any], Any]:
    return lambda x: jnp.dot(x * THREE, THREE, **how)


DIFFERENT: dict[str, Callable[[], Callable[[Any], Any]]] = {
    "a number": lambda: lambda x: x + 0.1,
    "another, by one bit": lambda: lambda x: x + float(np.nextafter(0.1, 1)),
    "zero": lambda: lambda x: x * 0.0,
    "minus zero": lambda: lambda x: x * -0.0,
    "nan": lambda: lambda x: x + float("nan"),
    "an integer": lambda: lambda x: x.astype(int) + 1,
    "a short integer": lambda: lambda x: x.astype("int16") + 1,
    "difference": lambda: lambda x: 2.0 - x,
    "the other way round": lambda: lambda x: x - 2.0,
    "two": lambda: lambda x: (x, x + 1),
    "in the other order": lambda: lambda x: (x + 1, x),
    "an array": lambda: lambda x: x + jnp.asarray([1.0, 2.0, 3.0]),
    "another array": lambda: lambda x: x + jnp.asarray([1.0, 2.0, 4.0]),
    "of NumPy": lambda: lambda x: x + np.array([[1.0], [2.0], [5.0]]),
    "of another shape": lambda: lambda x: x + np.array([[1.0, 2.0, 5.0]]),
    "a scan": lambda: steps(3),
    "a longer scan": lambda: steps(4),
    "backwards": lambda: steps(3, reverse=True),
    "unrolled": lambda: steps(3, unroll=3),
    "sine or cosine": lambda: chosen(jnp.sin, jnp.cos),
    "cosine or sine": lambda: chosen(jnp.cos, jnp.sin),
    "a loop": lambda: lambda x: jax.lax.while_loop(lambda y: y < 9, lambda y: y + 1, x),
    "a loop with another end": lambda: (
        lambda x: jax.lax.while_loop(lambda y: y < 8, lambda y: y + 1, x)
    ),
    "threefry": lambda: normal("threefry2x32"),
    "rbg": lambda: normal("rbg"),
    "product": lambda: product(),
    "exact product": lambda: product(precision="highest"),
    "sums": lambda: lambda x: jnp.cumsum(x * THREE),
    "sums from the end": lambda: lambda x: jax.lax.cumsum(x * THREE, reverse=True),
    "taken": lambda: lambda x: THREE.at[x.astype(int)].get(mode="clip"),
    "taken or nan": lambda: lambda x: THREE.at[x.astype(int)].get(mode="fill"),
    "own slope": lambda: jax.grad(with_slope(2.0)),
    "another slope": lambda: jax.grad(with_slope(3.0)),
    "own value": lambda: with_slope(2.0),
    "in a program of its own": lambda: jax.jit(lambda x: x + 0.1),
    "not fused": lambda: lambda x: jax.lax.optimization_barrier(x + 0.1),
}
NOT_KNOWN: dict[str, Callable[[Any], Any]] = {
    "pure callback": lambda x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct((), "f"), x),
    "print": lambda x: (jax.debug.print("{}", x), x)[1],
    "callback": lambda x: (jax.debug.callback(lambda y: None, x), x)[1],
}


def key(function: Callable[[Any], Any]) -> str | None:
    """None only where something is not known, and not for any other error."""
    made = jax.jit(function).trace(ONE)
    try:
        return key_or_error(made)
    except traced.UnknownError:
        return None


def test_different_programs_have_different_keys() -> None:
    keys = {name: key(make()) for name, make in DIFFERENT.items()}
    same = [(a, b) for a, b in itertools.combinations(keys, 2) if keys[a] == keys[b]]
    assert same == []
    assert None not in keys.values()


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_program_traced_again_has_the_same_key(name: str) -> None:
    assert key(DIFFERENT[name]()) == key(DIFFERENT[name]())


@pytest.mark.parametrize("name", NOT_KNOWN)
def test_what_is_called_back_has_no_key(name: str) -> None:
    assert key(NOT_KNOWN[name]) is None


def test_slopes_that_nobody_takes_are_no_part_of_a_program() -> None:
    assert key(with_slope(2.0)) == key(with_slope(3.0))


def test_context_is_part_of_a_program() -> None:
    def keys() -> set[str | None]:
        return {key(lambda x: jnp.dot(x * THREE, THREE) + jax.random.normal(jax.random.key(0)))}

    usual = keys()
    with jax.default_matmul_precision("highest"):
        assert not usual & keys()
    with jax.threefry_partitionable(False):
        assert not usual & keys()


def primitive(name: str) -> core.Primitive:
    made = core.Primitive(name)
    made.def_abstract_eval(lambda x, **params: x)
    return made


def test_primitives_of_the_user_are_not_known() -> None:
    """They may be lowered in another way next time."""
    for name in ("own", "custom_jvp_call", "sin"):
        assert key(primitive(name).bind) is None


def test_what_belongs_to_the_user_is_not_known() -> None:
    """Names of types and functions may mean something else by now."""

    class Own:
        pass

    for value in (Own(), Own, primitive, lambda x: x):
        with pytest.raises(traced.UnknownError):
            traced.Keys().key(value)
    for value in (np.float32, jax.random.key, np.float32(1.5), "own"):
        assert traced.Keys().key(value)


def test_bits_that_are_printed_alike_are_told_apart() -> None:
    for one, other in ((0.0, -0.0), (np.nan, -np.nan), (complex(0, 0.0), complex(0, -0.0))):
        assert traced.Keys().key(one) != traced.Keys().key(other)


def test_keys_that_a_model_closes_over_are_part_of_a_program() -> None:
    seven, eight = jax.random.key(7), jax.random.key(8)
    rbg = jax.random.key(7, impl="rbg")

    def noisy(of: Any) -> str | None:
        return key(lambda x: x + jax.random.normal(of))

    found = [noisy(each) for each in (seven, eight, rbg)]
    assert noisy(jax.random.key(7)) == found[0]
    assert None not in found
    assert len(set(found)) == 3
    of_a_user = define_prng_impl(
        key_shape=(2,),
        seed=lambda seed: jnp.zeros(2, "uint32"),
        split=lambda key, shape: jnp.zeros((*shape, 2), "uint32"),
        random_bits=lambda key, width, shape: jnp.zeros(shape, f"uint{width}"),
        fold_in=lambda key, data: key,
        name="own",
    )
    assert noisy(jax.random.key(7, impl=of_a_user)) is None


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.astype("bfloat16").astype("float32"),
        jax.jacfwd(lambda x: jnp.stack([x, x**2])),
        jax.hessian(jnp.sin),
        lambda x: jax.device_put(x) + 1,
    ],
    ids=["half of the bits", "jacobian", "hessian", "device_put"],
)
def test_ordinary_programs_have_keys(function: Callable[[Any], Any]) -> None:
    assert key(function) is not None


def test_errors_leave_a_program_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traced.Keys, "_equations", lambda *_: 1 / 0)
    assert key_of(jax.jit(jnp.sin).trace(1.0)) is None


def test_fits_have_keys_and_those_of_the_same_key_have_the_same_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With other losses, scales, keys and data, all that is traced."""
    texts: dict[str, set[str]] = {}

    def noted(made: Any) -> str | None:
        found = key_or_error(made)
        lowered = re.sub(r"module @\S+", "", made.lower().as_text())
        texts.setdefault(found, set()).add(f"{lowered}{made.out_info}")
        return found

    monkeypatch.setattr(compiling, "key_of", noted)
    monkeypatch.setattr(compiling, "TRACED", compiling.Lately(compiling.MOST_COMPILED))
    schools = eight_schools.problem(), dict(eight_schools.data())
    tilted = stakes.Problem(eight_schools.model, outcome="effect", loss=stakes.Tilted(0.4))
    for seed, (problem, data) in enumerate(
        [schools, schools, (tilted, schools[1]), (radon.problem(), radon.data())]
    ):
        how = stakes.Exponential if seed == 1 else stakes.Linearized
        stakes.calibrate(
            jax.random.key(seed), problem, data, transform=how(), steps=60, progress=False
        )
    assert len(texts) > 15
    assert [key for key, each in texts.items() if len(each) > 1] == []
