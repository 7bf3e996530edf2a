"""An infinite line on which the mass of an outcome is spread evenly around zero.

Equally spaced points on it suit any outcome with one peak, whatever its unit, its skewness
and the ends of its support. Nothing here has a gradient.
"""

import math
from dataclasses import dataclass
from functools import singledispatch
from typing import Literal, NamedTuple, TypeAlias, final

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions.discrete import HurdleProbs, ZeroInflatedProbs

from stakes._types import Array, Distribution, PerInstance
from stakes.errors import NoClosedForm
from stakes.expectation import stats
from stakes.protocols import Spaced

Kind: TypeAlias = Literal["line", "above", "below", "between", "circle"]
"""The whole line, above an end, below one, between two, or the angles from -π to π."""
QUARTILES = (0.25, 0.5, 0.75)
HALF = 0.5 / 0.6745
"""Of a standard deviation, in units of the way from the median of a normal to a quartile."""


class Scales(NamedTuple):
    """Where the mass lies in coordinates without ends, and half of its spread on either side."""

    centre: PerInstance
    down: PerInstance
    up: PerInstance


@final
@dataclass(frozen=True)
class Spacing(Spaced):
    """y = f(centre + up (exp t - 1) - down (exp(-t) - 1)) for t on the whole line.

    The function f is the identity where the support has no end, and otherwise an exponential or a
    logistic function; y then goes through the lines `start + slope y`.
    """

    kind: Kind
    scales: Scales
    low: Array
    """The end, or the centre of a circle."""
    width: Array
    start: Array
    slope: Array

    def outward(self, grow: Array) -> tuple[Array, Array]:
        """From exp t to y, and log |dy/dt|."""
        centre, down, up = self.scales
        x = centre + up * (grow - 1) - down * (1 / grow - 1)
        log_slope = jnp.log(up * grow + down / grow)
        y, more = self._bent(x)
        return self.start + self.slope * y, log_slope + more + jnp.log(jnp.abs(self.slope))

    def inward(self, y: Array) -> Array:
        """From y to exp t."""
        centre, down, up = self.scales
        away = self._straight((y - self.start) / self.slope) - centre + up - down
        root = jnp.sqrt(jnp.square(away) + 4 * up * down)
        # The larger of the two terms, so that nothing cancels.
        far = jnp.where(away > 0, (away + root) / (2 * up), 2 * down / (root - away))
        return jnp.clip(far, 1e-3, 1e3)

    @property
    def spread(self) -> PerInstance:
        """About a standard deviation of y."""
        centre, down, up = self.scales
        _, log_slope = self._bent(centre)
        wide = down + up if self.kind == "line" else jnp.minimum(down + up, 1.0)
        return jnp.abs(self.slope) * wide * jnp.exp(log_slope)

    def _bent(self, x: Array) -> tuple[Array, Array]:
        tiny, digit = np.finfo(x.dtype).tiny, np.finfo(x.dtype).eps
        if self.kind == "line":
            return x, jnp.zeros_like(x)
        if self.kind in ("above", "below"):
            x = jnp.clip(x, math.log(tiny) + 10, -math.log(tiny) / 2)
            side = 1.0 if self.kind == "above" else -1.0
            return self.low + side * jnp.exp(x), x
        part = jnp.clip(jax.nn.sigmoid(x), tiny, 1 - digit)
        log_slope = jnp.log(self.width) + jnp.log(part) - jax.nn.softplus(x)
        if self.kind == "between":
            return self.low + self.width * part, log_slope
        turned = self.low + self.width * (part - 0.5)
        return turned - 2 * math.pi * jnp.round(turned / (2 * math.pi)), log_slope

    def _straight(self, y: Array) -> Array:
        tiny = np.finfo(jnp.result_type(float)).tiny
        if self.kind == "line":
            return y
        if self.kind in ("above", "below"):
            return jnp.log(jnp.maximum(jnp.abs(y - self.low), tiny))
        away = y - self.low
        if self.kind == "circle":
            away = away - 2 * math.pi * jnp.round(away / (2 * math.pi)) + math.pi
        part = jnp.clip(away / self.width, 1e-6, 1 - 1e-6)
        return jnp.log(part) - jnp.log1p(-part)


def spacing_of(outcome: Distribution) -> Spacing:
    """That of an outcome; raises `NoClosedForm` where it is not known where the mass lies."""
    outcome = jax.lax.stop_gradient(outcome)
    if (line := stats.line(outcome)) is not None:
        behind = spacing_of(line.of)
        return Spacing(
            behind.kind,
            behind.scales,
            behind.low,
            behind.width,
            line.start + line.slope * behind.start,
            line.slope * behind.slope,
        )
    kind, low, width = _support(outcome)
    scales = _scales(outcome, Spacing(kind, Scales(*jnp.ones(3)), low, width, *_same()))
    return Spacing(kind, Scales(*map(_float, scales)), low, width, *_same())


def _same() -> tuple[Array, Array]:
    return _float(0.0), _float(1.0)


def _float(value: object) -> Array:
    return jnp.asarray(value, jnp.result_type(float))


