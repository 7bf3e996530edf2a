"""A table as people have them: 400 rows with dates, umlauts, gaps, and numbers written as text."""

import random
from datetime import date, timedelta
from pathlib import Path

TOWNS = ["Köln, Dom", "Köln, Süd", "Ulm", "Fürth", "Bonn"]
DEFECTS = {12: "n/a", 40: "n/a"}
"""Row -> what its price says."""
GAPS = (7, 333)
"""Rows without sunshine."""
PADDED = 100
"""A row whose town has a space too many."""


def messy_rows(count: int = 400, seed: int = 0) -> list[list[str]]:
    """date, Filiale, sunshine, Preis, open, note, Anzahl Brote: a header and rows."""
    rng, start = random.Random(seed), date(2024, 1, 1)
    rows = [["date", "Filiale", "sunshine", "Preis", "open", "note", "Anzahl Brote"]]
    for i in range(count):
        day, town = start + timedelta(days=i // 5), TOWNS[i % 5]
        sun, price = rng.random(), 2.5 + rng.random()
        mean = 30 + 10 * (i % 5) + 8 * (day.weekday() >= 5) + 6 * sun - 5 * (price - 3)
        sold = max(0, round(rng.gauss(mean, mean**0.5)))
        row = i + 1
        written = DEFECTS.get(row, f"€{price:.2f}".replace(".", ","))
        padded = town + " " * (row == PADDED)
        shone = "" if row in GAPS else f"{sun:.2f}".replace(".", ",")
        weekend = "ja" if day.weekday() >= 5 else "nein"
        rows.append([f"{day:%d.%m.%Y}", padded, shone, written, weekend, f"n{row}", str(sold)])
    return rows


def write_messy(path: Path, rows: list[list[str]]) -> None:
    """As a German Excel saves it."""
    text = "\n".join(";".join(f'"{c}"' if ";" in c else c for c in row) for row in rows) + "\n"
    path.write_bytes(text.encode("cp1252"))
