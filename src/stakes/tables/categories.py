"""Categories: which there are in a column, and the number of each."""

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

MANY = 0.5
"""Of a column of words, the share of numbers from which on they were probably meant as such."""


def categories_of(parts: Iterable[np.ndarray]) -> list[str]:
    """The words in a column, in order; no word at all is none of them."""
    found = np.unique(np.concatenate([np.asarray(part).astype(str) for part in parts]))
    return [str(value) for value in found if value != ""]


def codes_of(values: Iterable[Any], categories: Sequence[Any]) -> np.ndarray:
    """The place of each value among the categories; -1 for one that is not there."""
    places = {category: place for place, category in enumerate(categories)}
    found = [places.get(value, -1) for value in values]
    return np.array(found, np.intp)


def alike(categories: Iterable[Any]) -> list[list[Any]]:
    """Words that differ in nothing but spaces, capital letters, or how accents are stored."""
    together: dict[str, list[Any]] = {}
    for each in categories:
        if isinstance(each, str):
            together.setdefault(_plain(each).casefold(), []).append(each)
    return [words for words in together.values() if len(words) > 1]


def in_what_they_differ(words: Iterable[str]) -> str:
    """What makes words differ that are alike."""
    if len({_plain(word) for word in words}) > 1:
        return "capital letters"
    return "spaces" if len({" ".join(w.split()) for w in words}) == 1 else "how accents are stored"


def _plain(word: str) -> str:
    return unicodedata.normalize("NFC", " ".join(word.split()))


class Numbers(NamedTuple):
    """Numbers among words."""

    found: int
    others: np.ndarray
    """The rows that hold no number."""


def numbers_among(words: Sequence[Any]) -> Numbers | None:
    """How many of these words are numbers, where most are; None where they are not."""
    others = np.flatnonzero([not _is_number(word) for word in words])
    count = len(words) - len(others)
    return Numbers(count, others) if count > MANY * len(words) else None


def _is_number(word: Any) -> bool:
    try:
        float(word)
    except (TypeError, ValueError):
        return False
    return True
