"""The generator of Criteo days: its lines, its gaps, its growth, its reproducibility, its dirt."""

import gzip
import re
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

ROWS = 40_000


@pytest.fixture(scope="module")
def made(generator, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("days")
    generator.main([str(out), "--rows", f"{ROWS}", "--days", "3", "--seed", "3"])
    return out


def cells(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text("ascii").removesuffix("\n").split("\n")]


@pytest.fixture(scope="module")
def columns(made) -> list[list[str]]:
    """The columns of all three days."""
    rows = [row for day in range(3) for row in cells(made / f"day_{day}")]
    return [list(column) for column in zip(*rows, strict=True)]


@pytest.mark.more
def test_lines_have_the_form_of_the_real_ones(made):
    form = re.compile(r"[01](?:\t(?:-1|[0-9]+)?){13}(?:\t(?:[0-9a-f]{8})?){26}\n")
    for day in range(3):
        with (made / f"day_{day}").open(encoding="ascii", newline="") as file:
            assert all(form.fullmatch(line) for line in file)


def test_the_rows_are_spread_over_the_days(made):
    assert [len(cells(made / f"day_{day}")) for day in range(3)] == [13_333, 13_333, 13_334]


@pytest.mark.more
def test_shares_and_means_are_those_it_tells(generator, lines, columns):
    assert columns[0].count("1") / ROWS == pytest.approx(lines.CLICKS, abs=0.004)
    empty = [column.count("") / ROWS for column in columns[1:]]
    told = [*generator.NO_NUMBER, *(generator.NO_VALUE.get(k, 0) for k in range(26))]
    assert empty == pytest.approx(told, abs=0.01)
    for column, mean in zip(columns[1:14], generator.MEANS, strict=True):
        numbers = [int(cell) for cell in column if cell]
        # The tail of the distribution is heavy, and what is left of the point is cut off.
        assert 0.3 * mean < np.mean(numbers) < 1.5 * mean


def expected_values(generator, column: int, rows: float) -> float:
    """How many different values so many rows have, from the probabilities of the values."""
    values, exponent, shift = generator.COLUMNS[column]
    power = 1 - exponent
    ends = np.unique([*range(1000), *np.geomspace(1000, max(values, 1001), 20_000)])
    ends = np.append(ends[ends < values], values)
    share = np.diff((ends + shift) ** power)
    share, width = share / share.sum(), np.diff(ends)
    rows *= 1 - generator.NO_VALUE.get(column, 0)
    return float((width * -np.expm1(-rows * share / width)).sum())


@pytest.mark.parametrize("column", range(26))
def test_as_many_values_as_the_distribution_says(generator, columns, column):
    found = len(set(columns[14 + column]) - {""})
    wanted = expected_values(generator, column, ROWS)
    assert found == pytest.approx(wanted, abs=4 * wanted**0.5)


@pytest.mark.parametrize(
    ("column", "published"),
    [
        *((0, 227_605_432), (9, 130_229_467), (10, 3_067_956), (19, 292_775_614)),
        *((20, 40_790_948), (21, 187_188_510), (22, 590_152), (23, 12_973)),
    ],
)
def test_the_full_number_of_rows_would_have_the_published_number_of_values(
    generator, column, published
):
    # Fitted to all rows, missing values left out of account.
    rows = 4_373_472_329 / (1 - generator.NO_VALUE.get(column, 0))
    assert expected_values(generator, column, rows) == pytest.approx(published, rel=0.05)


def test_no_two_numbers_of_a_column_have_one_value(lines):
    for column in (0, 25):
        named = {int(lines.named(number, column)) for number in range(50_000)}
        high = {int(lines.named(2**32 - 1 - number, column)) for number in range(1000)}
        assert (len(named), len(high), len(named & high)) == (50_000, 1_000, 0)


def run(generator, out: Path, *options: str) -> dict[str, bytes]:
    generator.main([str(out), "--rows", "20000", "--days", "1", *options])
    return {path.name: path.read_bytes() for path in out.iterdir()}


def test_the_same_options_give_the_same_bytes_with_any_number_of_threads(generator, tmp_path):
    dirt = ("--dirt", "0.01")
    one = run(generator, tmp_path / "one", *dirt, "--threads", "1")
    assert run(generator, tmp_path / "three", *dirt, "--threads", "3") == one
    assert run(generator, tmp_path / "other", *dirt, "--seed", "8") != one


def test_packed_files_hold_the_same_and_tell_no_time(generator, tmp_path):
    plain = run(generator, tmp_path / "plain")
    packed = run(generator, tmp_path / "packed", "--gz")
    assert {name: gzip.decompress(data) for name, data in packed.items()} == {
        f"{name}.gz": data for name, data in plain.items()
    }
    assert run(generator, tmp_path / "again", "--gz") == packed


def test_lines_end_as_on_windows_where_they_shall(generator, tmp_path):
    plain = run(generator, tmp_path / "plain")["day_0"]
    assert run(generator, tmp_path / "crlf", "--crlf")["day_0"] == plain.replace(b"\n", b"\r\n")


def test_kaggle_has_a_test_file_without_labels(generator, tmp_path):
    made = run(generator, tmp_path, "--kaggle")
    tabs = {name: {line.count(b"\t") for line in data.splitlines()} for name, data in made.items()}
    assert tabs == {"train.txt": {39}, "test.txt": {38}}


def test_dirt_is_of_every_kind_and_the_other_lines_stay(generator, tmp_path):
    clean = run(generator, tmp_path / "clean")["day_0"].split(b"\n")
    dirty = run(generator, tmp_path / "dirty", "--dirt", "0.05")["day_0"].split(b"\n")
    changed = [(a, b) for a, b in zip(clean, dirty, strict=True) if a != b]
    assert 0.04 < len(changed) / len(clean) < 0.06
    kinds = Counter(
        name
        for before, after in changed
        for name, odd in generator.ODD.items()
        if odd(before.split(b"\t")) == after
    )
    assert kinds.keys() == generator.ODD.keys()
    # Each odd line but the last few kinds changes one field.
    assert all(before.count(b"\t") == 39 for before, _ in changed)


def test_odd_fields_stand_where_they_are_told(generator):
    fields = [b"%d" % k for k in range(40)]
    for kind, odd in generator.ODD.items():
        now = odd(fields).split(b"\t")
        places = [k for k, (a, b) in enumerate(zip(fields, now, strict=False)) if a != b]
        if kind in {"a fraction", "no logarithm", "the largest integer", "a lone sign"}:
            assert (len(now), len(places)) == (40, 1)
            assert 1 <= places[0] <= 13
        if kind in {"no digit", "nine digits", "few digits", "capitals", "a blank"}:
            assert (len(now), len(places)) == (40, 1)
            assert places[0] >= 14


@pytest.mark.more
@pytest.mark.parametrize("wrong", [("--dirt", "2"), ("--days", "0"), ("--rows", "-1")])
def test_options_that_mean_nothing_are_refused(generator, tmp_path, wrong):
    argv = [sys.executable, generator.__file__, tmp_path / "out", *wrong]
    done = subprocess.run(argv, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 1
    assert wrong[0] in done.stderr
    assert not (tmp_path / "out").exists()


def test_values_follow_their_probabilities(columns):
    """The most frequent values of a column fall off, and do so slowly enough to be told apart."""
    top = [count for _, count in Counter(columns[14 + 20]).most_common(5)]
    assert all(a >= b for a, b in pairwise(top))
    assert top[0] < 0.2 * ROWS
