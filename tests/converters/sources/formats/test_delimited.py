"""CSV, TSV and other delimiters: dialect and header by values, quoting, ragged and broken rows."""

import csv
import io
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.converters.errors import SourceError
from ingot.converters.rows import Json
from ingot.converters.sources import FileFacts, SourceSpec, open_source
from ingot.converters.sources.formats.delimited import (
    Dialect,
    Line,
    RecordReader,
    column_names,
    delimited_rows,
)
from ingot.converters.sources.formats.row_chunks import BrokenRow

AS_FOUND = SourceSpec()


def write(folder: Path, name: str, content: str) -> str:
    path = folder / name
    path.write_bytes(content.encode())
    return str(path)


def facts(location: str) -> FileFacts:
    return open_source(location).files[0].facts


def read(location: str, spec: SourceSpec = AS_FOUND) -> tuple[list[Json], list[tuple[int, str]]]:
    batches = list(open_source(location, spec).batches())
    values = [value for batch in batches for value in batch.values]
    return values, [(bad.row, bad.detail) for batch in batches for bad in batch.bad]


CELLS = st.text(st.sampled_from('ab,"\n \r\t;中'), max_size=6)
TABLES = st.integers(2, 4).flatmap(
    lambda width: st.lists(st.lists(CELLS, min_size=width, max_size=width), min_size=1, max_size=8)
)


def rows_of(text: str, width: int, size: int, dialect: Dialect) -> list[Json]:
    data = text.encode()
    parts = (data[start : start + size] for start in range(0, len(data), size))
    names = [f"c{number}" for number in range(width)]
    stretches = delimited_rows(parts, names, dialect, header=False, fewest=width)
    return [row for stretch in stretches for row in stretch.values]


@given(TABLES, st.integers(1, 30), st.sampled_from(["\n", "\r\n"]))
def test_what_the_csv_module_writes_is_read_back(
    table: list[list[str]], size: int, line_end: str
) -> None:
    out = io.StringIO()
    csv.writer(out, lineterminator=line_end, quoting=csv.QUOTE_ALL).writerows(table)
    rows = rows_of(out.getvalue(), len(table[0]), size, Dialect(delimiter=","))
    assert [list(row.values()) for row in rows] == table


@given(TABLES, st.sampled_from(["_!_", "||", " +++$+++ "]), st.integers(1, 30))
def test_delimiters_of_several_characters_quote_like_single_ones(
    table: list[list[str]], delimiter: str, size: int
) -> None:
    quoted = [['"' + cell.replace('"', '""') + '"' for cell in row] for row in table]
    text = "\n".join(delimiter.join(row) for row in quoted)
    rows = rows_of(text, len(table[0]), size, Dialect(delimiter=delimiter))
    assert [list(row.values()) for row in rows] == table


@given(st.text(st.sampled_from('a,"\n\r \ufeff'), max_size=60), st.integers(1, 20))
def test_the_fast_way_reads_what_the_slow_way_reads(text: str, size: int) -> None:
    """Any text at all: quotes that never close, text behind quotes, too many or too few cells."""
    width, dialect = 2, Dialect(delimiter=",")

    def row(cells: list[str], line: str) -> Json:
        while len(cells) > width and not cells[-1]:
            cells.pop()
        if len(cells) == width:
            return {f"c{number}": cell for number, cell in enumerate(cells)}
        return BrokenRow(f"{len(cells)} fields instead of {width}", line.strip())

    slow = RecordReader(dialect, row)
    expected = slow.rows([Line(line) for line in text.split("\n")]) + slow.finish()
    found = rows_of(text, width, size, dialect)
    assert [_verdict(item) for item in found] == [_verdict(item) for item in expected]


def _verdict(row: Json) -> Json:
    return row.detail if isinstance(row, BrokenRow) else row


BODY = [("1", "first text, with comma", "x"), ("2", "second text", "y"), ("3", "third one", "z")]


