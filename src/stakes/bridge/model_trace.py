"""The model on some cases: those of a fit, or others."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

import jax.numpy as jnp
import numpy as np

from stakes._types import Array, Batch, Model
from stakes.errors import InputError
from stakes.port import Instances, Rows, Subsample


@final
@dataclass(frozen=True, eq=False)
class ModelTrace:
    """The model on some cases, without their arrays; compared by identity, as a key for jit."""

    model: Model
    outcome: str
    observed: str
    """The argument that carries the observed outcomes."""
    constants: Mapping[str, Any]
    """Arguments of the model that are not arrays, on which shapes may depend."""
    instances: Instances
    subsamples: tuple[Subsample, ...]
    plates: Mapping[str, int]
    """All plates, with their full sizes."""
    latents: Mapping[str, Instances]
    """Shape and dims of each latent known from the fit; others are drawn from the model."""
    learned: tuple[str, ...]
    """The `numpyro.param` sites of the model itself."""
    derived: Mapping[str, Instances]
    """Shape and dims of the model's `numpyro.deterministic` sites."""
    matched: Mapping[str, Instances] = field(default_factory=dict)
    """As in the fit, shape and dims of latents of which only some rows are known from it, or all
    but in another order."""
    parts_of_fit: frozenset[str] = frozenset()
    """Plates that come in minibatches in the fit."""
    about_latent: bool = False
    """Whether decisions are about a latent or deterministic site, which is never observed."""
    together: bool = False
    """Whether outcomes are whole events, vectors, instead of the numbers in them."""
    action: str | None = None
    """The argument that is decided about, where decisions change outcomes."""
    acts_in_steps: bool = False
    """Whether decisions about it are whole numbers or actions, which the model may index with."""
    told: frozenset[str] = frozenset()
    """Plates whose members are told by labels: some may be new, or in another order."""

    @property
    def kind(self) -> dict[str, bool]:
        """What kind of outcome it is."""
        return {"latent": self.about_latent, "together": self.together}

    @property
    def known_plates(self) -> frozenset[str]:
        """Plates whose members are those of the fit: their latents are known from it."""
        from_fit = (*self.latents.values(), *self.matched.values())
        return frozenset(dim for latent in from_fit for dim in latent.dims) - self.told

    @property
    def known_instances(self) -> tuple[str, ...]:
        """Those of the known plates along which decisions are made."""
        return tuple(dim for dim in self.instances.dims if dim in self.known_plates)


def with_decision(
    data: Mapping[str, Any], trace: ModelTrace, batch: Batch, decision: Array
) -> dict[str, Any]:
    """The data of the cases, if this were decided for those in the batch."""
    assert trace.action is not None
    made = jnp.asarray(data[trace.action])
    if trace.acts_in_steps and jnp.issubdtype(made.dtype, jnp.integer):
        whole, decision = made, jnp.round(decision).astype(made.dtype)
    else:
        whole = made.astype(jnp.result_type(float))
    return {**data, trace.action: Rows.of(trace.instances, batch).scatter(whole, decision)}


def check_action(trace: ModelTrace, data: Mapping[str, Any]) -> None:
    """Refuse a decision that is no argument with a number for each outcome."""
    if trace.action is None:
        return
    made = data.get(trace.action)
    shape = None if made is None else np.shape(made)
    if shape != trace.instances.shape:
        came = "is not there" if shape is None else f"has the shape {shape}"
        raise InputError(
            f"`data[{trace.action!r}]`, which is decided about, {came}; it must have the decision "
            f"that was made for each outcome, in the shape {trace.instances.shape}."
        )
