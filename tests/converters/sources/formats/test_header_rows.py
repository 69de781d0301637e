"""Titles, notes and rows of groups above the header of a sheet or a CSV file."""

import csv
from collections.abc import Sequence
from pathlib import Path

import pytest

from ingot.converters.errors import MappingError, SourceError
from ingot.converters.mapping.bind import bind
from ingot.converters.sources import Source, SourceSpec, open_source
from tests.converters.sources.containers.workbook_files import (
    HEADER,
    TOPICS,
    Cell,
    catalogue,
    write_workbook,
)

NOTE = ("Internal: ask Ann before you change anything here.",)
BILINGUAL = [
    (*row, f"我怎么查询第{n}号订单？", f"在我的订单页面查询第{n}号订单。", "ok" if n % 5 else None)
    for n, row in enumerate(catalogue())
]
GROUPS = ("id", "topic", "English", None, "Chinese", None, "note")
NAMES = (None, None, "question", "answer", "question", "answer", None)
JOINED = (
    *("id", "topic", "English question", "English answer"),
    *("Chinese question", "Chinese answer", "note"),
)
BELOW = ("id", "topic", *NAMES[2:6], "note")  # names that stand in the second row only
PLAIN = ("id", "topic", "question", "answer", "zh_q", "zh_a", "note")
TEXTS = ("id", "topic", "Text", None, "Other", None, None)
DOWN = ["A1:A2", "B1:B2", "C1:D1", "E1:F1", "G1:G2"]


def facts(place: Path, **spec: object) -> tuple[tuple[int, ...], tuple[str, ...], int]:
    """Where the header is found, its names, and how many rows are read."""
    source = open_source(str(place), SourceSpec(**spec))
    (file,) = source.files
    rows = [row for batch in source.batches() for row in batch.values]
    assert file.facts.rows in (None, len(rows))
    assert all(tuple(row) == file.facts.columns for row in rows)
    return file.facts.header_rows, file.facts.columns, len(rows)


@pytest.mark.parametrize(
    ("above", "merged", "header_rows"),
    [
        ([], [], (1,)),
        ([("Our catalogue",)], ["A1:D1"], (2,)),
        ([("Our catalogue",), NOTE, ()], ["A1:D1"], (4,)),
        ([(), (None, "Our catalogue"), ()], [], (4,)),
        ([("Our catalogue", None, None, "v2.3"), ("Date", "2026-03-01"), ()], ["A1:C1"], (4,)),
        ([("Exported by", "Ann Lee", "shop"), ("Date", "2026-03-01"), ()], [], (4,)),
        ([(f"Line {n} of a notice",) for n in range(9)], [], (10,)),
    ],
)
def test_rows_above_a_header_are_no_rows(tmp_path, above, merged, header_rows):
    sheet = [*above, HEADER, *catalogue()]
    place = write_workbook(tmp_path / "a.xlsx", {"Catalogue": sheet}, {"Catalogue": merged})
    assert facts(place) == (header_rows, HEADER, 40)
    guessed = open_source(str(place)).guessed
    assert guessed.header_rows == (header_rows if above else None)
    assert guessed.columns is None
    assert facts(place, header_rows=header_rows) == facts(place)


@pytest.mark.parametrize(
    ("sheet", "merged", "header_rows", "columns"),
    [
        ([GROUPS, NAMES], DOWN, (1, 2), JOINED),
        ([GROUPS, (*GROUPS[:2], *NAMES[2:6], "note")], ["C1:D1", "E1:F1"], (1, 2), JOINED),
        ([("Shop",), (None, None, *GROUPS[2:6]), BELOW], ["A1:G1"], (2, 3), JOINED),
        ([TEXTS, (None, None, *PLAIN[2:])], [*DOWN[:3], "E1:G1"], (1, 2), PLAIN),
    ],
)
def test_a_row_of_groups_stands_before_names_that_repeat(
    tmp_path, sheet, merged, header_rows, columns
):
    rows = [*sheet, *BILINGUAL]
    place = write_workbook(tmp_path / "a.xlsx", {"Catalogue": rows}, {"Catalogue": merged})
    assert facts(place) == (header_rows, columns, 40)


def test_a_header_with_a_merged_cell_and_texts_below_is_asked_about(tmp_path):
    rows = [("animal", "looks", None)]
    rows += [(f"dog{n}", f"brown{n}", f"x{n}") for n in range(30)]
    place = write_workbook(tmp_path / "a.xlsx", {"S": rows}, {"S": ["B1:C1"]})
    (file,) = open_source(str(place)).files
    assert file.facts.columns == ("animal", "looks", "looks.1")
    assert file.facts.unclear == "rows 1 and 2 may both hold names"
    assert facts(place, header_rows=(1,))[2] == 30


def test_a_title_above_rows_without_a_header_is_asked_about(tmp_path):
    rows: list[Sequence[Cell]] = [("Measured values of the plant",), ()]
    rows += [(n, n * 0.5, n * 3, n + 7) for n in range(30)]
    place = write_workbook(tmp_path / "a.xlsx", {"S": rows})
    (file,) = open_source(str(place)).files
    assert (file.facts.header, file.facts.rows) == (False, 31)  # nothing is lost
    assert file.facts.unclear == "rows above row 3 look like a title"


def write_csv(path: Path, rows: Sequence[Sequence[Cell]], pad: int = 0) -> Path:
    with path.open("w", encoding="utf-8", newline="") as out:
        wide = [[*row, *[None] * (pad - len(row))] for row in rows]
        csv.writer(out, lineterminator="\n").writerows(wide)
    return path


