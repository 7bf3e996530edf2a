"""Printed results consist of the words of the glossary and of everyday ones."""

from collections.abc import Iterator
from itertools import product

import numpy as np
import pandas as pd
import pytest
import vocabulary

import stakes
from stakes.fitting import Stop
from stakes.many import Answer
from stakes.study import Clustered, Crossed, Saving, Summary, WayLine, coverage_doubt

RNG = np.random.default_rng(0)
STORES, ITEMS = np.arange(60) % 12, np.arange(60) // 5
DEPENDENCES = [
    stakes.Independent(),
    stakes.Ordered(),
    stakes.Ordered(together=ITEMS),
    Clustered(STORES, "store"),
    Clustered(np.arange(60) % 2, "store"),
    Crossed((STORES, ITEMS), ("store", "item")),
]
REASONS = tuple(f"VI: {reason} after 300 steps." for reason in Stop)


def comparisons() -> Iterator[stakes.Comparison]:
    """Better, worse and neither; of losses and utilities; with each dependence."""
    costs = RNG.lognormal(1, 1, 60)
    for saved, gain, held_out in product((0.9, 1.0, 1.3), (False, True), (False, True)):
        for dependence in DEPENDENCES:
            others = costs * saved + RNG.normal(0, 0.01, 60)
            yield stakes.Comparison(
                costs={"VI": costs, "LCVI": others},
                gain=gain,
                setting="60 cases over day; Tilted(q=0.2); expectation ClosedForm().",
                held_out=held_out,
                notes=REASONS if held_out else (),
                dependence=dependence,
            )


def test_a_comparison_prints_known_words() -> None:
    printed = {str(comparison) for comparison in comparisons()}
    assert len(printed) == 72
    words = set().union(*map(vocabulary.unknown, printed))
    assert words - {"store", "item", "day"} == set()


def test_a_choice_prints_known_words() -> None:
    numbers = {"risk": 3.0, "better_by": 0.1, "coverage_50": 0.5, "coverage_90": 0.9, "seconds": 1}
    ways = [
        WayLine("plain VI", "plain VI", low=None, high=None, **numbers),
        WayLine("today's decisions", "", low=-0.1, high=0.2, method="independent cases", **numbers),
        WayLine("one decision for all", "", low=None, high=None, note=Stop.STEP_LIMIT, **numbers),
    ]
    saved = [Saving("today's decisions", 1.0, 0.5, 1.5)]
    folds = "1,200 of 2,400 outcomes, in 5 blocks forward in time"
    summary = Summary(
        way="plain VI",
        base="plain VI",
        verdict=coverage_doubt(0.5, 1000),
        folds=folds,
        outcomes=1200,
        gain=False,
        ways=ways,
        saved=saved,
        error=0.1,
    )
    assert vocabulary.unknown(summary.printout("€", "Tilted(q=0.2).").text) == set()


def test_answers_print_known_words() -> None:
    row = {"risk": 1.0, "better_by": 0.1, "low": -0.1, "high": 0.2, "way": "plain VI", "seconds": 1}
    answer = Answer(pd.Series([1.0]), None, row, "")
    answers = dict.fromkeys([f"{i}" for i in range(50)], answer)
    shown = stakes.Answers(answers, {f"{i + 50}": "" for i in range(50)})
    assert vocabulary.unknown(str(shown)) == set()


def test_a_private_word_is_unknown() -> None:
    printed = "Decide by plain VI: `x` costs 3.1 % less than what is told by Tilted(q=0.2)."
    assert vocabulary.unknown(printed) == {"told"}


@pytest.mark.parametrize("word", sorted(vocabulary.EVERYDAY))
def test_an_everyday_word_replaces_no_term(word: str) -> None:
    assert word not in {other for _, _, others in vocabulary.terms() for other in others}
