"""Tables larger than memory: what is copied of them, in which order, and what is refused."""

import gzip
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from parquet_parts import write_parts

import stakes
from stakes.tables import ROW, Passes, Scratch, Shuffled, copy_shuffled

pa = pytest.importorskip("pyarrow")
import pyarrow.csv as csv  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

ROWS, BATCH = 24_000, 100
SHOPS = np.array(["north", "south", "west"])


def simulated() -> dict[str, np.ndarray]:
    """In order of the outcome and of x: minibatches of neighbours would be all alike."""
    rng = np.random.default_rng(8)
    shop, x, y = SHOPS[rng.integers(3, size=ROWS)], rng.normal(size=ROWS), rng.random(ROWS) < 0.5
    order = np.lexsort((x, y))
    return {"shop": shop[order], "x": x[order], "y": y[order]}


DATA = simulated()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_parts(tmp_path_factory.mktemp("files"), DATA)


@pytest.fixture(scope="module")
def copy(files: Path) -> Shuffled:
    return copy_shuffled(stakes.Stream(files).sources(), ["shop", "x", "y"], "y", [1])


def test_every_row_comes_once_in_each_pass(copy: Shuffled) -> None:
    passes, most = Passes(copy, [5]), 997  # stretches that divide neither files nor passes
    rows = np.concatenate([passes.take(start, most) for start in range(0, 2 * ROWS + most, most)])
    for number in (0, 1):
        one = rows[number * ROWS : (number + 1) * ROWS]
        np.testing.assert_array_equal(np.sort(one[ROW]), np.arange(ROWS))
    assert not np.array_equal(rows[:ROWS][ROW], rows[ROWS : 2 * ROWS][ROW])
    np.testing.assert_array_equal(Passes(copy, [5]).take(ROWS + 3, 10), rows[ROWS + 3 : ROWS + 13])


def test_rows_have_a_place_of_their_own_on_disk(copy: Shuffled) -> None:
    on_disk = np.concatenate([copy.read(file) for file in copy.files])
    places = Passes(copy, [5]).places(ROWS - 700, 1500)  # the end of a pass and the next one
    np.testing.assert_array_equal(on_disk[places], Passes(copy, [5]).take(ROWS - 700, 1500))


def test_rows_keep_their_values_and_words_their_places(copy: Shuffled) -> None:
    rows = Passes(copy, [5]).take(0, ROWS)
    assert copy.coding.categories == {"shop": tuple(SHOPS)}
    np.testing.assert_array_equal(SHOPS[rows["shop"]], DATA["shop"][rows[ROW]])
    np.testing.assert_array_equal(rows["x"], DATA["x"][rows[ROW]].astype(np.float32))
    np.testing.assert_array_equal(rows["y"], DATA["y"][rows[ROW]])


def test_rows_in_order_do_not_bias_a_minibatch(copy: Shuffled) -> None:
    """Means of minibatches vary as those of random samples do; in the files they would not."""
    count = 40
    x = Passes(copy, [6]).take(0, count * BATCH)["x"].reshape(count, BATCH)
    scores = (x.mean(axis=1) - DATA["x"].mean()) / (DATA["x"].std() / np.sqrt(BATCH))
    assert 0.3 < (scores**2).mean() < 2


def test_a_stream_of_arrow_is_read_like_files(copy: Shuffled) -> None:
    reader = pa.table(DATA).to_reader(max_chunksize=5000)
    assert hasattr(reader, "__arrow_c_stream__")
    found = copy_shuffled(stakes.Stream(reader).sources(), ["shop", "x", "y"], "y", [1])
    np.testing.assert_array_equal(found.in_order(), copy.in_order())


def _without(name: str) -> Any:
    return lambda table: table.drop_columns([name])


def _as(name: str, values: Any) -> Any:
    return lambda table: table.set_column(
        table.schema.get_field_index(name), name, pa.array(values(table[name].to_pylist()))
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_without("x"), r"part-3\.parquet has no column 'x'"),
        (_as("x", lambda x: [str(v) for v in x]), r"part-3.*'x' holds words; in .*part-0.*numbers"),
        (_as("x", lambda x: [*x[:7], None, *x[8:]]), r"'x': has no value in row 8 of .*part-3"),
        (_as("x", lambda x: [*x[:7], np.inf, *x[8:]]), r"'x': is infinite in row 8 of .*part-3"),
        (
            _as("shop", lambda s: ["North", *s[1:]]),
            "'north' .*and 'North' .*first in row 1 of .*part-3.*by capital letters",
        ),
        (_as("x", lambda x: [[v] for v in x]), r"part-3.*'x' is of type list"),
    ],
)
def test_a_file_that_differs_from_the_others_is_named(
    tmp_path: Path, change: Any, message: str
) -> None:
    write_parts(tmp_path, {name: values[::20] for name, values in DATA.items()})
    odd = tmp_path / "part-3.parquet"
    pq.write_table(change(pq.read_table(odd)), odd)
    with pytest.raises(stakes.InputError, match=message):
        copy_shuffled(stakes.Stream(tmp_path).sources(), ["shop", "x", "y"], "y", [1])


