"""Outcomes with finitely many values: a single one, labels, and successes among so many trials.

Whatever grows on either side of a decision about zero or one, exponentially or not, the best one is
zero or one: between the two, the expectation is as for the decisions next to it, or less good. A
statistic of few values is a sum over them. Successes among n trials have P(y ≤ k) = P(g > p) for g
~ Beta(k+1, n-k), and so need no sum.
"""

import math
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpyro.distributions as dist

from stakes._types import Array, Number
from stakes.expectation import stats
from stakes.expectation.families.guards import floats, not_zero
from stakes.expectation.incomplete import beta_above, beta_weight
from stakes.expectation.special import exp_less_tangent, log_less_tangent, stirling_error

Bernoulli: TypeAlias = dist.BernoulliProbs | dist.BernoulliLogits
Categorical: TypeAlias = dist.CategoricalProbs | dist.CategoricalLogits
Binomial: TypeAlias = dist.BinomialProbs | dist.BinomialLogits

# A point that holds all of the probability -------------------------------------------------


@stats.mean.register
def _(outcome: dist.Delta) -> Array:
    """The value itself, v."""
    return jnp.asarray(outcome.v)


@stats.variance.register
def _(outcome: dist.Delta) -> Array:
    """Zero."""
    return jnp.zeros_like(outcome.v)


@stats.cdf.register
def _(outcome: dist.Delta, value: Array) -> Array:
    """One from v on."""
    return (value >= outcome.v).astype(jnp.result_type(float))


@stats.below.register
def _(outcome: dist.Delta, value: Array) -> Array:
    """One above v."""
    return (value > outcome.v).astype(jnp.result_type(float))


@stats.tails.register
def _(outcome: dist.Delta, decision: Array, above: float, below: float) -> Array:
    """The cost at v."""
    short = outcome.v - decision
    return jnp.maximum(above * short, -below * short)


@stats.least_tails.register
def _(outcome: dist.Delta, above: float, below: float) -> Array:
    """Zero, for a decision at v."""
    return jnp.zeros_like(outcome.v)


@stats.cumulant.register
def _(outcome: dist.Delta, t: float) -> Array:
    """Zero: y is its mean."""
    return jnp.zeros_like(outcome.v)


@stats.log_tails.register
def _(outcome: dist.Delta, decision: Array, above: Number, below: Number) -> Array:
    """Minus the cost at v."""
    short = outcome.v - decision
    return -jnp.maximum(above * short, -below * short)


@stats.log_kernel.register
def _(outcome: dist.Delta, decision: Array, width: Number) -> Array:
    """-(v - h)²/width."""
    return -jnp.square(outcome.v - decision) / width


@stats.best_in_log_tails.register
def _(outcome: dist.Delta, above: Number, below: Number) -> Array:
    """The value itself."""
    return jnp.asarray(outcome.v)


@stats.best_in_log_kernel.register
def _(outcome: dist.Delta, width: Number) -> Array:
    """The value itself."""
    return jnp.asarray(outcome.v)


# Zero or one -------------------------------------------------------------------------------


@stats.few_values.register
def _(outcome: Bernoulli) -> int:
    """Two."""
    return 2


@stats.tails.register
def _(outcome: Bernoulli, decision: Array, above: float, below: float) -> Array:
    """p times the cost at one, and 1 - p times that at zero."""
    one, zero, decision = floats(*chances(outcome), decision)
    if_one = jnp.maximum(above * (1 - decision), below * (decision - 1))
    return one * if_one + zero * jnp.maximum(-above * decision, below * decision)


@stats.least_tails.register
def _(outcome: Bernoulli, above: float, below: float) -> Array:
    """The smaller of above·p, for a decision of zero, and below·(1 - p), for one."""
    one, zero = floats(*chances(outcome))
    return jnp.minimum(above * one, below * zero)


