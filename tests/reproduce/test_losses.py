"""The paper's own estimator, as the experiment on losses plans it."""

from pathlib import Path

import pytest

from reproduce import Settings, losses, matrix


def test_the_published_estimator_has_300_draws_each_by_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class PlannedError(Exception):
        pass

    def plan(*given: object, steps: int, **other: object) -> None:
        raise PlannedError(given[-1], other)

    monkeypatch.delenv("STAKES_DATA", raising=False)
    monkeypatch.setattr(losses, "_run_group", lambda *_: None)
    monkeypatch.setattr(matrix, "plan", plan)
    with pytest.raises(PlannedError) as found:
        losses.run(Settings(folder=tmp_path, as_published=True))
    effort, other = found.value.args
    assert effort.independent
    assert other["draws"] == 300