def _support(outcome: Distribution) -> tuple[Kind, Array, Array]:
    """Counts have the whole numbers between ends that lie half a number further out."""
    if isinstance(outcome, dist.VonMises):
        return "circle", _float(outcome.loc), _float(2 * math.pi)
    room = 0.5 if stats.is_discrete(outcome) else 0.0
    lower, upper = stats.ends(outcome)
    if room:
        lower, upper = stats.smallest_value(outcome), stats.last_value(outcome)
    if lower is None and upper is None:
        return "line", _float(0.0), _float(1.0)
    if lower is None:
        return "below", _float(upper), _float(1.0)
    if upper is None:
        return "above", _float(lower) - room, _float(1.0)
    return "between", _float(lower) - room, _float(upper) - _float(lower) + 2 * room


@singledispatch
def _scales(outcome: Distribution, plain: Spacing) -> Scales:
    """By its quartiles; without an inverse distribution function, by its mean and variance."""
    if not stats.is_discrete(outcome):
        try:
            lower, middle, upper = (plain._straight(outcome.icdf(q)) for q in QUARTILES)
        except (ImportError, NotImplementedError):
            pass
        else:
            if plain.kind == "below":
                lower, upper = upper, lower
            return Scales(middle, HALF * (middle - lower), HALF * (upper - middle))
    return _by_moments(outcome, plain)


def _by_moments(outcome: Distribution, plain: Spacing) -> Scales:
    """Return the scales of a normal, gamma or beta distribution with this mean and variance."""
    if stats.is_discrete(outcome):
        mean, sd = stats.mean(outcome), jnp.sqrt(stats.variance(outcome) + 0.25)
    elif stats.components(outcome) is not None:
        mean, sd = stats.mean(outcome), jnp.sqrt(stats.variance(outcome))
    else:
        try:
            mean, sd = rough_place(outcome)
        except NotImplementedError as error:
            raise NoClosedForm(str(error)) from error
    if plain.kind == "line":
        location = stats.parameter(outcome, "loc")
        return Scales(mean if location is None else location, sd / 2, sd / 2)
    if plain.kind in ("above", "below"):
        away = jnp.abs(mean - plain.low)
        shape = jnp.square(away / sd)
        scales = _of_gamma(shape, shape / away)
        # Nothing is nearer to the least count than half a number.
        return (
            scales._replace(down=jnp.minimum(scales.down, 0.6))
            if stats.is_discrete(outcome)
            else scales
        )
    part, share = (mean - plain.low) / plain.width, jnp.square(sd / plain.width)
    both = jnp.maximum(part * (1 - part) / share - 1, 1e-2)
    return _of_beta(both * part, both * (1 - part))


def _of_gamma(shape: Array, rate: Array) -> Scales:
    """The log density falls at the rate of the shape on one side, and quickly on the other."""
    down, up = _tail(shape), jnp.minimum(1 / jnp.sqrt(shape), 1.0) / 2
    return Scales(jnp.log((shape + 0.3) / rate), down, up)


def _of_beta(a: Array, b: Array) -> Scales:
    near = jnp.minimum(1 / a, 1.0) / 4, jnp.minimum(1 / b, 1.0) / 4
    down = jnp.sqrt(jnp.square(_tail(a)) + near[1])
    up = jnp.sqrt(jnp.square(_tail(b)) + near[0])
    return Scales(jnp.log(a + 0.3) - jnp.log(b + 0.3), down, up)


def _tail(shape: Array) -> Array:
    return jnp.sqrt(1 / shape + 1 / jnp.square(shape)) / 2


@_scales.register
def _(outcome: dist.Gamma, plain: Spacing) -> Scales:
    return _of_gamma(outcome.concentration, outcome.rate)


@_scales.register
def _(outcome: dist.Beta, plain: Spacing) -> Scales:
    return _of_beta(outcome.concentration1, outcome.concentration0)


@_scales.register
def _(outcome: dist.InverseGamma, plain: Spacing) -> Scales:
    centre, down, up = _of_gamma(outcome.concentration, outcome.rate)
    return Scales(-centre, up, down)


@_scales.register
def _(outcome: dist.VonMises, plain: Spacing) -> Scales:
    sd = jnp.minimum(1 / jnp.sqrt(outcome.concentration), 2.0)
    return Scales(jnp.zeros_like(sd), sd / math.pi, sd / math.pi)


@_scales.register
def _(outcome: HurdleProbs | ZeroInflatedProbs, plain: Spacing) -> Scales:
    """Of what is not zero."""
    return _scales(stats.bare(outcome.base_dist), plain)


@singledispatch
def rough_place(outcome: Distribution) -> tuple[Array, Array]:
    """A place where there is mass, and its spread, where NumPyro lacks quantiles."""
    if stats.components(outcome) is not None:
        raise NotImplementedError  # what lies between components is no place with mass
    try:
        centre, sd = stats.mean(outcome), jnp.sqrt(stats.variance(outcome))
    except NoClosedForm as error:
        raise NotImplementedError from error
    scale = stats.parameter(outcome, "scale")
    return centre, jnp.where(jnp.isfinite(sd), sd, 1.0 if scale is None else scale)


@rough_place.register
def _(outcome: dist.InverseGamma) -> tuple[Array, Array]:
    """It may have no moments."""
    middle = outcome.rate / outcome.concentration
    return middle, middle


@rough_place.register
def _(outcome: dist.VonMises) -> tuple[Array, Array]:
    """The circle is cut open at π."""
    centre = outcome.loc - 2 * math.pi * jnp.round(outcome.loc / (2 * math.pi))
    return centre, jnp.minimum(1 / jnp.sqrt(outcome.concentration), 2.0)