@pytest.mark.parametrize(
    ("above", "pad", "header_rows"),
    [
        ([("Our catalogue",), NOTE], 4, (3,)),  # as a spreadsheet exports it
        ([("Our catalogue",), ("Internal",)], 0, ()),  # lines of other cells, as comments are
        ([("Our catalogue",), (), ("Internal",), ()], 0, (5,)),
    ],
)
def test_titles_above_a_csv_file(tmp_path, above, pad, header_rows):
    place = write_csv(tmp_path / "a.csv", [*above, HEADER, *catalogue()], pad)
    found, columns, rows = facts(place)
    assert (found, columns, rows) == (header_rows, HEADER, 40)
    assert facts(place, header_rows=(len(above) + 1,))[1:] == (HEADER, 40)


def test_two_header_lines_of_a_csv_file(tmp_path):
    rows = [(None, None, *GROUPS[2:6], None), JOINED[:2] + NAMES[2:6] + ("note",), *BILINGUAL]
    place = write_csv(tmp_path / "a.csv", rows)
    assert facts(place) == ((1, 2), JOINED, 40)


def test_a_plain_table_is_read_as_before(tmp_path):
    place = write_csv(tmp_path / "a.csv", [HEADER, *catalogue()])
    assert facts(place) == ((), HEADER, 40)
    assert open_source(str(place)).guessed.header_rows is None
    rows = [("", "name", "n"), *[(n, f"dog{n}", n * 2) for n in range(30)]]  # an index
    assert facts(write_csv(tmp_path / "b.csv", rows))[1:] == (("c0", "name", "n"), 30)


def test_stated_rows(tmp_path):
    sheet = [("Our catalogue",), HEADER, *catalogue()]
    place = write_workbook(tmp_path / "a.xlsx", {"S": sheet})
    assert facts(place, header_rows=(1,))[1][0] == "Our catalogue"
    names = ("a", "b", "c", "d")
    assert facts(place, header_rows=(2,), columns=names)[1:] == (names, 40)
    with pytest.raises(SourceError, match="no table in it has a row 99"):
        open_source(str(place), SourceSpec(header_rows=(99,)))
    table = write_csv(tmp_path / "a.csv", [HEADER, *catalogue()])
    with pytest.raises(SourceError, match="no table with a header in line 150"):
        open_source(str(table), SourceSpec(header_rows=(150,)))


@pytest.mark.parametrize("rows", [[], [0], [3, 2], [1, 2, 3], [201], ["3"], 3, [True]])
def test_header_rows_of_a_mapping_are_checked(rows):
    document = {"version": 2, "source": {"header_rows": rows}, "text": "question"}
    with pytest.raises(MappingError, match="/source/header_rows"):
        bind(document, None, where="m.json")


def names(source: Source) -> list[str]:
    return [file.name for file in source.files]


def test_equal_sheets_are_read_together_and_others_left_out(tmp_path):
    months = {
        month: [(f"Catalogue of {month}",), HEADER, *catalogue(n * 20, n * 20 + 20)]
        for n, month in enumerate(("January", "February", "March"))
    }
    changes = [("Change log",), ("id", "date", "question", "why")]
    changes += [(f"Q{n:03}", f"2026-01-{n + 1:02}", f"text {n}", "secret") for n in range(28)]
    terms = [("id", "topic"), *[(f"Q{n:03}", TOPICS[n % 4]) for n in range(9)]]
    nameless = [(f"2026-01-{n + 1:02}", None, f"text {n}", f"internal {n}") for n in range(20)]
    more = {"Changelog": changes, "Topics": terms, "Notes": nameless}
    source = open_source(str(write_workbook(tmp_path / "a.xlsx", months | more)))
    assert names(source) == list(months)
    assert sum(len(batch.values) for batch in source.batches()) == 60
    assert sorted(source.guessed.files or ()) == ["!Changelog", "!Notes", "!Topics"]
    assert {one.name: one.kind for one in source.left_out} == dict.fromkeys(more, "shape")
    told = {one.name: one.why for one in source.left_out}
    assert told["Changelog"].endswith("excel with date, id, question, why, 28 rows")


def test_a_sheet_with_few_more_columns_belongs_to_the_others(tmp_path):
    wide = [(*HEADER, "note"), *[(*row, "ok") for row in catalogue(40, 60)]]
    sheets = {"A": [HEADER, *catalogue()], "B": wide}
    assert names(open_source(str(write_workbook(tmp_path / "a.xlsx", sheets)))) == ["A", "B"]


def test_csv_files_without_a_header_are_joined_by_their_width(tmp_path):
    rows = [row[1:] for row in catalogue()]
    write_csv(tmp_path / "a.csv", [(*row, n) for n, row in enumerate(rows)])
    write_csv(tmp_path / "b.csv", [(row[0], f"Lot of {row[0]}", n) for n, row in enumerate(rows)])
    assert names(open_source(str(tmp_path))) == ["a.csv"]


def test_what_is_only_left_out_by_name_is_no_choice_of_the_rest(tmp_path):
    """Notes stay notes, and files of another shape stay out, where `files` only excludes."""
    write_csv(tmp_path / "a.csv", [HEADER, *catalogue()])
    write_csv(tmp_path / "b.csv", [("term", "meaning"), *[(f"t{n}", f"m {n}") for n in range(9)]])
    (tmp_path / "README.md").write_text("What is in this folder.\n")
    (tmp_path / "old").mkdir()
    write_csv(tmp_path / "old/a.csv", [HEADER, *catalogue()])
    source = open_source(str(tmp_path), SourceSpec(files=("!old/a.csv",)))
    assert names(source) == ["a.csv"]
    told = {one.name: one.kind for one in source.left_out}
    assert told == {"README.md": "note", "b.csv": "shape", "old/a.csv": "unselected"}