@pytest.mark.parametrize(
    ("name", "delimiter", "quote"),
    [
        ("a.csv", ",", '"'),
        ("a.csv", ";", '"'),
        ("a.tsv", "\t", ""),
        ("a.txt", "\t", ""),
        ("data", "|", '"'),
        ("a.txt", "_!_", ""),
        ("a.dat", "||", ""),
        ("a.txt", " +++$+++ ", ""),
        ("a.txt", "\x01", ""),
        ("a.txt", "::", ""),
        ("a.txt", "\t|\t", ""),
    ],
)
def test_the_delimiter_is_found(tmp_path: Path, name: str, delimiter: str, quote: str) -> None:
    lines = [("id", "text", "label"), *BODY]
    cells = [[f'"{c}"' if quote and delimiter in c else c for c in line] for line in lines]
    path = write(tmp_path, name, "\n".join(delimiter.join(line) for line in cells))
    assert facts(path).delimiter == delimiter
    assert read(path) == ([dict(zip(lines[0], line, strict=True)) for line in BODY], [])


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("id,text\n1,some words here\n2,other words\n", True),
        ("题目,作者,内容\n静夜思,李白,床前明月光\n春晓,孟浩然,春眠不觉晓\n", True),
        (
            "review,sentiment\nA very long review of a film I saw.,positive\nBad one.,negative\n",
            True,
        ),
        (",a,b\n0,first,x\n1,second,y\n", True),
        ("label\ttext\n体育\t比赛开始了\n房产\t房价上涨\n", True),
        ("体育\t比赛开始了，很多人来看\n房产\t房价上涨\n体育\t又一场比赛\n", False),
        ("1,hello there,4\n2,goodbye,5\n", False),
        ("What is the longest river of all?,Nile,Rhine,A\nWho wrote it?,Kant,Hume,B\n", False),
        (
            "0,1467,Mon Apr 06,NO_QUERY,joe,some tweet\n0,1468,Mon Apr 06,NO_QUERY,ann,other\n",
            False,
        ),
        ("a,a\n1,2\n3,4\n", True),
    ],
)
def test_the_header_is_told_by_the_values(tmp_path: Path, text: str, header: bool) -> None:
    found = facts(write(tmp_path, "a.tsv" if "\t" in text else "a.csv", text))
    assert found.header is header
    lines = text.splitlines()
    rows, bad = read(str(tmp_path / ("a.tsv" if "\t" in text else "a.csv")))
    assert (len(rows), bad) == (len(lines) - header, [])
    if not header:
        assert list(rows[0])[:2] == ["c0", "c1"]


def test_guesses_that_could_turn_out_otherwise_are_stated(tmp_path: Path) -> None:
    headerless = open_source(write(tmp_path, "a.txt", "体育\t比赛\n房产\t房价\n体育\t又一场\n"))
    assert headerless.guessed == SourceSpec(
        format="csv", delimiter="\t", quote="", columns=("c0", "c1")
    )
    plain = open_source(write(tmp_path, "b.csv", "id,text\n1,some words\n2,other words\n"))
    assert plain.guessed == SourceSpec()


