"""The manifest of a run: what it was made of, how it ended, and whether to rely on it."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from projects import SPEC

from stakes.app.runs import RunFolder, unsettled
from stakes.app.runs.manifest import UNSEALED, doubts_about
from stakes.errors import StorageError


def test_the_manifest_says_what_the_run_was_made_of(finished: Path) -> None:
    manifest = json.loads((finished / "manifest.json").read_text())
    assert manifest["status"] == "done"
    assert manifest["seed"] == SPEC["seed"]
    assert manifest["spec"] == SPEC
    assert {"jax", "numpyro", "python", "stakes"} <= set(manifest["versions"])
    assert [Path(each["path"]).name for each in manifest["code"]] == ["model.py"]
    assert [Path(each["path"]).name for each in manifest["data"]] == ["table.csv"]
    # The calibrated fit to all rows is made only where calibrated VI decides.
    assert manifest["choice"]["way"] != "calibrated"
    fits = {"VI", "calibrated", "VI, all rows"}
    assert set(manifest["timings"]) == {*fits, "choice", "total"}
    assert set(manifest["ending"]["stopped"]) == fits
    written = {path.name for path in finished.iterdir()}
    assert set(manifest["files"]) == written - {"manifest.json"}
    assert set(manifest["ending"]["risk"]) == {"VI", "LCVI"}


def test_sealed_manifests_with_wrong_types_are_refused(copied: Path) -> None:
    """Someone who can compute a checksum is told what does not fit, and runs no code."""
    path = copied / "manifest.json"
    whole = json.loads(path.read_text())
    wrong = [1, "text", None, [], {}, -1.5, True, ["a"], {"a": 1}]
    for field in whole:
        if field in ("sha256", "spec", "ending", "reason", "choice", "refit"):
            continue
        for value in wrong:
            if type(value) is type(whole[field]) and field != "format":
                continue
            text = json.dumps({**whole, field: value, "sha256": UNSEALED}, indent=2) + "\n"
            path.write_text(text.replace(UNSEALED, hashlib.sha256(text.encode()).hexdigest()))
            with pytest.raises(StorageError, match=r"manifest\.json"):
                RunFolder(copied).verified()


@pytest.mark.parametrize(("typed", "said"), [("demo", "`--steps`"), ("run a.toml", "under [fit]")])
def test_advice_is_in_terms_of_what_was_typed(typed: str, said: str, finished: Path) -> None:
    manifest = RunFolder(finished).manifest().model_copy(update={"command": f"stakes {typed}"})
    assert said in unsettled(manifest)


def test_ranges_that_hold_too_few_outcomes_are_a_doubt(finished: Path) -> None:
    manifest = RunFolder(finished).manifest()
    assert manifest.ending is not None
    assert manifest.choice is not None
    ending = manifest.ending.model_copy(update={"converged": True})

    def told(share: float) -> list[str]:
        lines = [replace(line, coverage_90=share) for line in manifest.choice.ways]
        choice = replace(manifest.choice, ways=lines, outcomes=100)
        update = {"choice": choice, "ending": ending}
        return doubts_about(manifest.model_copy(update=update), choice.way)

    assert [len(told(share)) for share in (0.95, 0.85, 0.52)] == [0, 0, 1]
    assert "held only 52 % of 100 outcomes" in told(0.52)[0]
