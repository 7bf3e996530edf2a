"""The command line: a thin layer over the library."""

import sys


def main() -> None:
    """Run `stakes`; what it needs beyond the library comes with `pip install 'stakes[cli]'`."""
    try:
        from stakes.app.cli.app import app
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "stakes":
            raise
        sys.exit(f"The command line needs {error.name}: pip install 'stakes[cli]'.")
    app()