def test_whole_numbers_in_one_file_and_others_in_the_next_are_numbers(tmp_path: Path) -> None:
    for name, values in (("a", [1, 2]), ("b", [0.5, 3.0])):
        pq.write_table(pa.table({"x": values}), tmp_path / f"{name}.parquet")
    found = copy_shuffled(stakes.Stream(tmp_path).sources(), ["x"], "y", [1])
    assert found.in_order()["x"].tolist() == [1.0, 2.0, 0.5, 3.0]


def test_whole_numbers_that_would_lose_digits_among_fractions_are_named(tmp_path: Path) -> None:
    for name, values in (("a", [0.5, 3.0]), ("b", [2**24, 2**24 + 1])):
        pq.write_table(pa.table({"x": values}), tmp_path / f"{name}.parquet")
    with pytest.raises(
        stakes.InputError, match=r"'x', row 2 of .*b\.parquet has 16777217, which float"
    ):
        copy_shuffled(stakes.Stream(tmp_path).sources(), ["x"], "y", [1])


def test_columns_may_come_in_another_order_in_each_file(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1.0], "y": [2.0]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"other": ["?"], "y": [4.0], "x": [3.0]}), tmp_path / "b.parquet")
    found = copy_shuffled(stakes.Stream(tmp_path).sources(), ["x", "y"], "y", [1]).in_order()
    assert (found["x"].tolist(), found["y"].tolist()) == ([1.0, 3.0], [2.0, 4.0])


@pytest.mark.parametrize("line", ["3.0", "3.0,4.0,5.0"])
def test_a_ragged_file_is_named(tmp_path: Path, line: str) -> None:
    """A row that is longer or shorter than the others."""
    for name, last in (("a", "3.0,4.0"), ("b", line)):
        (tmp_path / f"{name}.csv").write_text(f"x,y\n1.0,2.0\n{last}\n")
    with pytest.raises(stakes.InputError, match=r"cannot read .*b\.csv: .*Expected 2 columns"):
        copy_shuffled(stakes.Stream(tmp_path).sources(), ["x", "y"], "y", [1])


def _growing(path: Path, source: Any) -> Any:
    """Its file becomes longer after the first rows are read."""

    def parts(names: list[str]) -> Any:
        for number, part in enumerate(source.parts(names)):
            yield part
            if not number:
                with path.open("ab") as file:
                    file.write(b"3.0\n")

    return source._replace(parts=parts)


