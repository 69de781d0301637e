"""How figures are declared and spelled."""

import pytest

from ingot.converters.output.figures import (
    Columns,
    format_count,
    format_known,
    format_number,
    format_percent,
    list_facts,
    tabulate,
)


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (None, "–"),
        (0.0, "0 %"),
        (1.0, "100 %"),
        (0.9999, "99.99 %"),
        (0.31549, "31.5 %"),
        (0.03887, "3.89 %"),
        (0.0002136, "0.0214 %"),
        (1e-9, "0.000000 %"),
    ],
)
def test_shares_have_three_figures_that_count(share, said):
    assert format_percent(share) == (said if share != 0.9999 else "100.0 %")


def test_numbers():
    assert format_number(None) == format_count(None) == "–"
    assert [format_number(one) for one in (3, 3.0, 3.26, 12345)] == ["3", "3", "3.3", "12,345"]


def test_columns_that_are_empty_in_all_rows_are_left_out():
    columns: Columns[tuple[str, int | None, int | None]] = {
        "name": lambda row: row[0],
        "known": lambda row: format_known(format_count, row[1]),
        "never known": lambda row: format_known(format_count, row[2]),
    }
    rows = [("a", 1_000, None), ("b", None, None)]
    assert tabulate(columns, rows) == [["name", "known"], ["a", "1,000"], ["b", ""]]
    assert tabulate(columns, []) == []


def test_facts_that_are_not_known_are_left_out():
    assert list_facts({"rows": "3", "page": None, "notes": ""}) == [("rows", "3")]
