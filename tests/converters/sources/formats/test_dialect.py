"""The dialect of a table: numbers, hostile cells, delimiters of equal rank."""

import pytest

from ingot.converters.sources.formats.dialect import guess_table

NUMBERS = ("1", "12,345", "1.5", ".5", "-3", "+2e10", "1E-5", "50%", " 7 ", "1,2.5%", "١٢")
WORDS = ("", "1.", ",1", "1,", "e5", "1e", "--1", "1 2", "%", "1.2.3", "1" * 65)


@pytest.mark.parametrize("cell", NUMBERS)
def test_a_header_stands_above_numbers(cell: str) -> None:
    table = guess_table(
        [f"{name}\t{name}" for name in ("count", *[cell] * 4)], whole=True, stated=True, usual=""
    )
    assert table is not None
    assert table.header


@pytest.mark.parametrize("cell", NUMBERS)
def test_a_number_is_no_header(cell: str) -> None:
    table = guess_table([f"{cell}\tx", "3\ty", "4\tz"], whole=True, stated=True, usual="")
    assert table is not None
    assert not table.header


@pytest.mark.parametrize("cell", WORDS)
def test_what_is_no_number_may_stand_in_a_header(cell: str) -> None:
    table = guess_table([f"{cell}\tid", "3\t1", "4\t2"], whole=True, stated=True, usual="")
    assert table is not None
    assert table.header


@pytest.mark.parametrize("unit", ["1", "a", " ", "1,", "\t", "'", '"', "(", "| ", "e1", "."])
@pytest.mark.parametrize("end", ["", "!", "x"])
def test_cells_of_one_sign_are_read_once(unit: str, end: str) -> None:
    line = (unit * 20_000)[:20_000] + end
    table = guess_table(
        [f"id;{line}", f"1;{line}", f"2;{line}"], whole=True, stated=True, usual="", delimiter=";"
    )
    assert table is not None
    assert table.fewest >= 1


def test_of_equal_delimiters_the_same_wins_in_any_order() -> None:
    found = set()
    for one, other in (("|||", "&&&"), ("&&&", "|||")):
        lines = [f"{n} {one} word {n} {other} text {n}" for n in range(9)]
        table = guess_table(lines, whole=True, stated=False, usual="")
        assert table is not None
        found.add(table.dialect.delimiter)
    assert found == {" ||| "}
