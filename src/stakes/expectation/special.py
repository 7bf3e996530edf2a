"""Special functions: logarithms and factorials without the parts that cancel, and Mills' ratio.

The log density of a gamma or beta distribution with a shape of a million is a small difference of
numbers around ten million, which single precision does not hold. Written with these, it is a sum of
small numbers.

The idea is Loader's (Fast and Accurate Computation of Binomial Probabilities, 2000): log(1+v) - v
for the deviance, and the error of Stirling's formula for factorials.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial, wraps
from inspect import signature

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero
from jax.scipy.special import gammaln

from stakes._types import Array
from stakes.expectation.sums import flushed_exp

_NEAR = 0.3
# The bits of √½ in single precision.
_ROOT_HALF = 0x3F3504F3
_RAISE = 8
# Below such a part, a step from one argument of the gamma function to the next is a short one.
_SHORT = 1 / 17
_TURN = 4.0


@jax.custom_jvp
def log_less_tangent(ratio: Array, less_one: Array) -> Array:
    """log r - (r - 1), given both r and r - 1 to full precision."""
    if less_one.dtype != jnp.float32:
        return jnp.where(
            jnp.abs(less_one) < _NEAR, _series(less_one, 10), jnp.log(ratio) - less_one
        )
    # r is 2^e m with m from √½ to √2: the logarithm of m by the series, in less time than `log`.
    bits = jax.lax.bitcast_convert_type(ratio, jnp.int32)
    power = jax.lax.shift_right_arithmetic(bits - _ROOT_HALF, jnp.int32(23))
    rest = bits - jax.lax.shift_left(power, jnp.int32(23))
    part = jax.lax.bitcast_convert_type(rest, ratio.dtype)
    near = power == 0
    off = jnp.where(near, less_one, part - 1)
    far = power.astype(ratio.dtype) * math.log(2) - (less_one - off)
    far = jnp.where(ratio > 0, far, jnp.where(ratio == 0, -jnp.inf, jnp.nan))
    return _series(off, 4) + jnp.where(near, 0.0, far)


def _series(off: Array, terms: int) -> Array:
    """log(1 + v) - v: log(1 + v) is twice the inverse hyperbolic tangent of r, and 2r - v = -vr."""
    r = off / (2 + off)
    series = horner(jnp.square(r), [2 / (2 * k + 3) for k in range(terms)])
    return r * (jnp.square(r) * series - off)


@log_less_tangent.defjvp
def _(primals, tangents):  # type: ignore[no-untyped-def]
    ratio, less_one = primals
    return log_less_tangent(ratio, less_one), -less_one / ratio * tangents[1]


def exp_less_tangent(x: Array) -> Array:
    """exp(x) - 1 - x."""
    single = jnp.result_type(x) == jnp.float32
    near = jnp.abs(x) < (2 * _NEAR if single else _NEAR)
    v = jnp.where(near, x, 0.0)
    series = horner(v, [1 / math.factorial(k + 2) for k in range(8 if single else 10)])
    # `expm1` takes twice the time of `exp`, which does where a longer series leaves off.
    far = jnp.exp(x) - 1 if single else jnp.expm1(x)
    return jnp.where(near, jnp.square(v) * series, far - x)


def stirling_error(x: Array) -> Array:
    """log Γ(x) less Stirling's (x - 1/2) log x - x + log √2π, for x > 0."""
    far, near, small = _raised(x)
    terms = [1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360]
    series = horner(jnp.square(1 / far), terms) / far
    # Γ(x+8) is x (x+1) ... (x+7) times Γ(x).
    product = math.prod(near + k for k in range(1, _RAISE)) * near
    rest = (near - 0.5) * jnp.log1p(_RAISE / near) + _RAISE * (jnp.log(near + _RAISE) - 1)
    return series + jnp.where(small, rest - jnp.log(product), 0.0)


def log_less_digamma(x: Array) -> Array:
    """log x - ψ(x), for x > 0."""
    far, near, small = _raised(x)
    terms = [1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760]
    series = 1 / (2 * far) + jnp.square(1 / far) * horner(jnp.square(1 / far), terms)
    rest = sum(1 / (near + k) for k in range(1, _RAISE)) + 1 / near
    return series + jnp.where(small, rest - jnp.log1p(_RAISE / near), 0.0)


def log_gamma_bend(x: Array, step: Array) -> Array:
    """log Γ(x) - 2 log Γ(x+s) + log Γ(x+2s), for x ≥ 1 and s > 0: relatively exact however small.

    2 Σ ψ_(2k-1)(m) s^2k/(2k)!, with the asymptotic series of these derivatives of log Γ at the
    middle m, raised to where they hold. It is the logarithm of E x^2s/(E x^s)² for a gamma
    variable, from which variances of its powers follow.
    """
    short = _SHORT * (x + _RAISE)
    near = step < short
    held = jnp.where(near, step, short)
    middle = x + _RAISE + held
    inverse, ratio = 1 / middle, jnp.square(held / middle)
    derivatives = (
        (1, 1 / 2, 1 / 6, 0, -1 / 30, 0, 1 / 42, 0, -1 / 30),
        (2, 3, 2, 0, -1, 0, 4 / 3, 0, -3),
        (24, 60, 60, 0, -56, 0, 120),
        (720, 2520, 3360, 0, -5040),
    )
    terms = [
        2 / math.factorial(2 * k + 2) * middle * horner(inverse, each)
        for k, each in enumerate(derivatives)
    ]
    series = ratio * horner(ratio, terms)
    # log Γ(x+k+1) is log Γ(x+k) and log (x+k), of which the same difference is taken.
    for k in range(_RAISE):
        series -= jnp.log1p(-jnp.square(held / (x + k + held)))
    long = jnp.where(near, short, step)
    return jnp.where(near, series, gammaln(x) - 2 * gammaln(x + long) + gammaln(x + 2 * long))


