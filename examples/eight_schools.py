"""Eight schools: how large an effect to promise each school, when promising too much costs more.

The problem is that of `stakes.demos.eight_schools`. Run `python -m examples.eight_schools`.
"""

import time

from stakes.demos.eight_schools import SCHOOLS, solve


def main() -> None:
    import jax

    started = time.perf_counter()
    result = solve(jax.random.key(0))
    print(result.compare(), end="\n\n")
    print("Effect to promise each school, under plain VI and calibrated:")
    for school, plain, calibrated in zip(
        SCHOOLS, result.vi_decisions.values, result.decisions.values, strict=True
    ):
        print(f"  {school} {plain:8.2f} {calibrated:8.2f}")
    print("\nA ninth school, whose study has standard error 12:", end=" ")
    print(f"{float(result.decide({'sigma': [12.0]}, new='school')[0]):.2f}")
    print(f"\n{result!r}")
    print(f"\n{time.perf_counter() - started:.1f} s of wall clock, compilation included.")


if __name__ == "__main__":
    from stakes.host.compiling import keep_compiled

    keep_compiled()  # a second time, nothing has to be compiled
    main()
