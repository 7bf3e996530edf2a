"""Many fits on a cluster: 200 series by one worker and by two, with three that fail.

`python -m benchmarks.groups` starts workers on this machine and prints both times and their ratio.
"""

import time
from typing import Any

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist

import stakes

SERIES, DAYS, FAILING = 200, 60, (17, 80, 141)


def sales(sold: Any = None) -> None:
    rate = numpyro.sample("rate", dist.Gamma(2, 0.1))
    with numpyro.plate("day", DAYS):
        numpyro.sample("sold", dist.Poisson(rate), obs=sold)


def problem_for(series: Any, data: Any) -> stakes.Problem:
    return stakes.Problem(sales, outcome="sold", loss=stakes.Newsvendor(3, 1))


def simulated() -> dict[int, dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    found = {i: {"sold": rng.poisson(rng.gamma(2, 10), DAYS)} for i in range(SERIES)}
    for i in FAILING:
        found[i]["sold"][0] = -1  # no count
    return found


def timed(workers: int, groups: Any) -> tuple[float, stakes.Answers]:
    from distributed import Client

    with Client(
        n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None
    ) as client:
        # What every worker has to import and compile is no part of the comparison.
        client.run(_compiled, groups[0])
        started = time.monotonic()
        found = stakes.map(
            jax.random.key(0), problem_for, groups, on=client, steps=2000, progress=False
        )
        return time.monotonic() - started, found


def _compiled(data: Any) -> None:
    stakes.map(jax.random.key(0), problem_for, {0: data}, steps=2000, progress=False)


def main() -> None:
    groups = simulated()
    (one, alone), (two, both) = timed(1, groups), timed(2, groups)
    assert tuple(both.failures) == tuple(alone.failures) == FAILING
    assert both.decisions.equals(alone.decisions)
    print(f"{len(both.answers)} answers, {len(both.failures)} failures: {both.failures}")
    print(f"one worker {one:.1f} s, two {two:.1f} s: {one / two:.2f} times as fast")


if __name__ == "__main__":
    main()
