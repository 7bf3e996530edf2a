"""A check that the outcomes observed are possible at all under the model's distribution.

NumPyro's densities take any number: a Bernoulli outcome of 2, or a count of 2.5, would be fitted
without a word.
"""

import functools

import jax
import numpy as np
from numpyro import handlers
from numpyro.distributions import constraints
from numpyro.distributions.discrete import HurdleProbs

from stakes._types import Array, Batch, Distribution
from stakes.arguments import rows_where
from stakes.bridge.cases import Cases
from stakes.bridge.indices import Placeholders
from stakes.bridge.sites import Site, base_of, prediction_of, trace_of
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


def check_support(cases: Cases, site: Site, arrays: dict[str, Array]) -> None:
    """Refuse outcomes that the model's distribution cannot have, with their rows."""
    if cases.about_latent or cases.together or not _can_be_told(base_of(site["fn"])):
        return
    outcome = base_of(site["fn"])
    batches = list(sweep(cases.subsamples))
    tried = [_tried(cases, arrays, batch) for batch in batches]
    values, possible = (np.concatenate(each) for each in zip(*tried, strict=True))
    if possible.all():
        return
    came = np.unique(values[~possible])
    shown = listed((f"{value:g}" for value in came), 5)
    rows = "" if batches != [{}] else f", in the rows {listed(rows_where(~possible), 5)}"
    allowed = next((words for known, words in WORDS if outcome.support is known), "others")
    name = cases.observed or cases.outcome
    raise InputError(
        f"`data[{name!r}]`: {int((~possible).sum())} of {possible.size} outcomes are impossible "
        f"under the model's {type(outcome).__name__}, whose values are {allowed}; there is "
        f"{shown}{rows}. Correct the data, or take another distribution."
    )


def _can_be_told(outcome: Distribution) -> bool:
    """Limits are known, and do not depend on latents; those of discrete ones never do."""
    support = outcome.support
    # The zeros of a hurdle lie outside the support of what is behind it.
    if support is constraints.real or outcome.event_shape or isinstance(outcome, HurdleProbs):
        return False
    fixed = not any(is_traced(leaf) for leaf in jax.tree.leaves(support))
    return bool(support.is_discrete) or fixed


@functools.partial(Program, static=("cases",))
def _tried(cases: Cases, arrays: dict[str, Array], batch: Batch) -> tuple[Array, Array]:
    """The outcomes, and whether they are possible or do not count."""
    with Placeholders(), handlers.substitute(data=dict(batch)):
        sites = trace_of(cases.model, {**cases.constants, **arrays}, jax.random.key(0))
    site = sites[cases.outcome]
    outcome, weight = prediction_of(site)
    return site["value"], outcome.support(site["value"]) | (weight == 0)
