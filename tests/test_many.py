"""One problem for each of many groups: all answers, failures listed, the same numbers anywhere."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest

import stakes
from stakes.host.workers import Failed, run_each
from tests.cluster import dying, two_workers

KEY = jax.random.key(3)
SHORT: dict[str, Any] = {"steps": 60, "draws": 4}


def sales(sold: Any = None, days: int = 4) -> None:
    rate = numpyro.sample("rate", dist.Gamma(2, 0.1))
    with numpyro.plate("day", days):
        numpyro.sample("sold", dist.Poisson(rate), obs=sold)


def guide(sold: Any = None, days: int = 4) -> None:
    where = numpyro.param("where", 2.0)
    numpyro.sample("rate", dist.LogNormal(where, 0.2))


def problem_for(shop: Any, data: Any) -> stakes.Problem:
    if shop == "closed":
        raise ValueError("that shop is closed")
    return stakes.Problem(sales, outcome="sold", loss=stakes.Newsvendor(3, 1), guide=guide)


SHOPS = {
    "north": {"sold": np.array([9, 12, 11, 8])},
    "closed": {"sold": np.array([1, 1, 1, 1])},
    "south": {"sold": np.array([9, -1, 11, 8])},
    "east": {"sold": np.array([3, 2, 1, 2])},
}


@pytest.fixture(scope="module")
def answers() -> stakes.Answers:
    return stakes.map(KEY, problem_for, SHOPS, decide={"east": {"days": 2}}, **SHORT)


def test_every_group_has_an_answer_or_an_error(answers: stakes.Answers) -> None:
    assert list(answers.answers) == ["north", "east"]
    assert answers.failures["closed"] == "ValueError: that shop is closed"
    assert "impossible under the model's Poisson" in answers.failures["south"]
    assert list(answers.table.index) == ["north", "east", "closed", "south"]
    assert answers.table.error.notna().tolist() == [False, False, True, True]
    assert "2 of 4 groups have an answer." in str(answers)
    assert "closed: ValueError" in str(answers)
    with pytest.raises(KeyError, match="closed"):
        answers["closed"]


def test_one_page_has_all_answers_and_failures(answers: stakes.Answers, tmp_path: Path) -> None:
    from stakes import report

    marked = stakes.Answers({"<b>": answers["east"], **answers.answers}, answers.failures)
    report.write(marked, tmp_path / "groups.html")
    page = (tmp_path / "groups.html").read_text()
    assert "3 of 5 groups have an answer" in page
    assert "that shop is closed" in page
    assert all(f'<th scope="row">{name}</th>' in page for name in ("north", "east", "south"))
    assert "&lt;b&gt;" in page
    assert "<b>" not in page


def test_an_answer_is_that_of_the_group_alone(answers: stakes.Answers) -> None:
    """With the key that the group's place gives it."""
    key = jax.random.split(KEY, len(SHOPS))[3]
    alone = stakes.calibrate(key, problem_for("east", None), SHOPS["east"], **SHORT)
    assert answers.decisions["east"].tolist() == alone.decisions.values.tolist()
    assert answers.table.loc["east", "risk"] == alone.compare().risk["LCVI"]
    ahead = alone.decide({"days": 2}, new="day").values.tolist()
    assert answers.decided["east"].tolist() == ahead


@pytest.mark.slow
def test_tables_are_grouped_by_pandas_and_keep_their_index() -> None:
    frame = pd.DataFrame({"shop": list("aabb" * 2), "sold": [3, 4, 20, 21, 5, 4, 19, 23]})
    frame.index = pd.Index([f"row {i}" for i in range(8)])
    found = stakes.map(KEY, problem_for, frame.groupby("shop")[["sold"]], **SHORT)
    assert found.decisions.index.tolist() == [
        (shop, f"row {i}")
        for shop, rows in (("a", (0, 1, 4, 5)), ("b", (2, 3, 6, 7)))
        for i in rows
    ]
    assert found.decisions["a"].max() < found.decisions["b"].min()


@pytest.mark.slow
def test_groups_may_be_chosen_for() -> None:
    ways = [stakes.Plain(), stakes.Same()]
    found = stakes.map(
        KEY, problem_for, {"east": SHOPS["east"]}, solve=stakes.choose, ways=ways, folds=2, **SHORT
    )
    assert found.table.loc["east", "way"] in ("plain VI", "one decision for all")
    assert "Decide by" in found["east"].verdict


@pytest.mark.parametrize(
    ("groups", "decide", "message"),
    [
        ([("a", {}), ("a", {})], None, "more than once"),
        ([("a", {})], {"b": {}}, "'b', which is not among the groups"),
    ],
)
def test_groups_that_cannot_be_meant_are_refused(groups: Any, decide: Any, message: str) -> None:
    with pytest.raises(stakes.InputError, match=message):
        stakes.map(KEY, problem_for, groups, decide=decide)


def test_work_here_is_done_in_order_and_errors_are_kept() -> None:
    found = run_each(lambda a, b: a / b, [(6, 2), (1, 0), (8, 2)], title="shares")
    assert found == [3.0, Failed("ZeroDivisionError: division by zero"), 4.0]


@pytest.mark.slow
def test_a_cluster_gives_the_same_answers_although_a_worker_dies(answers: stakes.Answers) -> None:
    with two_workers() as client:
        dying(client, seconds=3)
        found = stakes.map(
            KEY, problem_for, SHOPS, decide={"east": {"days": 2}}, on=client, **SHORT
        )
    pd.testing.assert_series_equal(found.decisions, answers.decisions, check_exact=True)
    pd.testing.assert_series_equal(found.decided, answers.decided, check_exact=True)
    assert found.failures == answers.failures


@pytest.mark.slow
def test_workers_that_would_find_other_numbers_are_refused(answers: stakes.Answers) -> None:
    """In single precision there, in double precision here."""
    with two_workers() as client, jax.enable_x64(True):
        found = stakes.map(KEY, problem_for, {"east": SHOPS["east"]}, on=client, **SHORT)
    assert "jax_enable_x64 = False, this process with True" in found.failures["east"]
