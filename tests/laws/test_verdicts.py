"""What a comparison says agrees with its numbers, whatever the costs."""

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import stakes
from stakes.study import Clustered

COUNT = 24
COSTS = arrays(float, COUNT, elements=st.floats(0, 1e6, width=32))
DEPENDENCES = st.sampled_from(
    [
        stakes.Independent(),
        stakes.Ordered(),
        Clustered(np.arange(COUNT) % 8, "store"),
        Clustered(np.arange(COUNT) % 2, "store"),
    ]
)


@st.composite
def comparisons(draw: st.DrawFn) -> stakes.Comparison:
    """Costs of two fits, from unrelated ones to the same, with few or many alike."""
    plain, other = draw(COSTS), draw(COSTS)
    alike = draw(st.sampled_from([0.0, 0.9, 0.999, 1.0]))
    return stakes.Comparison(
        costs={"VI": plain, "LCVI": alike * plain + (1 - alike) * other},
        gain=draw(st.booleans()),
        setting="",
        held_out=draw(st.booleans()),
        dependence=draw(DEPENDENCES),
    )


@given(comparisons())
def test_the_verdict_claims_what_the_interval_excludes(comparison: stakes.Comparison) -> None:
    low, high = comparison.interval
    better, worse = ("raises", "lowers") if comparison.gain else ("lowers", "raises")
    claim = "does not reliably change" if low <= 0 <= high else better if low > 0 else worse
    assert comparison.verdict.startswith(f"Calibration {claim} the ")
    assert ("Keep plain VI." in comparison.verdict) == (low <= 0)
    assert ("no 95 % interval" in comparison.verdict) == bool(np.isinf([low, high]).all())


@given(comparisons())
def test_no_end_without_a_number_is_printed(comparison: stakes.Comparison) -> None:
    interval = str(comparison).splitlines()[2]
    assert not re.search(r"inf|nan", interval.removeprefix("LCVI").partition("%")[2])
    assert not re.search(r"(from|to|up to) -?(inf|nan)", comparison.verdict)


@given(comparisons())
def test_the_verdict_is_the_same_in_any_unit(comparison: stakes.Comparison) -> None:
    """A power of two, which changes no digit of a cost."""
    doubled = {name: 2.0 * costs for name, costs in comparison.costs.items()}
    fields = {name: getattr(comparison, name) for name in ("gain", "held_out", "dependence")}
    other = stakes.Comparison(costs=doubled, setting="", **fields)
    assert other.verdict == comparison.verdict