@stats.cdf.register
def _(outcome: Bernoulli, value: Array) -> Array:
    """1 - p from zero on, and one from one on."""
    zero, value = floats(chances(outcome)[1], value)
    return jnp.where(value < 0, 0.0, jnp.where(value < 1, zero, 1.0))


@stats.log_tails.register
def _(outcome: Bernoulli, decision: Array, above: Number, below: Number) -> Array:
    """log [p exp(-cost at one) + (1 - p) exp(-cost at zero)]."""
    log_one, log_zero = _log_chances(outcome)
    (decision,) = floats(decision)
    if_one = -jnp.maximum(above * (1 - decision), below * (decision - 1))
    if_zero = -jnp.maximum(-above * decision, below * decision)
    return jnp.logaddexp(log_one + if_one, log_zero + if_zero)


@stats.best_in_log_tails.register
def _(outcome: Bernoulli, above: Number, below: Number) -> Array:
    """Zero or one, whichever has the larger `log_tails`; nan where these are unknown."""
    at_zero, at_one = (stats.log_tails(outcome, jnp.asarray(at), above, below) for at in (0.0, 1.0))
    return jnp.where(at_zero >= at_one, 0.0, jnp.where(at_one > at_zero, 1.0, jnp.nan))


@stats.most_log_tails.register
def _(outcome: Bernoulli, above: Number, below: Number) -> Array:
    """The larger of `log_tails` at zero and at one."""
    return jnp.maximum(
        *(stats.log_tails(outcome, jnp.asarray(at), above, below) for at in (0.0, 1.0))
    )


def _log_chances(outcome: Bernoulli) -> tuple[Array, Array]:
    """The logarithms of the chances of one and of zero, from logits where there are some."""
    if isinstance(outcome, dist.BernoulliLogits):
        (logits,) = floats(outcome.logits)
        return jax.nn.log_sigmoid(logits), jax.nn.log_sigmoid(-logits)
    one, zero = floats(*chances(outcome))
    return jnp.log(not_zero(one)), jnp.log(not_zero(zero))


@stats.cumulant.register
def _(outcome: Bernoulli, t: float) -> Array:
    """log(1 + p (exp t - 1)) - pt."""
    probs, rest = floats(*chances(outcome))
    return _cumulant_of_one(probs, rest, t)


# Labels ------------------------------------------------------------------------------------


@stats.few_values.register
def _(outcome: dist.CategoricalProbs) -> int:
    """One for each label."""
    return int(outcome.probs.shape[-1])


@stats.few_values.register
def _(outcome: dist.CategoricalLogits) -> int:
    """One for each label."""
    return int(outcome.logits.shape[-1])


@stats.mean.register
def _(outcome: Categorical) -> Array:
    """Σ p_k k, for labels that are numbers. NumPyro's mean is nan."""
    return outcome.probs @ jnp.arange(outcome.probs.shape[-1], dtype=outcome.probs.dtype)


@stats.variance.register
def _(outcome: Categorical) -> Array:
    """Σ p_k (k - E y)²."""
    labels = jnp.arange(outcome.probs.shape[-1], dtype=outcome.probs.dtype)
    away = labels - stats.mean(outcome)[..., None]
    return jnp.sum(outcome.probs * jnp.square(away), axis=-1)


@stats.log_mass.register
def _(outcome: Categorical, count: Array) -> Array:
    """Convert labels to integers, because JAX uses them as indices."""
    return outcome.log_prob(count.astype(int))


# Successes among so many trials ------------------------------------------------------------


@stats.largest_value.register
def _(outcome: Binomial) -> Array:
    """The number of trials, n."""
    return jnp.asarray(outcome.total_count)


@stats.excess.register
def _(outcome: Binomial, decision: Array) -> Array:
    """(np - h) P(y > k) + p^(k+1) (1-p)^(n-k)/B(k+1, n-k), with k the whole part of h."""
    total, probs, decision = floats(outcome.total_count, outcome.probs, decision)
    places = _binomial_places(outcome, decision)
    away = total * probs - decision
    inside = away * (1 - beta_above(*places)) + beta_weight(*places)
    return jnp.where(decision < 0, away, jnp.where(decision < total, inside, 0.0))