def test_a_pinned_guess_reads_the_same(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", "1_!_x_!_体育\n2_!_y_!_\n3_!_z_!_财经\n")
    source = open_source(path)
    again = source.with_spec(source.guessed)
    rows, first = ([list(b.values) for b in one.batches()] for one in (again, source))
    assert rows == first
    assert [list(b.values)[1] for b in again.batches()] == [{"c0": "2", "c1": "y", "c2": ""}]


def test_stated_names_make_every_line_a_row(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "id,text\n1,words\n")
    rows, _ = read(path, SourceSpec(columns=("x", "y")))
    assert rows == [{"x": "id", "y": "text"}, {"x": "1", "y": "words"}]


def test_too_few_or_too_many_names_are_an_error(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "1,words,z\n2,more,z\n3,more,z\n")
    with pytest.raises(SourceError, match="2 names for 3 columns"):
        read(path, SourceSpec(columns=("x", "y")))


@pytest.mark.parametrize(
    "text",
    [
        "It was a dark night, and cold.\nHe left, but came back.\nThen, silence.\nNo, he said.\n",
        "今天天气很好，我们去公园。\n他说，明天会下雨。\n好的。\n",
        "just one line of words",
        "See https://example.org/a for it.\nAnd http://example.org/b too.\nOr http://x.org/c.\n",
        "key: value; other\nsome words; more of them\n",
    ],
)
def test_running_text_is_no_table(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, "a.txt", text)
    assert facts(path).format == "text"
    assert read(path) == ([{"text": line} for line in text.splitlines()], [])


def test_text_as_one_row_per_file(tmp_path: Path) -> None:
    path = write(tmp_path, "chapter 1.txt", "one\n\ntwo\n")
    (batch,) = open_source(path, SourceSpec(format="text", root="$")).batches()
    assert (list(batch.values), batch.keys) == ([{"text": "one\n\ntwo\n"}], ["chapter 1"])


def test_a_table_of_one_column(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", 'text\n"hello, you"\nworld\n')
    assert read(path) == ([{"text": "hello, you"}, {"text": "world"}], [])


def test_empty_cells_are_text_and_names_are_made_distinct(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "id,,text,text\n1,,x,\n2,,y,z\n")
    assert read(path)[0][0] == {"id": "1", "c1": "", "text": "x", "text.1": ""}
    assert column_names(["a", " ", "a", "a", "c1"]) == ("a", "c1", "a.1", "a.2", "c1.1")


def test_ragged_rows(tmp_path: Path) -> None:
    """Surplus empty cells are dropped, missing ones filled only where many rows lack them."""
    few = "id,text,tag\n" + "1,a,b\n" * 50
    path = write(tmp_path, "a.csv", few + "2,broken\n3,c,d,,\n4,e,f,g\n")
    rows, bad = read(path)
    assert rows[-1] == {"id": "3", "text": "c", "tag": "d"}
    assert bad == [(50, "2 fields instead of 3"), (52, "4 fields instead of 3")]
    often = "id,text,tag\n" + "1,a,b\n" * 50 + "2,c\n" * 20
    rows, bad = read(write(tmp_path, "b.csv", often))
    assert (rows[-1], bad) == ({"id": "2", "text": "c", "tag": ""}, [])


def test_a_quote_that_is_never_closed_costs_one_row(tmp_path: Path) -> None:
    good = "".join(f'{n},"text {n}, quoted"\n' for n in range(3000))
    path = write(tmp_path, "a.csv", f'id,text\n{good}9,"never closed\n{good}')
    rows, bad = read(path)
    assert len(rows) == 6000
    assert bad == [(3000, "a quoted field does not end")]


def test_quotes_inside_fields_are_text(tmp_path: Path) -> None:
    lines = [f'{n}\t5" disk of {n}\t"so" he said' for n in range(30)] + ['7\t"open\tx']
    path = write(tmp_path, "a.tsv", "id\tsize\ttext\n" + "\n".join(lines))
    rows, bad = read(path)
    assert (len(rows), bad) == (31, [])
    assert rows[0] == {"id": "0", "size": '5" disk of 0', "text": '"so" he said'}
    assert rows[-1]["size"] == '"open'


def test_quoted_line_breaks_stay_as_they_are(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", 'id,text\r\n1,"a\r\nb ""c"""\r\n2,"d\ne"\r\n')
    assert read(path) == ([{"id": "1", "text": 'a\r\nb "c"'}, {"id": "2", "text": "d\ne"}], [])


def test_old_mac_line_ends(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "id,text\r1,some words\r2,other words\r")
    assert [row["text"] for row in read(path)[0]] == ["some words", "other words"]


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", "id\ttext\n1\ta\u2028b\x0cc\x85d\n2\te\n")
    assert read(path)[0][0] == {"id": "1", "text": "a\u2028b\x0cc\x85d"}


def test_parts_of_one_headerless_table_share_their_columns(tmp_path: Path) -> None:
    """One part alone could be taken for one with a header."""
    write(
        tmp_path, "a.csv", "Which one?,red,blue,A\nWho was it?,me,you,B\nWhere is it now?,x,y,A\n"
    )
    write(
        tmp_path,
        "b.csv",
        "Nile,long,short,A\nRhine in the west?,a,b,B\nAmazon again?,c,d,A\n",
    )
    source = open_source(str(tmp_path))
    assert [file.facts.header for file in source.files] == [False, False]
    assert sum(len(batch.values) for batch in source.batches()) == 6


def test_apostrophes_may_be_the_quotes(tmp_path: Path) -> None:
    lines = [f"Trade;'It''s {n} o''clock; the shop, says he, is open.'" for n in range(12)]
    location = write(tmp_path, "a.csv", "\n".join(lines) + "\n")
    assert (facts(location).delimiter, facts(location).quote) == (";", "'")
    assert read(location)[0][3] == {
        "c0": "Trade",
        "c1": "It's 3 o'clock; the shop, says he, is open.",
    }


def test_apostrophes_of_a_language_are_none(tmp_path: Path) -> None:
    lines = [f"{n},'Tis the season o' the year {n}" for n in range(12)]
    location = write(tmp_path, "a.csv", "id,text\n" + "\n".join(lines) + "\n")
    assert facts(location).quote == '"'
    assert read(location)[0][3] == {"id": "3", "text": "'Tis the season o' the year 3"}


@pytest.mark.parametrize("delimiter", [",", "\t"])
def test_a_question_mark_before_a_delimiter_ends_the_question(
    tmp_path: Path, delimiter: str
) -> None:
    lines = [f"Which of the {n} roads is it?{delimiter}number {n % 3}" for n in range(12)]
    path = write(tmp_path, "a.txt", "\n".join(lines))
    assert facts(path).delimiter == delimiter


@pytest.mark.parametrize("mark", ["^", "~"])
def test_rarer_delimiters_need_a_header_or_numbers(tmp_path: Path, mark: str) -> None:
    lines = [f"{n}{mark}The lamp, {n}{mark}Nobody came; it was late {n}." for n in range(12)]
    assert facts(write(tmp_path, "a.txt", "\n".join(lines) + "\n")).delimiter == mark
    prose = [f"It cost {mark}{n} pounds in all, he said." for n in range(12)]
    assert facts(write(tmp_path, "b.txt", "\n".join(prose) + "\n")).format == "text"


def test_cells_of_hundreds_of_lines(tmp_path: Path) -> None:
    def cell(n: int) -> str:
        return "\n".join(f"[doctor] line {k} of visit {n}, and more" for k in range(150))

    rows = "".join(f'v{n},"{cell(n)}","{cell(n)}"\n' for n in range(6))
    (tmp_path / "visits.csv").write_text(f"id,dialogue,note\n{rows}")
    source = open_source(str(tmp_path))
    values = [value for batch in source.batches() for value in batch.values]
    assert [value["id"] for value in values] == [f"v{n}" for n in range(6)]
    assert values[5]["note"] == cell(5)


def test_columns_that_were_stated_leave_wider_tables_out(tmp_path: Path) -> None:
    (tmp_path / "data.tsv").write_text("a film\t1\nb film\t0\n" * 30)
    (tmp_path / "other.tsv").write_text("a\tb\tc\td\n1\t2\t3\t4\n")
    source = open_source(str(tmp_path), SourceSpec(columns=("text", "label")))
    assert [file.name for file in source.files] == ["data.tsv"]
    assert source.left_out[0].why == "2 names for 4 columns"


@pytest.mark.parametrize("mark", ["\t", ";", "|"])
@pytest.mark.parametrize("every", [1, 2, 20])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
@pytest.mark.parametrize("ending", ["tsv", "txt"])
def test_quoted_cells_over_several_lines(
    tmp_path: Path, mark: str, every: int, quoting: Literal[0, 1], ending: str
) -> None:
    """Most lines may lie inside cells; then few have the delimiter."""
    table = [
        [str(n), f"Is {n} odd?", 'Yes.\nIt is.\n\nSo, "odd" it is.' if n % every == 0 else "No."]
        for n in range(60)
    ]
    out = io.StringIO()
    writer = csv.writer(out, delimiter=mark, quoting=quoting, lineterminator="\n")
    writer.writerows([["id", "question", "answer"], *table])
    path = write(tmp_path, f"a.{ending}", out.getvalue())
    rows, bad = read(path)
    assert ([list(row.values()) for row in rows], bad) == (table, [])
    assert facts(path).multiline


def test_stray_quotes_join_no_lines(tmp_path: Path) -> None:
    lines = [f'{n}\t"What is {n}\tan answer of several words' for n in range(0, 90, 3)]
    path = write(tmp_path, "a.tsv", "id\tquestion\tanswer\n" + "\n".join(lines))
    rows, bad = read(path)
    assert (len(rows), bad) == (30, [])
    assert rows[1] == {"id": "3", "question": '"What is 3', "answer": "an answer of several words"}


def test_lines_of_prose_with_quotes_are_no_table(tmp_path: Path) -> None:
    lines = [f'"You are late; the {n} are gone," he said.\nNobody said a word.' for n in range(40)]
    assert facts(write(tmp_path, "a.txt", "\n".join(lines))).format == "text"


@pytest.mark.more
def test_a_table_of_too_many_columns_is_an_error(tmp_path: Path) -> None:
    """What is known of each column is held in memory."""
    path = tmp_path / "wide.csv"
    names = [f"c{number}" for number in range(100_001)]
    path.write_text("\n".join(",".join(row) for row in (names, ["x"] * 100_001, ["y"] * 100_001)))
    with pytest.raises(SourceError, match=r"100,001 columns; at most 100,000 are read"):
        open_source(str(path))


@pytest.mark.parametrize(
    "above",
    [
        "# made by x\n",
        "#made by x\n",
        "# export, of May, all\n\n",
        "// a\n// b; c\n",
        "Report of May, 2024\n\n",
        "\n\n",
    ],
)
@pytest.mark.parametrize("name", ["a.csv", "a.dat", "a.txt"])
def test_lines_above_a_header_are_no_rows(tmp_path: Path, above: str, name: str) -> None:
    rows = "".join(f"What is {n}?;The number {n};{n}\n" for n in range(30))
    source = open_source(write(tmp_path, name, f"{above}question;answer;n\n{rows}"))
    held = [row for batch in source.batches() for row in batch.values]
    assert (len(held), list(held[0])) == (30, ["question", "answer", "n"])


def test_a_header_that_begins_like_a_comment_stays_one(tmp_path: Path) -> None:
    rows = "".join(f"{n}\tsome words {n}\n" for n in range(30))
    source = open_source(write(tmp_path, "a.tsv", f"#id\ttext\n{rows}"))
    assert source.files[0].facts.columns == ("#id", "text")


@pytest.mark.parametrize(("name", "mark"), [("a.csv", "\t"), ("a.tsv", ","), ("a.tsv", ";")])
def test_the_ending_of_a_table_only_breaks_ties(tmp_path: Path, name: str, mark: str) -> None:
    rows = "".join(f'{n}{mark}"some words{mark} {n}"\n' for n in range(30))
    facts = open_source(write(tmp_path, name, f"id{mark}text\n{rows}")).files[0].facts
    assert (facts.delimiter, facts.columns) == (mark, ("id", "text"))


def test_lines_without_a_tab_are_text_whatever_their_ending(tmp_path: Path) -> None:
    lines = "".join(f"Well, this is line {n}, and it goes on.\n" for n in range(30))
    assert open_source(write(tmp_path, "a.tsv", lines)).files[0].facts.format == "text"
