"""Public names and printed words keep to the glossary."""

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import NamedTuple

import pytest
import vocabulary

import stakes

ROOT = Path(__file__).parents[2]
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
CONTRACT = {"Corrected(head)", "Corrected.head"}
"""Public names that were promised before the glossary was written."""


class Term(NamedTuple):
    name: str
    definition: str
    replaces: tuple[str, ...]


TERMS = [Term(*row) for row in vocabulary.terms()]
REPLACED = {word: term.name for term in TERMS for word in term.replaces}


def public_names() -> Iterator[str]:
    """Names that `stakes` exports, those of their public members, and their parameters."""
    for name in set(stakes.__all__) - {"datasets", "plot"}:
        value = getattr(stakes, name)
        own = {member: of for member, of in vars(value).items() if member[0] != "_"}
        yield from (name, *(f"{name}.{member}" for member in own if inspect.isclass(value)))
        functions = {name: value} | {f"{name}.{member}": of for member, of in own.items()}
        for prefix, function in functions.items():
            if inspect.isfunction(function) or (
                inspect.isclass(function) and is_dataclass(function)
            ):
                yield from (
                    f"{prefix}({given})" for given in inspect.signature(function).parameters
                )


def printed() -> Iterator[tuple[str, str]]:
    """Sentences of the package, each with its file: docstrings aside, and its HTML."""
    package = ROOT / "src"
    for path in sorted(package.rglob("*.html")):
        yield (
            str(path.relative_to(package)),
            re.sub(r"\{[{%].*?[%}]\}|<[^>]*>", " ", path.read_text()),
        )
    for path in sorted(package.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        nodes = list(ast.walk(tree))
        docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
            if is_text and id(node) not in docstrings and " " in node.value:
                yield f"{path.relative_to(package)}:{node.lineno}", node.value


def test_the_glossary_has_few_terms_each_in_one_sentence() -> None:
    assert 30 <= len(TERMS) <= 40
    assert len({term.name for term in TERMS}) == len(TERMS)
    for term in TERMS:
        assert re.fullmatch(r"[A-Z](?:[^.]|\.(?! ))*\.", term.definition), term
    assert not REPLACED.keys() & {term.name for term in TERMS}


@pytest.mark.parametrize("term", TERMS, ids=lambda term: term.name)
def test_a_term_is_in_use(term: Term) -> None:
    used = re.compile(rf"\b{term.name.replace(' ', '[ _-]')}", re.I)
    modules = (path.stem for path in (ROOT / "src").rglob("*.py"))
    names = " ".join([*public_names(), *modules])
    assert used.search(names) or any(used.search(text) for _, text in printed())


def test_public_names_keep_to_the_glossary() -> None:
    names = sorted(set(public_names()) - CONTRACT)
    assert len(names) > 200
    words = {name: {w.lower().removesuffix("s") for w in WORD.findall(name)} for name in names}
    assert [(name, w, REPLACED[w]) for name in names for w in words[name] & REPLACED.keys()] == []


def test_printed_words_keep_to_the_glossary() -> None:
    replaced = re.compile(rf"(?<![*\w`-])({'|'.join(map(re.escape, REPLACED))})s?(?![\w`-])", re.I)
    sentences = list(printed())
    assert len(sentences) > 800
    said = [
        (where, text, found[1]) for where, text in sentences if (found := replaced.search(text))
    ]
    assert [(where, text, f"say {REPLACED[word.lower()]}") for where, text, word in said] == []