@stats.cdf.register
def _(outcome: Binomial, value: Array) -> Array:
    """P(g > p) for g ~ Beta(k+1, n-k)."""
    total, value = floats(outcome.total_count, value)
    inside = beta_above(*_binomial_places(outcome, value))
    return jnp.where(value < 0, 0.0, jnp.where(value < total, inside, 1.0))


@stats.cumulant.register
def _(outcome: Binomial, t: float) -> Array:
    """n times that of a single trial."""
    total, probs, rest = floats(outcome.total_count, *chances(outcome))
    return total * _cumulant_of_one(probs, rest, t)


@stats.log_mass.register
def _(outcome: Binomial, count: Array) -> Array:
    """By Loader's formula; n log(1-p) at zero, and n log p at n."""
    total, count = floats(outcome.total_count, count)
    chance, rest = map(not_zero, floats(*chances(outcome)))
    within = (count > 0) & (count < total)
    successes, failures = jnp.where(within, count, 1.0), jnp.where(within, total - count, 1.0)
    inside = log_binomial(successes, failures, chance, rest)
    log_rest = jnp.where(chance < rest, jnp.log1p(-jnp.minimum(chance, 0.5)), jnp.log(rest))
    ends = jnp.where(count > 0, total * jnp.log(chance), total * log_rest)
    return jnp.where(within, inside, ends)


def _cumulant_of_one(probs: Array, rest: Array, t: float) -> Array:
    """log(1 + p (exp t - 1)) - p t."""
    if abs(t) < 1:
        # Counting what is rarer, successes or failures, keeps the two parts apart.
        rare, by = jnp.minimum(probs, rest), jnp.where(probs > rest, -t, t)
        change = rare * jnp.expm1(by)
        return log_less_tangent(1 + change, change) + rare * exp_less_tangent(by)
    log_probs, log_rest = jnp.log(not_zero(probs)), jnp.log(not_zero(rest))
    return jnp.logaddexp(log_rest, log_probs + t) - probs * t


def _binomial_places(outcome: Binomial, value: Array) -> list[Array]:
    """The arguments of the incomplete beta function: P(y ≤ k) is P(g > p) for g ~ Beta(k+1, n-k).

    Counts beyond the ends are moved inside; whoever asks knows what holds there.
    """
    total, *both, value = floats(outcome.total_count, *chances(outcome), value)
    count = jnp.clip(jnp.floor(value), 0.0, jnp.maximum(total - 1, 0.0))
    places = (count + 1, jnp.maximum(total, 1.0) - count, *map(not_zero, both))
    return jnp.broadcast_arrays(*places)


def log_binomial(successes: Array, failures: Array, chance: Array, rest: Array) -> Array:
    """The log probability of so many successes and failures, above zero but not always whole.

    After Loader, Fast and accurate computation of binomial probabilities (2000): a sum of small
    terms, where the textbook's is a difference of numbers too large for single precision.
    """
    total = successes + failures
    off = chance * failures - rest * successes  # the mean, less the successes
    away = successes * log_less_tangent(chance * total / successes, off / successes)
    away += failures * log_less_tangent(rest * total / failures, -off / failures)
    error = stirling_error(total) - stirling_error(successes) - stirling_error(failures)
    return away + error - 0.5 * jnp.log(2 * math.pi * successes * (failures / total))


def chances(outcome: Bernoulli | Binomial) -> tuple[Array, Array]:
    """Of a success and of a failure, each to full precision."""
    if isinstance(outcome, dist.BernoulliLogits | dist.BinomialLogits):
        return jax.nn.sigmoid(outcome.logits), jax.nn.sigmoid(-outcome.logits)
    return outcome.probs, 1 - outcome.probs
