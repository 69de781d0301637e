"""Rows to texts, compared with the rules of the document on plain Python values."""

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.converters.megatron.documents import NEW_DOCUMENT, Shard
from ingot.converters.megatron.options import BuildOptions, LongDocs
from ingot.converters.megatron.read import preparation, row_batches
from ingot.converters.megatron.read.input_files import InputKind, InputLayout
from ingot.converters.megatron.read.preparation import LARGEST_TEXT, Preparer
from ingot.converters.megatron.read.row_batches import WHITE_SPACE, RowBatch


@dataclass
class Taken:
    """What shards hold, put together again."""

    documents: list[tuple[int, list[str]]] = field(default_factory=list)
    tally: Counter[str] = field(default_factory=Counter)
    rejects: list[tuple[int, str]] = field(default_factory=list)
    read: int = 0


def taken(shards: Iterator[Shard]) -> Taken:
    found = Taken()
    for shard in shards:
        found.tally.update(shard.tally)
        found.rejects += [(reject.row, reject.reason) for reject in shard.rejects]
        found.read += shard.read
        kinds = [NEW_DOCUMENT] * len(shard.texts) if shard.kinds is None else shard.kinds.tolist()
        for row, kind, text in zip(shard.rows, kinds, shard.texts.to_pylist(), strict=True):
            if kind == NEW_DOCUMENT:
                found.documents.append((int(row), [text]))
            else:
                found.documents[-1][1].append(text)
    return found


def model_row(values: list[bytes | None], options: BuildOptions) -> str | None:
    """The text of a row; None where a value is no UTF-8."""
    parts = []
    for value in values:
        try:
            text = "" if value is None else value.decode()
        except UnicodeDecodeError:
            return None
        parts.append(text.strip() if options.strip else text)
    return options.concat_sep.join(filter(None, parts))


def model_limits(
    text: str, options: BuildOptions, tally: Counter[str], largest: int
) -> list[str] | None:
    most = options.max_chars
    if len(text) < (options.min_chars or 0):
        tally["short"] += 1
        return None
    over = most is not None and len(text) > most
    if over and options.long_docs == "filter":
        tally["long"] += 1
        return None
    if over and options.long_docs == "truncate":
        text = text[:most]
    if len(text.encode()) > largest:
        tally["rejected"] += 1
        return None
    if not over or most is None:
        return [text]
    tally["truncated" if options.long_docs == "truncate" else "split"] += 1
    parts = []
    while len(text) > most:
        end = model_end(text, most)
        parts.append(text[:end])
        text = text[end:]
    return [*parts, text]


