"""The contests by name; each is made when it is asked for."""

from collections.abc import Callable

from benchmarks.against.contest import Contest
from benchmarks.against.problems import matrices, radon, tables, yaz

CONTESTS: dict[str, Callable[[], Contest]] = {
    "yaz-calendar": yaz.calendar,
    "yaz-lagged": yaz.lagged,
    "radon-homes": radon.homes,
    "radon-counties": radon.counties,
    "diabetes": tables.diabetes,
    "engel": tables.engel,
    "visits": tables.visits,
    "retail": matrices.purchases,
    "lastfm": matrices.plays,
}
