"""A NumPyro model and guide whose rows are divided among processes."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import final

import jax
import numpyro

from stakes._types import Array, Batch, Distribution, Key, Params
from stakes.bridge.approximation import NumPyroApproximation
from stakes.bridge.sites import Site, site_plates
from stakes.errors import InputError, some
from stakes.port import (
    Division,
    Draw,
    Instances,
    NormalPair,
    Response,
    Subsample,
    key_of_part,
    responds,
)
from stakes.processes import own_index
from stakes.varying import Need


class LocalBatch(numpyro.primitives.Messenger):  # type: ignore[misc]
    """Inside, model and guide see the part of a minibatch that one process has.

    What belongs to its rows is drawn as it would be in the whole minibatch, and all else as it is
    in every process.
    """

    def __init__(self, division: Division) -> None:
        self.division = division
        super().__init__()

    def process_message(self, msg: Site) -> None:
        plate, size = self.division.plate, self.division.part.batch_size // self.division.count
        if msg["type"] == "plate" and msg["name"] == plate:
            msg["args"] = (msg["args"][0], size)
        if msg["type"] != "sample" or plate not in site_plates(msg):
            return
        if not self.division.is_even:
            scale = 1.0 if msg["scale"] is None else msg["scale"]
            msg["scale"] = scale * self.division.weight()
        key = msg["kwargs"].get("rng_key")
        if key is not None:
            [dim] = [frame.dim for frame in msg["cond_indep_stack"] if frame.name == plate]
            axis = dim - msg["fn"].event_dim
            msg["kwargs"]["rng_key"] = _own(self.division, key, axis)


def _own(division: Division, key: Key, axis: int) -> Key:
    return key_of_part(key, own_index(), division.count, axis)


@final
@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["whole"],
    meta_fields=["division", "has_own_rows"],
)
@dataclass(frozen=True)
class Divided:
    """An approximation as one of several processes sees it. Build it with `divided`.

    Data are whole in every process, and members are told by their places in them; variables hold
    the rows of the share. Or each process has rows of its own (`apart`).
    """

    whole: NumPyroApproximation
    division: Division
    has_own_rows: bool = False
    """Whether data differ from process to process."""

    @property
    def instances(self) -> Instances:
        return self.whole.instances

    @property
    def subsamples(self) -> tuple[Subsample, ...]:
        return self.whole.subsamples

    @property
    def normals(self) -> tuple[NormalPair, ...]:
        return self.whole.normals

    @property
    def times(self) -> Array | None:
        return self.whole.times

    def apart(self, rows: int) -> "Divided":
        """The same with rows of this process alone, which are a sample of so many of its own."""
        # The mean over processes is that of all rows: each speaks for as many as all have.
        whole = self.whole.standing_for(self.division.count * rows)
        return replace(self, whole=whole, has_own_rows=True)

    def of_rows(self, arrays: dict[str, Array]) -> "Divided":
        """The same with other rows, as many."""
        return replace(self, whole=self.whole.of_rows(arrays))

    def init(self, key: Key) -> Params:
        return self.whole.init(key)

    def plates_of(self, parameter: str) -> dict[str, int]:
        return self.whole.plates_of(parameter)

    def columns(self, needs: tuple[Need, ...]) -> dict[Need, Array]:
        return self.whole.columns(needs)

    def own_key(self, key: Key) -> Key:
        dims = self.instances.dims
        if self.division.plate not in dims:
            return key
        return _own(self.division, key, dims.index(self.division.plate) - len(dims))

    def draw(
        self, params: Params, key: Key, batch: Batch, noise: Mapping[str, Array] | None = None
    ) -> Draw:
        with LocalBatch(self.division):
            drawn = self.whole.draw(params, key, batch, noise)
        if not responds(drawn.outcome):
            return drawn
        return drawn._replace(outcome=replace(drawn.outcome, predict=self._predict(drawn.outcome)))

    def _predict(self, outcome: Response) -> Callable[[dict[str, Array], Key, Array], Distribution]:
        def predict(latents: dict[str, Array], key: Key, decision: Array) -> Distribution:
            with LocalBatch(self.division):
                return outcome.predict(latents, key, decision)

        return predict


def divided(approximation: NumPyroApproximation, count: int) -> Divided:
    """The approximation with its rows divided among so many processes."""
    parts = approximation.subsamples
    if len(parts) != 1:
        has = f"those of {some(part.plate for part in parts)}" if parts else "none"
        raise InputError(
            f"Processes divide the rows of one plate that is taken in minibatches, "
            f"`numpyro.plate(name, size, subsample_size=...)`; this model has {has}."
        )
    [part] = parts
    check_even(part, count)
    return Divided(approximation, Division(part, count))


def check_even(part: Subsample, count: int) -> None:
    """Refuse minibatches of which processes cannot take equal parts."""
    if part.batch_size % count:
        raise InputError(
            f"The minibatches of {part.plate!r} have {part.batch_size} members, which cannot be "
            f"divided evenly among {count} processes: let `subsample_size` be a multiple of that."
        )
