"""Results do not depend on the seed of Python's hash, as sums over NumPyro's sets would."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

FEW, MANY = (0, 1), (0, 1, 2, 3, 4)
PROGRAM = """
import jax, numpy as np, numpyro, numpyro.distributions as dist, stakes

def model(x, y=None):
    level = numpyro.sample("level", dist.Normal(0, 1))
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    curve = numpyro.sample("curve", dist.Normal(0, 1))
    noise = numpyro.sample("noise", dist.HalfNormal(1))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Normal(level + slope * x + curve * x**2, noise), obs=y)

x = np.linspace(-1, 1, 6)
problem = stakes.Problem(model, outcome="y", loss=stakes.Tilted(0.2))
data = {"x": x, "y": np.sin(7 * x)}
result = stakes.calibrate(jax.random.key(0), problem, data, steps=200)
print(result.decisions.values.tobytes().hex(), result.calibrated.bound.tobytes().hex())
"""


def decided_under(seed: int, cache: Path) -> str:
    """Programs that are the same to the letter share what is compiled; others do not."""
    environment = {
        "PYTHONHASHSEED": str(seed),
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [FEW, MANY], ids=len)
def test_results_are_the_same_to_the_bit_whatever_the_hash_seed(
    tmp_path: Path, seeds: tuple[int, ...]
) -> None:
    with ThreadPoolExecutor(max_workers=2) as two_at_a_time:
        results = list(two_at_a_time.map(lambda seed: decided_under(seed, tmp_path), seeds))
    assert len(set(results)) == 1
