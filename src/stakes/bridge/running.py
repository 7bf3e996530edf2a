"""Guide and model as NumPyro's own SVI runs them: parameters come with their constraints.

`CalibratedELBO` is a loss for `numpyro.infer.SVI`, which owns parameters, keys and the handlers
around both programs. `Running` gives the bound what it needs of them at one step, and decisions are
one more parameter of the guide.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import jax
import jax.numpy as jnp
import numpyro
from numpyro import handlers

from stakes._types import Array, Batch, Key, Model, Params
from stakes.bridge.approximation import AFTER_SPLIT, draw_of
from stakes.bridge.compatibility import as_guide, check_outcome_shape
from stakes.bridge.sites import instances_of, subsamples_of
from stakes.errors import InputError
from stakes.port import Draw, NormalPair
from stakes.problem import Problem


@final
@dataclass(frozen=True, eq=False)
class Running:
    """What a bound needs of a guide and a model with these arguments.

    Attributes:
        outcome: the site to decide about.
        arguments: those that SVI passes on by place.
        named: those that it passes on by name.
    """

    model: Model
    guide: Model
    outcome: str
    arguments: tuple[Any, ...]
    named: Mapping[str, Any]

    normals: ClassVar[tuple[NormalPair, ...]] = ()
    times: ClassVar[None] = None
    division: ClassVar[None] = None

    def draw(self, params: Params, key: Key, batch: Batch, noise: object = None) -> Draw:
        """Draw from the guide as `Trace_ELBO` does: the same key gives the same values."""
        with handlers.substitute(data={**params, **batch}):
            guide_sites = self._sites(self.guide, key)
            model = handlers.replay(self.model, guide_sites)
            model_sites = self._sites(model, jax.random.fold_in(key, AFTER_SPLIT))
        return draw_of(guide_sites, model_sites, self.outcome)

    def _sites(self, program: Model, key: Key) -> dict[str, Any]:
        traced = handlers.trace(handlers.seed(program, key))
        return dict(traced.get_trace(*self.arguments, **self.named))


def guide_with_decisions(problem: Problem, name: str, start: Array | None) -> Model:
    """Return the problem's guide, with the decisions as one more parameter.

    Args:
        problem: its guide, model and outcome.
        name: that of the parameter.
        start: where decisions start; at the median of the observed outcomes for None.
    """
    guide = as_guide(problem)

    def with_decisions(*arguments: object, **named: object) -> object:
        drawn = guide(*arguments, **named)
        numpyro.param(name, _start(problem, start, arguments, named))
        return drawn

    return with_decisions


def _start(
    problem: Problem, start: Array | None, arguments: tuple[Any, ...], named: Mapping[str, Any]
) -> Array:
    """Return where decisions start, from a run of the model that has to see all outcomes."""
    with handlers.block():
        traced = handlers.trace(handlers.seed(problem.model, jax.random.key(0)))
        sites = traced.get_trace(*arguments, **named)
    site = sites.get(problem.outcome)
    if site is None or site["type"] != "sample" or not site["is_observed"]:
        raise InputError(
            f"`CalibratedELBO` needs the observed outcomes: the model does not observe "
            f"{problem.outcome!r} with these arguments."
        )
    check_outcome_shape(problem.outcome, site)
    instances = instances_of(problem.outcome, site, subsamples_of(sites))
    if instances.shape != site["fn"].shape():
        raise InputError(
            "`CalibratedELBO` takes the data as a whole, and the model takes them in minibatches. "
            "Leave `subsample_size` out, or use `calibrate`, which supports minibatches."
        )
    if start is not None:
        if jnp.shape(start) != instances.shape:
            raise InputError(
                f"`CalibratedELBO(decisions=...)` must have one value for each outcome, and so "
                f"shape {instances.shape}; it has shape {jnp.shape(start)}."
            )
        return jnp.asarray(start, jnp.result_type(float))
    middle = jnp.median(jnp.asarray(site["value"], jnp.result_type(float)))
    return jnp.broadcast_to(middle, instances.shape)