def model_end(text: str, most: int) -> int:
    """Behind the last line break of the second half, or the last white space, or at the limit."""
    half = range(most // 2, most)
    lines = [i + 1 for i in half if text[i] == "\n"]
    spaces = [i + 1 for i in half if text[i].isspace()]
    return (lines or spaces or [most])[-1]


def model(rows: list[list[bytes | None]], options: BuildOptions, largest: int) -> Taken:
    found = Taken()
    texts = []
    for number, values in enumerate(rows):
        text = model_row(values, options)
        found.tally["rows"] += 1
        found.tally["null"] += all(value is None for value in values)
        if text is None:
            found.tally["rejected"] += 1
            found.rejects.append((number, "bad_utf8"))
        else:
            texts.append((number, text))
    if options.doc_boundary == "file":
        texts = [(0, options.concat_sep.join(text for _, text in texts if text))]
    for number, text in texts:
        before = found.tally["rejected"]
        sequences = model_limits(text, options, found.tally, largest)
        if sequences is not None:
            found.documents.append((number, sequences))
        elif found.tally["rejected"] > before:
            found.rejects.append((number, "too_long"))
    if options.doc_boundary == "row":
        found.rejects.sort()
    return found


ALPHABET = st.sampled_from([*"ab1.", " ", "\n", "\t", "\u3000", "\x1f", "床", "é", "😀", "\x00"])
TEXT = st.text(ALPHABET, max_size=40).map(str.encode)
LONG = st.lists(st.sampled_from([b"word ", b"x\n", "床前 ".encode()]), min_size=30, max_size=90)
BAD = st.sampled_from([b"a\xff", b"\xed\xa0\x80", b"ok \xc0\x80", b"\xf4\x90\x80\x80", b"\xe5\xba"])
VALUE = st.one_of(st.none(), TEXT, TEXT, LONG.map(b"".join), BAD)


@st.composite
def some_options(draw: st.DrawFn) -> BuildOptions:
    least = draw(st.none() | st.integers(0, 30))
    return BuildOptions(
        doc_boundary=draw(st.sampled_from(["row", "file"])),
        concat_sep=draw(st.sampled_from(["\n", "", " | ", "床"])),
        strip=draw(st.booleans()),
        min_chars=least,
        max_chars=draw(st.none() | st.integers(max(1, least or 0), 150)),
        long_docs=draw(st.sampled_from(["filter", "truncate", "split"])),
    )


def batches(rows: list[list[bytes | None]], width: int, size: int) -> Iterator[RowBatch]:
    for first in range(0, len(rows), size):
        some = rows[first : first + size]
        arrays = [pa.array([row[i] for row in some], pa.binary()) for i in range(width)]
        table = pa.record_batch(arrays, names=[str(i) for i in range(width)])
        yield RowBatch(first=first, table=table, row_group=0, read=len(some))


def prepared(
    rows: list[list[bytes | None]],
    options: BuildOptions,
    *,
    size: int = 1_000,
    shards: int = 1,
    kind: InputKind = "raw",
) -> Taken:
    width = len(rows[0]) if rows else 1
    layout = InputLayout(kind=kind, columns=tuple(str(i) for i in range(width)))
    preparer = Preparer(layout=layout, options=options, shards=shards)
    return taken(preparer.prepare("f", batches(rows, width, size)))


@pytest.mark.more
@given(
    rows=st.integers(1, 3).flatmap(
        lambda width: st.lists(st.lists(VALUE, min_size=width, max_size=width), max_size=8)
    ),
    options=some_options(),
    size=st.integers(1, 9),
    shards=st.integers(1, 4),
    apart=st.sampled_from([preparation.APART_BYTES, 100]),
    largest=st.sampled_from([LARGEST_TEXT, 120]),
)
def test_texts_are_those_of_the_rules_whatever_the_batches(
    rows: list[list[bytes | None]],
    options: BuildOptions,
    size: int,
    shards: int,
    apart: int,
    largest: int,
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(preparation, "APART_BYTES", apart)
        patched.setattr(preparation, "LARGEST_TEXT", largest)
        patched.setattr(row_batches, "_WINDOW", 7)
        found = prepared(rows, options, size=size, shards=shards)
    expected = model(rows, options, largest)
    assert found.documents == expected.documents
    assert found.rejects == expected.rejects
    assert +found.tally == +expected.tally
    assert found.read == len(rows)


def test_every_row_is_accounted_for() -> None:
    values = [None, b"", b"  ", b"\xff", b"short", b"just right", b"much too long for it" * 9]
    found = prepared([[value] for value in values], BuildOptions(min_chars=6, max_chars=20))
    tally = found.tally
    assert (tally["rows"], tally["short"], tally["long"], tally["rejected"]) == (7, 4, 1, 1)
    assert tally["rows"] == len(found.documents) + 6


def test_white_space_is_what_str_strip_takes_off() -> None:
    assert set(WHITE_SPACE) == {c for c in map(chr, range(sys.maxunicode + 1)) if c.isspace()}
    assert len(WHITE_SPACE) == 29
    around = WHITE_SPACE + "a" + WHITE_SPACE + "b\u200b" + WHITE_SPACE
    found = prepared([[around.encode()]], BuildOptions())
    assert found.documents == [(0, [around.strip()])]


def test_texts_of_unified_records_are_not_stripped() -> None:
    found = prepared([[b" a \n"]], BuildOptions(), kind="pt")
    assert found.documents == [(0, [" a \n"])]


def test_a_text_that_is_too_long_is_a_reject_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparation, "LARGEST_TEXT", 9)
    texts = [b"a", b"\xff", b"x" * 10, b"x" * 9, b"\xfe", "床前明月".encode()]
    rows: list[list[bytes | None]] = [[text] for text in texts]
    found = prepared(rows, BuildOptions())
    assert found.rejects == [(1, "bad_utf8"), (2, "too_long"), (4, "bad_utf8"), (5, "too_long")]
    assert [row for row, _ in found.documents] == [0, 3]
    assert (found.tally["rows"], found.tally["rejected"]) == (6, 4)


def test_what_is_said_of_a_text_that_is_too_long() -> None:
    text = "x" * (LARGEST_TEXT + 1)
    table = pa.record_batch([pa.array(["a", text])], names=["t"])
    preparer = Preparer(layout=InputLayout(kind="raw", columns=("t",)), options=BuildOptions())
    shards = preparer.prepare("f", [RowBatch(first=5, table=table, row_group=0, read=0)])
    (reject,) = [reject for shard in shards for reject in shard.rejects]
    assert (reject.file, reject.row, reject.reason) == ("f", 6, "too_long")
    assert reject.found == "more than 67,108,864 bytes of text: split it into documents first"


def test_a_limit_in_characters_comes_before_the_largest_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(preparation, "LARGEST_TEXT", 9)
    rows: list[list[bytes | None]] = [[b"x" * 20]]
    cases: list[tuple[LongDocs, str, list[str] | None]] = [
        ("filter", "long", None),
        ("truncate", "truncated", ["xxxxx"]),
        ("split", "rejected", None),
    ]
    for boundary in ("row", "file"):
        for way, counted, sequences in cases:
            options = BuildOptions(doc_boundary=boundary, max_chars=5, long_docs=way)
            found = prepared(rows, options)
            assert found.documents == ([] if sequences is None else [(0, sequences)])
            assert +found.tally == Counter({"rows": 1, counted: 1})


def test_a_file_that_is_too_long_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparation, "LARGEST_TEXT", 9)
    held: list[int] = []
    join = preparation._join_texts

    def watch(parts: list[pa.LargeStringArray], separator: str) -> pa.LargeStringArray:
        held.append(sum(map(len, parts)))
        return join(parts, separator)

    monkeypatch.setattr(preparation, "_join_texts", watch)
    rows: list[list[bytes | None]] = [[b"word"]] * 50
    found = prepared(rows, BuildOptions(doc_boundary="file"), size=1)
    assert found.rejects == [(0, "too_long")]
    assert (found.tally["rows"], found.read, held) == (50, 50, [3])


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a ", None, "床"]),
        pa.array(["a ", None, "床"], pa.large_string()),
        pa.array(["a ", None, "床"], pa.string_view()),
        pa.array([b"a ", None, "床".encode()], pa.large_binary()),
        pa.array([b"a ", None, "床".encode()], pa.binary_view()),
        pa.array(["a ", None, "床"]).dictionary_encode(),
        pa.array([b"a ", None, "床".encode()]).dictionary_encode(),
        pa.array(["no", "a ", None, "床", "no"]).slice(1, 3),
    ],
    ids=lambda column: str(column.type).partition("<")[0],
)
def test_texts_come_in_every_type(column: pa.Array) -> None:
    assert of_column(column) == [(0, ["a"]), (1, [""]), (2, ["床"])]


