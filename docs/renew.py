"""Put the tables of docs/reproduced into docs/reproducing.md, which is read without a build, too.

Each stands between `<!-- table: NAME -->` and `<!-- end -->`. Run by `make reproduce`.
"""

import re
from pathlib import Path

DOCS = Path(__file__).parent
PAGE = DOCS / "reproducing.md"
TABLE = re.compile(r"<!-- table: (.+?) -->\n.*?<!-- end -->", re.DOTALL)


def renewed(page: str) -> str:
    def table(found: re.Match[str]) -> str:
        text = (DOCS / "reproduced" / f"{found[1]}.md").read_text()
        return f"<!-- table: {found[1]} -->\n\n{text.strip()}\n\n<!-- end -->"

    return TABLE.sub(table, page)


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text()))
