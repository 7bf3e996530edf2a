"""The words that printed results may consist of: those of the glossary, and everyday ones."""

import re
from pathlib import Path

GLOSSARY = Path(__file__).parents[1] / "docs/glossary.md"
ROW = re.compile(r"^\| (?!term|-)([^|]+) \| ([^|]+) \| ([^|]*?) ?\|$", re.M)
PLAIN = """
    after all an and another answer are because best better blocks bootstrap by cent change
    clustered compares converged decide decides do does every failures family few finite for
    forward from gradient groups had have heavy higher in independent interrupted is it its
    judged keep leaves left less limit linearized look lower lowers many model more no none not
    of on one only or order other over per raises range ranges reached reliable reliably rely
    seconds seen so step steps stopped tailed than that the time times to today too try was what
    worse would
"""
EVERYDAY = frozenset(re.findall(r"\w+", PLAIN))
"""Plain English, and the headings of tables."""


def terms() -> list[tuple[str, str, tuple[str, ...]]]:
    """(term, definition, words that are not used for it), one for each row of the glossary."""
    rows = ROW.findall(GLOSSARY.read_text("utf-8"))
    return [(name, text, tuple(w for w in others.split(", ") if w)) for name, text, others in rows]


def known() -> frozenset[str]:
    """The words of all terms, in singular and plural, and everyday words."""
    words = {word for name, _, _ in terms() for word in re.findall(r"[a-z]+", name.lower())}
    plurals = {re.sub(r"y$", "ie", word) + "s" for word in words} | {"losses", "biases"}
    return EVERYDAY | words | plurals


def unknown(text: str) -> set[str]:
    """Words of a printed result that are neither; names of values and code do not count."""
    plain = re.sub(r"`[^`]*`|\b\w+\([^()]*\)|\b\w*[A-Z]\w*[A-Z]\w*\b", " ", text)
    return set(re.findall(r"[a-z]{2,}", plain.lower().replace("'s", ""))) - known()
