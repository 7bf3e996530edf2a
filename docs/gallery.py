"""Runs the programs of the gallery's pages, and puts what they print and draw below them.

mkdocs calls it while it builds the site (`hooks` in mkdocs.yml), the tests call `executed`. Blocks
marked `python` are run, in order and in one namespace; `py` is for programs that are only to be
read. A block shows what it prints, the value of its last line, and the figures it leaves open.
"""

import ast
import base64
import hashlib
import html
import io
import json
import re
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # for `examples`
KEPT = ROOT / ".gallery_cache"
"""What pages came to, so that only what has changed is run again."""
BLOCK = re.compile(r"```python\n(.*?)```\n", re.S)
STYLE = {
    "figure.figsize": (7.0, 3.4),
    "font.size": 10,
    "svg.fonttype": "none",
    "svg.hashsalt": "stakes",
    "savefig.facecolor": "white",
}


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """mkdocs: a page before it becomes HTML."""
    if not page.file.src_uri.startswith("gallery/"):
        return markdown
    kept = KEPT / f"{_fingerprint(markdown)}.json"
    if kept.exists():
        return str(json.loads(kept.read_text("utf-8")))
    found, _ = executed(markdown, page.file.src_uri)
    KEPT.mkdir(exist_ok=True)
    kept.write_text(json.dumps(found), "utf-8")
    return found


def executed(markdown: str, name: str) -> tuple[str, dict[str, Any]]:
    """The page with what its programs print and draw, and the namespace they end with."""
    import matplotlib as mpl

    mpl.use("Agg")
    namespace: dict[str, Any] = {"__name__": "__gallery__"}

    def shown(block: re.Match[str]) -> str:
        line = markdown[: block.start()].count("\n") + 1
        with mpl.rc_context(STYLE):
            return block[0] + _outcome("\n" * line + block[1], name, namespace)

    return BLOCK.sub(shown, markdown), namespace


def _outcome(program: str, name: str, namespace: dict[str, Any]) -> str:
    """What a program prints, its last value and its figures, as Markdown."""
    tree = ast.parse(program, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(tree, name, "exec"), namespace)
        if last is not None:
            _show(eval(compile(ast.Expression(last.value), name, "eval"), namespace))
    text = printed.getvalue().rstrip()
    output = f"\n```text\n{text}\n```\n" if text else ""
    return output + "".join(_figures())


def _show(value: Any) -> None:
    """As a notebook would; the artists that plotting returns are left to their figures."""
    if value is None or type(value).__module__.startswith("matplotlib"):
        return
    print(value.to_string() if hasattr(value, "to_string") else value)


def _figures() -> list[str]:
    import matplotlib.pyplot as plt

    found = []
    for number in plt.get_fignums():
        figure, file = plt.figure(number), io.BytesIO()
        figure.savefig(file, format="svg", metadata={"Date": None}, bbox_inches="tight")
        words = [axes.get_ylabel() or axes.get_xlabel() for axes in figure.axes]
        alt = html.escape("Figure: " + ", ".join(word for word in words if word))
        data = base64.b64encode(file.getvalue()).decode()
        found.append(f'\n<img alt="{alt}" src="data:image/svg+xml;base64,{data}">\n')
        plt.close(figure)
    return found


def _fingerprint(markdown: str) -> str:
    """Of the page and of all that it may call."""
    found = hashlib.sha256(markdown.encode())
    sources = (path for part in ("src", "examples") for path in (ROOT / part).rglob("*.py"))
    for path in (Path(__file__), *sorted(sources)):
        found.update(path.read_bytes())
    return found.hexdigest()
