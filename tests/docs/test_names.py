"""Names in the documents exist: files and folders, packages, modules, and what is in them."""

import importlib
import inspect
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src/stakes"
CODE = [ROOT / name for name in ("src", "reproduce", "examples", "benchmarks", "tests")]
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "docs/design").glob("*.md"),
        *(ROOT / "docs/gallery").glob("*.md"),
    )
)
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.M | re.S)
FILE = re.compile(r"(?<![\w\"./-])[\w/-]+\.py\b(?!:)")
FOLDER = re.compile(r"[a-z_]+(?:/[a-z_]+)*/")
DOTTED = re.compile(r"(?<![\w\"./-])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
IMPORT = re.compile(r"^from (stakes[\w.]*) import ([\w, ]+)", re.M)
IDENTIFIER = re.compile(r"([A-Za-z_]\w*)(?:\(.*\))?")
TOP = {"stakes", "reproduce", "examples"}
FIRST = TOP | {path.stem for path in PACKAGE.iterdir() if path.is_dir() or path.suffix == ".py"}
NO_NAMES = {"html", "toml", "csv", "npz", "py", "NAME"}
"""Endings of files, and what stands for a name."""


def text_of(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


def spans(page: str) -> list[str]:
    """What stands in backticks within sentences and tables."""
    return re.findall(r"`([^`]+)`", FENCE.sub("", text_of(page)))


def programs(page: str) -> list[str]:
    return [
        body for _, language, body in FENCE.findall(text_of(page)) if language in ("python", "py")
    ]


def is_there(path: str) -> bool:
    """A path from the root or from the package; a name alone may be anywhere in the package."""
    if any((start / path).exists() for start in (ROOT, PACKAGE)):
        return True
    return "/" not in path.rstrip("/") and any(PACKAGE.rglob(path.rstrip("/")))


def exists(name: str) -> bool:
    """A module, or what is in it; a field of a class counts, too."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        return all_in(value, parts[count:])
    return False


def all_in(value: object, names: list[str]) -> bool:
    for name in names:
        if inspect.isclass(value) and any(
            name in inspect.get_annotations(base) for base in value.__mro__
        ):
            return True
        try:
            value = getattr(value, name)
        except AttributeError:
            return False
    return True


def missing_in(text: str, own: bool = False) -> list[str]:
    """Dotted names that lead nowhere; only those of `stakes`, unless a page means its `own`.

    On such a page `fitting.Fit` is in a package, and `study.fitted` may be of a `Study`, too.
    """
    missing = []
    for name in DOTTED.findall(text):
        first, _, rest = name.partition(".")
        if first not in (FIRST if own else {"stakes"}) or rest.split(".")[-1] in NO_NAMES:
            continue
        at = (
            [name] if first in TOP else [f"stakes.{name}", f"stakes.{first}.{first.title()}.{rest}"]
        )
        if not any(map(exists, at)):
            missing.append(name)
    return missing


def missing_of_imports(program: str) -> list[str]:
    """What a program imports from `stakes`, or takes from what it imported, and is not there."""
    imported = {
        name.strip(): f"{module}.{name.strip()}"
        for module, names in IMPORT.findall(program)
        for name in names.split(",")
    }
    used = [
        f"{imported[first]}.{rest}"
        for first, _, rest in (name.partition(".") for name in DOTTED.findall(program))
        if imported.get(first, "").rpartition(".")[2].islower()
    ]
    return [name for name in (*imported.values(), *used) if not exists(name)]


@cache
def words_of_the_code() -> frozenset[str]:
    """All words of the code, but for those of this file."""
    texts = [
        path.read_text("utf-8")
        for folder in CODE
        for path in folder.rglob("*.py*")
        if path.suffix in (".py", ".pyi") and path != Path(__file__)
    ]
    return frozenset(word for text in texts for word in re.findall(r"\w+", text))


@pytest.mark.parametrize("page", PAGES)
def test_files_and_folders_that_a_page_names_exist(page: str) -> None:
    files = [path for span in spans(page) for path in FILE.findall(span)]
    folders = [span for span in spans(page) if FOLDER.fullmatch(span)]
    assert [path for path in (*files, *folders) if not is_there(path)] == []


@pytest.mark.parametrize("page", PAGES)
def test_names_within_packages_exist(page: str) -> None:
    missing = [name for span in spans(page) for name in missing_in(span, own=True)]
    for program in programs(page):
        missing += missing_in(program) + missing_of_imports(program)
    assert missing == []


DESIGN = [page for page in PAGES if page.startswith("docs/design/")]


@pytest.mark.parametrize("page", [*DESIGN, "docs/extending.md", "CONTRIBUTING.md"])
def test_classes_and_functions_that_a_page_names_are_in_the_code(page: str) -> None:
    named = {match[1] for span in spans(page) if (match := IDENTIFIER.fullmatch(span))}
    assert sorted(named - words_of_the_code()) == []


def test_the_api_page_names_what_exists() -> None:
    names = re.findall(r"^::: ([\w.]+)$", text_of("docs/api.md"), re.M)
    assert [name for name in names if not exists(name)] == []


def test_commands_that_the_documents_name_exist() -> None:
    """Modules that `python -m` starts, targets of `make`, and commands of `stakes`."""
    text = "\n".join(map(text_of, PAGES))
    modules = set(re.findall(r"python -m ([a-z_]+(?:\.\w+)*)", text)) - {
        "venv",
        "pip",
        "examples.NAME",
    }
    paths = [ROOT / name.replace(".", "/") for name in modules]
    assert [
        path for path in paths if not path.is_dir() and not path.with_suffix(".py").exists()
    ] == []
    targets = set(re.findall(r"`make ([a-z-]+)`|^make ([a-z-]+)", text, re.M))
    made = re.findall(r"^([a-z-]+):", text_of("Makefile"), re.M)
    assert {first or second for first, second in targets} <= set(made)


@pytest.mark.parametrize("page", DESIGN)
def test_a_page_of_the_design_is_short(page: str) -> None:
    assert len(text_of(page).split()) <= 600


def test_the_layers_page_lists_every_package_and_every_layer() -> None:
    blocks = [
        body
        for _, language, body in FENCE.findall(text_of("docs/design/layers.md"))
        if not language
    ]
    [packages] = [body for body in blocks if body.startswith("problem/")]
    [layers] = [body for body in blocks if body.startswith("app (")]
    heads = [line for line in packages.splitlines() if line and not line.startswith(" ")]
    listed = {
        name for head in heads for name in re.split(r" {3,}", head)[0].replace("/", "").split()
    }
    own = {"__init__", "__pycache__"}
    assert listed == {path.stem for path in PACKAGE.iterdir() if path.suffix in ("", ".py")} - own
    settings = tomllib.loads(text_of("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    [of_all] = [each for each in settings if each.get("containers") == ["stakes"]]
    told = [re.sub(r" \(.*\)", "", line) for line in layers.splitlines()]
    assert told == of_all["layers"]
