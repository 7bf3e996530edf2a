"""Why decisions of a run are not to be relied on."""

from pathlib import Path

import pytest


@pytest.mark.parametrize(("typed", "said"), [("demo", "`--steps`"), ("run a.toml", "under [fit]")])
def test_advice_is_in_terms_of_what_was_typed(typed: str, said: str, finished: Path) -> None:
    from stakes.app.runs import RunFolder, unsettled

    manifest = RunFolder(finished).manifest().model_copy(update={"command": f"stakes {typed}"})
    assert said in unsettled(manifest)
