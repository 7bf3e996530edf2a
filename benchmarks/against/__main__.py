"""`python -m benchmarks.against [NAME ...] [--again]`: run contests, then make the page.

Without a name all contests are run, but for those that the results have. `--again` runs them all
the same, from the beginning; `--kept` computes nothing and takes what earlier runs have left, even
if it is not everything; `page` only makes the page anew.
"""

import argparse
import os
from functools import partial

import jax

from benchmarks.against import keeping, page, running
from benchmarks.against.problems import CONTESTS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.against", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*CONTESTS, "page", []], metavar="NAME")
    parser.add_argument("--again", action="store_true", help="also what the results have already")
    parser.add_argument("--kept", action="store_true", help="only what has been computed so far")
    chosen = parser.parse_args()
    # Rivals, imported later, get one thread: threads that wait for one another on a busy machine
    # take processor time all the while.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # An interrupted run goes on without compiling everything again.
    jax.config.update("jax_compilation_cache_dir", str(keeping.COMPILED))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
    names = [name for name in chosen.names if name != "page"]
    for name in names if chosen.names else CONTESTS:
        contest(name, again=chosen.again, compute=not chosen.kept)
    page.write()


def contest(name: str, *, again: bool, compute: bool) -> None:
    if keeping.results().get(name, {}).get("complete") and not again:
        print(f"{name}: in the results already; --again runs it anew")
        return
    if name == "lastfm" and not os.environ.get("STAKES_DATA"):
        print(f"{name}: left out, since STAKES_DATA does not say where the matrix is")
        return
    if not compute and not (keeping.DECISIONS / name).is_dir():
        return
    if again and compute:
        keeping.forget(name)
    made = running.run(CONTESTS[name](), compute=compute, say=partial(print, flush=True))
    keeping.keep_result(name, made)


if __name__ == "__main__":
    main()
