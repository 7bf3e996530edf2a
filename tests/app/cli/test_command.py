"""How commands end."""

from pathlib import Path

from projects import SHORT, in_process, toml


def test_a_bad_spec_ends_a_process_with_two_and_no_traceback(spec_file: Path) -> None:
    spec_file.write_text(toml({**SHORT, "sead": 1}))
    result = in_process("run", spec_file)
    assert result.returncode == 2
    assert "sead: unknown. Did you mean 'seed'?" in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
