"""Eight schools: how large an effect to promise each school, when promising too much costs more.

The problem is that of `stakes.demos.eight_schools`. Run `python -m examples.eight_schools`.
"""

from examples.judging import main
from stakes.demos.eight_schools import SCHOOLS, solve
from stakes.study import Calibration


def summary(result: Calibration) -> str:
    """Decisions of both fits, and that for a school that is not in the data."""
    promised = zip(SCHOOLS, result.vi_decisions.values, result.decisions.values, strict=True)
    ninth = float(result.decide({"sigma": [12.0]}, new="school")[0])
    return "\n".join(
        [
            str(result.compare()),
            "",
            "Effect to promise each school, under plain VI and calibrated:",
            *(
                f"  {school} {plain:8.2f} {calibrated:8.2f}"
                for school, plain, calibrated in promised
            ),
            "",
            f"A ninth school, whose study has standard error 12: {ninth:.2f}",
            "",
            repr(result),
        ]
    )


if __name__ == "__main__":
    from stakes.host.compiling import keep_compiled

    keep_compiled()  # a second time, nothing has to be compiled
    main(solve, summary)
