"""A small project, and one run of it that the tests of the command line share."""

import shutil
from pathlib import Path

import pytest
from projects import invoke, write_project


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    write_project(folder)
    return folder


@pytest.fixture(scope="session")
def finished(project: Path) -> Path:
    """A run that was left alone. Tests that alter it work on a copy."""
    run = project / "finished"
    result = invoke("run", project / "spec.toml", "-o", run, "--no-report")
    assert result.exit_code in (0, 4), result.output
    return run


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))