def _raised(x: Array) -> tuple[Array, Array, Array]:
    """x, by eight more where it is too small for asymptotic series; there, x itself; and where."""
    small = x < _RAISE
    return jnp.where(small, x + _RAISE, x), jnp.where(small, x, 1.0), small


def along(slopes: Iterable[Array], tangents: Iterable[Array | SymbolicZero], like: Array) -> Array:
    """Σ slope·tangent over what moves, as a rule for derivatives returns it.

    The slope of a constant, whose tangent is a symbolic zero, is not computed.
    """
    moving = [
        slope * tangent
        for slope, tangent in zip(slopes, tangents, strict=True)
        if not isinstance(tangent, SymbolicZero)
    ]
    return sum(moving, jnp.zeros_like(like))


def with_slopes(
    evaluate: Callable[..., tuple[Array, ...]], settings: int = 0
) -> Callable[..., Array]:
    """The value alone of a function that returns its value and its derivatives.

    JAX then differentiates by these: they take a fraction of the work of differentiating the value,
    and nothing cancels in them that cancels on paper. The last arguments may be `settings`, which
    have no derivative.
    """
    count = len(signature(evaluate).parameters)

    @partial(jax.custom_jvp, nondiff_argnums=tuple(range(count - settings, count)))
    @wraps(evaluate)
    def value(*arguments: Array | float) -> Array:
        return evaluate(*arguments)[0]

    @partial(value.defjvp, symbolic_zeros=True)
    def _(*given):  # type: ignore[no-untyped-def]
        *held, primals, tangents = given
        total, *slopes = evaluate(*primals, *held)
        return total, along(slopes, tangents, total)

    return value


def horner(x: Array, terms: Sequence[float | Array]) -> Array:
    """Σ terms[k] x^k."""
    shape = jnp.broadcast_shapes(jnp.shape(terms[-1]), jnp.shape(x))
    total = jnp.broadcast_to(jnp.asarray(terms[-1], x.dtype), shape)
    for term in reversed(terms[:-1]):
        total = total * x + term
    return total


# Mills' ratio (1 - Φ(x))/φ(x) --------------------------------------------------------------
#
# JAX's `erfc`, `ndtr` and `log_ndtr` evaluate several branches each and would cost more than the
# rest of a calibrated step. Here a polynomial in t = 4/(4 + x) is fitted to SciPy's `erfcx` on
# first use: relative error 3e-7 in single and 1e-14 in double precision, for every x ≥ 0.


@jax.custom_jvp
def mills(x: Array) -> Array:
    """(1 - Φ(x))/φ(x) for x ≥ 0: √(π/2) at zero, 1/x far out."""
    return mills_and_slope(x)[0]


@mills.defjvp
def _(primals, tangents):  # type: ignore[no-untyped-def]
    value, slope = mills_and_slope(*primals)
    return value, slope * tangents[0]


def mills_and_slope(x: Array) -> tuple[Array, Array]:
    """Return Mills' ratio and its derivative, for x ≥ 0.

    The slope has a polynomial of its own, since x·mills(x) - 1 would cancel for large x.
    """
    t = _TURN / (_TURN + x)
    return t * _polynomial(_value, t), -jnp.square(t) * _polynomial(_slope, t)


def density(x: Array) -> Array:
    """The standard normal density φ(x)."""
    return flushed_exp(-jnp.square(x) / 2) / math.sqrt(2 * math.pi)


def _polynomial(target: Callable[[np.ndarray], np.ndarray], t: Array) -> Array:
    """Evaluate the polynomial that is fitted to a function of t on [0, 1].

    By Estrin's scheme: fewer multiplications have to wait for one another than in Horner's.
    """
    degree = 10 if t.dtype == jnp.float32 else 20
    terms, power = [jnp.asarray(c, t.dtype) for c in reversed(_fitted(target, degree))], 2 * t - 1
    # Estrin's scheme: fewer multiplications have to wait for one another than in Horner's.
    while len(terms) > 1:
        pairs = [low + high * power for low, high in zip(terms[::2], terms[1::2], strict=False)]
        terms, power = pairs + terms[2 * len(pairs) :], jnp.square(power)
    return terms[0]


@cache
def _fitted(target: Callable[[np.ndarray], np.ndarray], degree: int) -> tuple[float, ...]:
    """Return the coefficients of the fitted polynomial in 2t - 1, highest power first."""
    from numpy.polynomial import chebyshev

    nodes = chebyshev.chebpts1(4 * degree)
    powers = chebyshev.cheb2poly(chebyshev.chebfit(nodes, target((nodes + 1) / 2), degree))
    return tuple(float(c) for c in powers[::-1])


def _value(t: np.ndarray) -> np.ndarray:
    """mills(x)/t at x = 4/t - 4."""
    from scipy.special import erfcx

    x = _TURN / t - _TURN
    return math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2)) / t


def _slope(t: np.ndarray) -> np.ndarray:
    """-mills'(x)/t² = (1 - x·mills(x))/t², from its series where the difference would cancel."""
    x = _TURN / t - _TURN
    far = np.maximum(x, 30.0)
    series = sum(
        (-1) ** (k + 1) * math.prod(range(1, 2 * k, 2)) / far ** (2 * k) for k in range(1, 9)
    )
    return np.where(x < 30.0, 1 - x * t * _value(t), series) / t**2
