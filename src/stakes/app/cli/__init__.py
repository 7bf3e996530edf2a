"""The command line: a thin layer over the library."""

import sys


def main() -> None:
    """Run `stakes`.

    What it needs beyond the library comes with the extra `cli`.
    """
    try:
        from stakes.app.cli.app import app
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "stakes":
            raise
        from stakes.host.packages import how_to_install

        sys.exit(f"The command line needs {error.name}: {how_to_install('cli')}.")
    app()
