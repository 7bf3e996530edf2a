"""Runs begun, reopened and restored: what they are made of, and code that has changed."""

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from projects import invoke

from stakes.app import runs
from stakes.app.runs import RunFolder, manifest
from stakes.app.runs.manifest import SourceFile
from stakes.errors import InputError, StorageError


def test_a_changed_model_is_refused_unless_allowed(
    copied: Path, project: Path, new_rows: Path, tmp_path: Path
) -> None:
    model, out = project / "model.py", tmp_path / "out.csv"
    before = model.read_text()
    try:
        model.write_text(before + "\n# a remark\n")
        refused = invoke("decide", copied, new_rows, "-o", out)
        assert refused.exit_code == 2
        assert "model.py has changed" in refused.stderr
        assert "--allow-changed-model" in refused.stderr
        assert not out.exists()
        allowed = invoke("decide", copied, new_rows, "-o", out, "--allow-changed-model")
        assert allowed.exit_code == 0, allowed.stderr
    finally:
        model.write_text(before)


def test_a_run_is_reopened_by_its_path_only() -> None:
    with pytest.raises(InputError, match="must be the path of a file or folder; got 3"):
        runs.reopen(3)  # type: ignore[arg-type]


def test_code_inside_a_run_folder_is_never_run(copied: Path) -> None:
    trap = copied / "model.py"
    trap.write_text(f"open({str(copied / 'sprung')!r}, 'w')\n")
    digest = hashlib.sha256(trap.read_bytes()).hexdigest()
    original = RunFolder(copied).manifest()
    changed = original.model_copy(
        update={"folder": str(copied), "code": [SourceFile(path=str(trap), sha256=digest)]}
    )
    manifest.save(copied, changed)
    with pytest.raises(StorageError, match="never carries"):
        runs.reopen(copied)
    assert not (copied / "sprung").exists()


def test_every_way_of_the_table_decides_in_another_process(
    finished: Path, new_rows: Path, tmp_path: Path
) -> None:
    """As in the run itself, from what was kept."""
    run = runs.reopen(finished)
    solution = runs.restore(run)
    own = pd.read_csv(finished / "decisions.csv").query("part == 'fit'")
    for name, column in {
        None: "decision",
        "plain VI": "decision_vi",
        "calibrated": "decision_calibrated",
        "today's decisions": "decision_today",
    }.items():
        found = solution.labels(solution.result.on_fit, name).values
        np.testing.assert_allclose(found, own[column], rtol=1e-6)
    spread = {}
    for name in solution.names[:-1]:
        out = tmp_path / "out.csv"
        result = invoke("decide", finished, new_rows, "-o", out, "--way", name, "--overwrite")
        assert result.exit_code == 0, result.stderr
        spread[name] = pd.read_csv(out)["decision"].std()
    assert spread.pop("one decision for all") == 0
    assert min(spread.values()) > 0.1
    for name, said in {
        "today's decisions": "known for the rows of the run alone",
        "plain": "'plain VI', 'calibrated'",
    }.items():
        refused = invoke("decide", finished, new_rows, "-o", tmp_path / "x.csv", "--way", name)
        assert refused.exit_code == 2
        assert said in refused.stderr
    assert not (tmp_path / "x.csv").exists()


def test_a_run_of_the_two_fits_alone_is_read_and_followed(
    copied: Path, new_rows: Path, tmp_path: Path
) -> None:
    """As older versions left them."""
    original = RunFolder(copied).manifest()
    sums = {
        name: digest
        for name, digest in original.files.items()
        if name not in ("choice.npz", "refit.npz")
    }
    older = {"format": 3, "choice": None, "refit": None, "files": sums}
    manifest.save(copied, original.model_copy(update=older))
    (copied / "choice.npz").unlink()
    outs = []
    for way in ([], ["--way", "calibrated"], ["--way", "plain VI"]):
        outs.append(tmp_path / f"{len(outs)}.csv")
        result = invoke("decide", copied, new_rows, "-o", outs[-1], *way)
        assert result.exit_code == 0, result.stderr
    assert outs[0].read_bytes() == outs[1].read_bytes() != outs[2].read_bytes()


def test_latents_are_told_apart_where_the_guide_has_no_names_for_them(finished: Path) -> None:
    run = runs.reopen(str(finished))
    assert run.manifest.latents == {"slope": [], "level": [3]}
    other = run.manifest.model_copy(update={"latents": {"tilt": [], "level": [3]}})
    with pytest.raises(InputError, match=r"'tilt' \[\], 'level' \[3\]; the model now has 'slope'"):
        runs.restore(replace(run, manifest=other))


def test_a_renamed_site_is_refused_even_if_a_changed_model_is_allowed(
    copied: Path, project: Path, new_rows: Path, tmp_path: Path
) -> None:
    """By position, `slope` would be decided with the parameters of `level`."""
    model, out = project / "model.py", tmp_path / "out.csv"
    before = model.read_text()
    try:
        model.write_text(before.replace('"slope"', '"a_slope"'))
        refused = invoke("decide", copied, new_rows, "-o", out, "--allow-changed-model")
    finally:
        model.write_text(before)
    assert refused.exit_code == 2, refused.output
    for name in ("slope_auto_loc", "a_slope_auto_loc"):
        assert f"'{name} float32[]'" in refused.stderr
    assert not out.exists()