@pytest.mark.parametrize("when", ["before the first row", "between rows"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_file_that_changes_while_it_is_read_is_named(
    tmp_path: Path, kind: str, when: str
) -> None:
    path = tmp_path / f"sales.{kind}"
    table = pa.table({"x": np.arange(200_000.0)})
    csv.write_csv(table, path) if kind == "csv" else pq.write_table(table, path)
    sources = stakes.Stream(path).sources()
    if when == "between rows":
        sources = [_growing(path, sources[0])]
    else:
        with path.open("ab") as file:
            file.write(b"3.0\n")
    with pytest.raises(stakes.InputError, match=r"sales.*changed while|cannot read .*sales"):
        copy_shuffled(sources, ["x"], "y", [1])


def test_a_file_that_is_cut_short_is_named(tmp_path: Path) -> None:
    path = tmp_path / "sales.parquet"
    pq.write_table(pa.table({"x": np.arange(1000.0)}), path)
    path.write_bytes(path.read_bytes()[:-400])
    with pytest.raises(stakes.InputError, match=r"cannot read .*sales\.parquet"):
        stakes.Stream(path).sources()


@contextmanager
def limited(what: int, most: int) -> Iterator[None]:
    """Inside, the system allows this process so much."""
    before = resource.getrlimit(what)
    resource.setrlimit(what, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(what, before)


def test_few_files_are_open_while_rows_are_copied(
    files: Path, copy: Shuffled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stakes.tables.copying.FEWEST_FILES", 512)
    sources, open_now = stakes.Stream(files).sources(), len(os.listdir("/dev/fd"))
    with limited(resource.RLIMIT_NOFILE, max(map(int, os.listdir("/dev/fd"))) + 30):
        found = copy_shuffled(sources, ["shop", "x", "y"], "y", [1])
    assert len(os.listdir("/dev/fd")) <= open_now + 8
    np.testing.assert_array_equal(found.in_order(), copy.in_order())


def test_a_disk_that_is_full_is_named(files: Path, tmp_path: Path) -> None:
    """As is one on which there is no room for decisions: writing to it would end the program."""
    sources = stakes.Stream(files).sources()
    with (
        limited(resource.RLIMIT_FSIZE, 4000),
        pytest.raises(
            stakes.StakesError,
            match=rf"{tmp_path}.*cannot be written to \(File too large\).*scratch=",
        ),
    ):
        copy_shuffled(sources, ["shop", "x", "y"], "y", [1], tmp_path)
    assert not list(tmp_path.iterdir())
    folder = Scratch(tmp_path)
    with limited(resource.RLIMIT_FSIZE, 4000), pytest.raises(stakes.StakesError, match="scratch="):
        folder.array("decisions", np.dtype("f"), (2000,))
    assert folder.array("decisions", np.dtype("f"), (1000,)).tolist() == [0.0] * 1000


def test_hidden_files_of_a_folder_are_left_alone(tmp_path: Path) -> None:
    for name in ("a.csv", ".checkpoints/a.csv", ".b.csv", "month/a.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x\n1.0\n")
    found = [source.name for source in stakes.Stream(tmp_path).sources()]
    assert found == [str(tmp_path / name) for name in ("a.csv", "month/a.csv")]


def test_a_source_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(stakes.InputError, match="no such Parquet or CSV file"):
        stakes.Stream(tmp_path / "none-*.parquet").sources()


def test_text_of_a_stream_is_read_as_its_files_are_written(tmp_path: Path) -> None:
    german = "Tag;Filiale;Sonne;Preis\n1.2.2024;Köln;0,25;1.234,50 €\n22.2.2024;Ulm;1,5;2,5\n"
    (tmp_path / "a.csv").write_bytes(german.encode("cp1252"))
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(german.encode()))
    names = ["Tag_weekday", "Filiale", "Sonne", "Preis"]
    with pytest.warns(stakes.StakesWarning, match=r"'1\.234,50 €' and similar words are read as"):
        found = copy_shuffled(stakes.Stream(tmp_path).sources(), names, "y", [1])
    rows = found.in_order()
    assert rows["Tag_weekday"].tolist() == [3, 3, 3, 3]
    assert rows["Filiale"].tolist() == [0, 1, 0, 1]
    assert rows["Sonne"].tolist() == [0.25, 1.5, 0.25, 1.5]
    assert rows["Preis"].tolist() == [1234.5, 2.5, 1234.5, 2.5]
    assert found.coding.categories == {"Filiale": ("Köln", "Ulm")}


def test_dates_of_a_stream_give_their_parts_and_words_with_types_stay_words(
    tmp_path: Path,
) -> None:
    times = pd.to_datetime(["2024-01-01 10:00", "2024-01-02 23:00"]).tz_localize("Europe/Berlin")
    table = pa.table({"at": times, "day": pa.array(times.date), "id": ["12", "13"]})
    pq.write_table(table, tmp_path / "a.parquet")
    sources = stakes.Stream(tmp_path).sources()
    with pytest.warns(stakes.StakesWarning, match="'id' is text.*taken as categories"):
        found = copy_shuffled(sources, ["at_hour", "day_weekday", "id"], "y", [1])
    assert found.in_order()["at_hour"].tolist() == [10, 23]
    assert found.in_order()["day_weekday"].tolist() == [0, 1]
    assert found.coding.categories == {"id": ("12", "13")}
    with pytest.raises(stakes.InputError, match=r"'day' holds dates.*`day_weekday`"):
        copy_shuffled(sources, ["day"], "y", [1])


def test_words_that_may_mean_no_value_are_refused_in_a_stream(tmp_path: Path) -> None:
    pq.write_table(pa.table({"sky": ["wet", "n/a", "dry"]}), tmp_path / "a.parquet")
    with pytest.raises(stakes.InputError, match=r"'sky': row 2 of .*a\.parquet says 'n/a'"):
        copy_shuffled(stakes.Stream(tmp_path).sources(), ["sky"], "y", [1])
    words = pa.array(["wet", "n/a", "dry"]).dictionary_encode()
    pq.write_table(pa.table({"sky": words}), tmp_path / "a.parquet")
    found = copy_shuffled(stakes.Stream(tmp_path).sources(), ["sky"], "y", [1])
    assert found.coding.categories == {"sky": ("dry", "n/a", "wet")}
