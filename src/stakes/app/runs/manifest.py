"""manifest.json: what a run was made from, how it went, and the checksums of its other files.

The file carries a checksum of its own, so that no byte of a run can change unnoticed.
"""

import hashlib
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import jax.numpy as jnp
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stakes.errors import StorageError
from stakes.fitting import Stop
from stakes.host import files
from stakes.study import Options, Summary, coverage_doubt

NAME = "manifest.json"
UNSEALED = "0" * 64
SEAL = re.compile(r'"sha256": "([0-9a-f]{64})"\n}\n\Z')


class _Part(BaseModel):
    """A part of the manifest: no other fields, no conversions, no changes."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class SourceFile(_Part):
    """A file that the run was made from, and its checksum then."""

    path: str
    sha256: str


class Ending(_Part):
    """The numbers of a finished run.

    Attributes:
        risk: fit -> mean cost; empty where data cannot judge the decisions.
        reduction: by which share the calibrated fit lowers the risk; None where it is not finite.
        interval: the 95 % interval of that share; None for ends that are not finite.
        held_out: whether rows held out judged the fits.
        gain: whether the problem has a utility, so that risks are minus that.
        cases: the number of decisions.
        verdict: whether to use the calibrated fit.
        setting: the problem, and how it was fitted.
        scale: M, from loss to utility; None for a utility.
        stopped: fit -> the reason why it ended.
        converged: whether all fits have converged.
    """

    risk: dict[str, float] = {}
    reduction: float | None = None
    interval: tuple[float | None, float | None] = Field(default=(None, None), strict=False)
    held_out: bool
    gain: bool
    cases: int
    verdict: str
    setting: str
    scale: float | None
    stopped: dict[str, str]
    converged: bool


class Refit(_Part):
    """The fits to all rows, with those held out, which decide about new rows.

    Attributes:
        rows: the number of rows.
        ways: the names of the strategies that were fitted so.
        latents: latent -> its shape.
    """

    rows: int
    ways: list[str]
    latents: dict[str, list[int]]


class Manifest(_Part):
    """What a run was made from, how it went, and which files belong to it.

    Attributes:
        format: of the files of a run.
        status: where the run stands.
        reason: why it was interrupted or failed.
        title: of the run.
        created: the time when it was begun.
        command: the command line that began it.
        seed: for all that is random.
        spec: as it was written.
        folder: where relative paths in the spec start from.
        code: the user's Python files.
        data: the files of its tables.
        versions: of Python and of the libraries that numbers depend on.
        precision: of the numbers in JAX.
        timings: fit, "choice" or "total" -> seconds.
        ending: its numbers; None until it is finished.
        choice: among strategies; None where the run has the two fits alone, or has not chosen yet.
        refit: the fits to all rows; None where no rows are held out, or are to stay so.
        latents: latent -> its shape: what the fitted parameters are about.
        files: file -> SHA-256.
    """

    format: Literal[3, 4] = 4
    status: Literal["running", "interrupted", "failed", "done"]
    reason: str | None = None
    title: str
    created: str
    command: str
    seed: int
    spec: dict[str, Any]
    folder: str
    code: list[SourceFile]
    data: list[SourceFile]
    versions: dict[str, str]
    precision: Literal["single", "double"]
    timings: dict[str, float] = {}
    ending: Ending | None = None
    choice: Summary | None = None
    refit: Refit | None = None
    latents: dict[str, list[int]] = {}
    files: dict[str, str] = {}


def save(folder: Path, manifest: Manifest) -> None:
    """Write the manifest into a run's folder, with its own checksum in it."""
    fields = manifest.model_dump(mode="json")
    text = json.dumps({**fields, "sha256": UNSEALED}, indent=2, ensure_ascii=True) + "\n"
    digest = hashlib.sha256(text.encode()).hexdigest()
    files.write(folder / NAME, text.replace(UNSEALED, digest).encode())


def load(folder: Path) -> Manifest:
    """Read the manifest of a run; what is damaged or of another version is refused."""
    path = folder / NAME
    if not folder.is_dir() or not path.exists():
        raise StorageError(
            f"{folder} is not a run folder: it has no {NAME}. `stakes run SPEC.toml` makes one."
        )
    try:
        text = files.read(path).decode("ascii")
        seal = SEAL.search(text)
        if seal is None:
            raise ValueError("its checksum is missing")
        unsealed = f"{text[: seal.start(1)]}{UNSEALED}{text[seal.end(1) :]}"
        if hashlib.sha256(unsealed.encode()).hexdigest() != seal[1]:
            raise ValueError("its content does not match its checksum")
        fields = json.loads(text)
        del fields["sha256"]
        return Manifest.model_validate_json(json.dumps(fields))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise StorageError(
            f"{path} cannot be used: {where}: {first['msg']}. It may come from another version of "
            f"stakes."
        ) from None
    except (ValueError, RecursionError) as error:
        raise StorageError(
            f"{path} is damaged: {error}. Restore it from a copy, or run again."
        ) from None


def doubts_about(manifest: Manifest, way: str) -> list[str]:
    """Why the decisions of a run should not be relied on.

    Args:
        manifest: of the run.
        way: the name of the strategy that decides.

    Returns:
        A sentence for each reason.
    """
    doubts, ending = [], manifest.ending
    if ending is not None and not ending.converged:
        doubts.append(f"Do not rely on the decisions of this run yet. {unsettled(manifest)}")
    chosen = manifest.choice
    held = None if chosen is None else chosen.line(way).coverage_90
    if chosen is not None and held is not None:
        doubts += filter(None, [coverage_doubt(held, chosen.outcomes)])
    return doubts


def unsettled(manifest: Manifest) -> str:
    """What it means that fits had not converged, and what to do, in the run's own terms."""
    assert manifest.ending is not None
    ended = manifest.ending.stopped.items()
    why = "; ".join(f"{fit}: {reason}" for fit, reason in ended if reason != Stop.CONVERGED)
    more = "more `--steps`, or leave that out"
    if not manifest.command.startswith("stakes demo"):
        steps = manifest.spec.get("fit", {}).get("steps", Options.steps)
        more = f"more, with `steps = {max(2 * steps, Options.steps)}` under [fit] in the spec"
    return (
        f"A fit stopped before it had found the best parameters ({why}): with more steps, "
        f"decisions and costs may change. Allow {more}, and run again."
    )


def precision() -> Literal["single", "double"]:
    """The precision of numbers in JAX."""
    return "double" if jnp.result_type(float) == jnp.float64 else "single"


def now() -> str:
    """The time, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")
