"""A check that the outcomes observed are possible at all under the model's distribution.

NumPyro finds it out while a guide is set up, if at all, and does not say in which row: a count of
2.5 would end in "Cannot find valid initial parameters", or in no finite bound.

The model is run once with possible values for its latents. Limits of a discrete distribution do not
depend on latents, and neither do those that are numbers; where limits do depend on them, nothing is
said.
"""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import constraints
from numpyro.distributions.discrete import HurdleProbs

from stakes._types import Array, Batch, Distribution
from stakes.arguments import rows_where
from stakes.bridge.model_trace import ModelTrace
from stakes.bridge.sites import Site, base_of, prediction_of
from stakes.checks import is_traced
from stakes.errors import InputError, listed
from stakes.host.programs import Program
from stakes.port import sweep

WORDS = (
    (constraints.boolean, "0 and 1"),
    (constraints.nonnegative_integer, "whole numbers from 0"),
    (constraints.positive_integer, "whole numbers from 1"),
    (constraints.positive, "numbers above 0"),
    (constraints.nonnegative, "numbers of at least 0"),
    (constraints.unit_interval, "numbers from 0 to 1"),
)


def check_support(trace: ModelTrace, site: Site, arrays: dict[str, Array]) -> None:
    """Refuse outcomes that the model's distribution cannot have, with their rows.

    Masked outcomes may have any value, such as the zero that fills a gap.
    """
    if trace.about_latent or trace.together or not _can_be_told(base_of(site["fn"])):
        return
    outcome = base_of(site["fn"])
    batches = list(sweep(trace.subsamples))
    tried = [_tried(trace, arrays, batch) for batch in batches]
    values, possible = (_joined(each) for each in zip(*tried, strict=True))
    if possible.all():
        return
    came = np.unique(values[~possible])
    shown = listed((f"{value:g}" for value in came), 5)
    rows = "" if batches != [{}] else f", in {rows_where(~possible)}"
    allowed = _allowed(outcome)
    name = trace.observed or trace.outcome
    raise InputError(
        f"`data[{name!r}]`: {int((~possible).sum())} of {possible.size} outcomes are impossible "
        f"under the model's {type(outcome).__name__}{allowed}; the data have "
        f"{shown}{rows}. Correct the data, or take another distribution."
    )


def _allowed(outcome: Distribution) -> str:
    """Return the values that a distribution may have, in words; empty where there are none."""
    support = outcome.support
    ends = [getattr(support, name, None) for name in ("lower_bound", "upper_bound")]
    told = [end for end in ends if end is not None and not is_traced(end) and np.ndim(end) == 0]
    words = next((words for known, words in WORDS if support is known), "")
    if not words and told:
        kind = "whole numbers" if support.is_discrete else "numbers"
        limits = zip(("from", "up to"), ends, strict=True)
        said = " ".join(f"{word} {end:g}" for word, end in limits if any(end is t for t in told))
        words = f"{kind} {said}"
    return words and f", whose values are {words}"


def _joined(parts: Sequence[Array]) -> np.ndarray:
    """Return the outcomes of all batches in a row; of one batch, as they lie."""
    if len(parts) == 1:
        return np.atleast_1d(parts[0])
    return np.concatenate([np.ravel(part) for part in parts])


def _can_be_told(outcome: Distribution) -> bool:
    """Whether the limits of an outcome are known, and do not depend on latents.

    The zeros of a hurdle lie outside the support of the distribution behind it.
    """
    support = outcome.support
    # The zeros of a hurdle lie outside the support of what is behind it.
    if support is constraints.real or outcome.event_shape or isinstance(outcome, HurdleProbs):
        return False
    fixed = not any(is_traced(leaf) for leaf in jax.tree.leaves(support))
    return bool(support.is_discrete) or fixed


@functools.partial(Program, static=("trace",))
def _tried(trace: ModelTrace, arrays: dict[str, Array], batch: Batch) -> tuple[Array, Array]:
    """Return the outcomes, and whether each is possible or does not count.

    Latents have stand-ins: possible values, whatever the data say.
    """
    sites = trace.run(arrays, trace.stand_ins(), jax.random.key(0), batch)
    outcome, weight = prediction_of(sites[trace.outcome])
    value = jnp.asarray(sites[trace.outcome]["value"])
    return value, outcome.support(value) | (weight == 0)