def of_column(column: pa.Array) -> list[tuple[int, list[str]]]:
    layout = InputLayout(kind="raw", columns=("t",))
    preparer = Preparer(layout=layout, options=BuildOptions())
    table = pa.record_batch([column], names=["t"])
    rows: list[RowBatch] = [RowBatch(first=0, table=table, row_group=0, read=0)]
    return taken(preparer.prepare("f", rows)).documents


def test_a_column_of_nothing_but_nulls_is_empty_texts() -> None:
    assert of_column(pa.nulls(2)) == [(0, [""]), (1, [""])]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.binary()])
def test_bad_utf8_in_any_type_is_a_reject_of_its_row(kind: Any) -> None:
    binary = pa.array([b"good", b"bad \xed\xa0\x80", b"\xff" * 300])
    column = binary.cast(kind, safe=False) if kind != pa.string_view() else binary
    layout = InputLayout(kind="raw", columns=("t",))
    preparer = Preparer(layout=layout, options=BuildOptions())
    rows = RowBatch(first=5, table=pa.record_batch([column], names=["t"]), row_group=0, read=0)
    shards = list(preparer.prepare("f", [rows]))
    rejects = [reject for shard in shards for reject in shard.rejects]
    assert [(reject.file, reject.row) for reject in rejects] == [("f", 6), ("f", 7)]
    assert rejects[0].found == r"byte 4: b'bad \xed\xa0\x80'"
    assert len(str(rejects[1].found)) < 500
    assert taken(iter(shards)).documents == [(5, ["good"])]
