"""Rows to texts, compared with the rules of the document on plain Python values."""

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.converters.megatron.options import BuildOptions
from ingot.converters.megatron.read import preparation, row_batches
from ingot.converters.megatron.read.input_files import InputKind, InputLayout
from ingot.converters.megatron.read.preparation import Preparer
from ingot.converters.megatron.read.row_batches import WHITE_SPACE, RowBatch
from ingot.converters.megatron.text import long_texts
from ingot.converters.megatron.text.documents import GOES_ON, NEW_DOCUMENT, Shard
from ingot.converters.megatron.text.long_texts import Cutter
from ingot.converters.megatron.tokenizer import load_tokenizer

LIMIT = 64  # characters in one piece


@pytest.fixture(scope="module")
def cutter(tokenizer_file: Path) -> Cutter:
    return Cutter(load_tokenizer(tokenizer_file), plain=False, limit=LIMIT, largest=2 * LIMIT)


@dataclass
class Taken:
    """What shards hold, put together again."""

    documents: list[tuple[int, list[str]]] = field(default_factory=list)
    tally: Counter[str] = field(default_factory=Counter)
    rejects: list[tuple[int, str]] = field(default_factory=list)
    read: int = 0


def taken(shards: Iterator[Shard]) -> Taken:
    found = Taken()
    long: tuple[int, list[str]] = (0, [])
    for shard in shards:
        found.tally.update(shard.tally)
        found.rejects += [(reject.row, reject.reason) for reject in shard.rejects]
        found.read += shard.read
        if shard.opens:
            long = (int(shard.rows[0]), [])
        kinds = [NEW_DOCUMENT] * len(shard.texts) if shard.kinds is None else shard.kinds.tolist()
        for row, kind, text in zip(shard.rows, kinds, shard.texts.to_pylist(), strict=False):
            if shard.long:
                put(long[1], kind, text)
            elif kind == NEW_DOCUMENT:
                found.documents.append((int(row), [text]))
            else:
                put(found.documents[-1][1], kind, text)
        if shard.closes and not shard.dropped:
            found.documents.append((long[0], long[1] or [""]))
    return found


def put(sequences: list[str], kind: int, text: str) -> None:
    if kind == GOES_ON:
        sequences[-1] += text
    else:
        sequences.append(text)


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


def model_limits(text: str, options: BuildOptions, tally: Counter[str]) -> list[str] | None:
    most = options.max_chars
    if len(text) < (options.min_chars or 0):
        tally["short"] += 1
        return None
    if most is None or len(text) <= most:
        return [text]
    tally[{"filter": "long", "truncate": "truncated", "split": "split"}[options.long_docs]] += 1
    if options.long_docs == "filter":
        return None
    if options.long_docs == "truncate":
        return [text[:most]]
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


def model(rows: list[list[bytes | None]], options: BuildOptions) -> Taken:
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
        sequences = model_limits(text, options, found.tally)
        if sequences is not None:
            found.documents.append((number, sequences))
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
    cutter: Cutter,
    rows: list[list[bytes | None]],
    options: BuildOptions,
    *,
    size: int = 1_000,
    shards: int = 1,
    kind: InputKind = "raw",
) -> Taken:
    width = len(rows[0]) if rows else 1
    layout = InputLayout(kind=kind, columns=tuple(str(i) for i in range(width)))
    preparer = Preparer(layout=layout, options=options, cutter=cutter, shards=shards)
    return taken(preparer.prepare("f", batches(rows, width, size)))


@given(
    rows=st.integers(1, 3).flatmap(
        lambda width: st.lists(st.lists(VALUE, min_size=width, max_size=width), max_size=8)
    ),
    options=some_options(),
    size=st.integers(1, 9),
    shards=st.integers(1, 4),
    apart=st.sampled_from([preparation.APART_BYTES, 100]),
)
def test_texts_are_those_of_the_rules_whatever_the_batches(
    cutter: Cutter,
    rows: list[list[bytes | None]],
    options: BuildOptions,
    size: int,
    shards: int,
    apart: int,
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(preparation, "APART_BYTES", apart)
        patched.setattr(row_batches, "_WINDOW", 7)
        found = prepared(cutter, rows, options, size=size, shards=shards)
    expected = model(rows, options)
    assert found.documents == expected.documents
    assert found.rejects == expected.rejects
    assert +found.tally == +expected.tally
    assert found.read == len(rows)


def test_every_row_is_accounted_for(cutter: Cutter) -> None:
    values = [None, b"", b"  ", b"\xff", b"short", b"just right", b"much too long for it" * 9]
    found = prepared(cutter, [[value] for value in values], BuildOptions(min_chars=6, max_chars=20))
    tally = found.tally
    assert (tally["rows"], tally["short"], tally["long"], tally["rejected"]) == (7, 4, 1, 1)
    assert tally["rows"] == len(found.documents) + 6


def test_white_space_is_what_str_strip_takes_off(cutter: Cutter) -> None:
    assert set(WHITE_SPACE) == {c for c in map(chr, range(sys.maxunicode + 1)) if c.isspace()}
    assert len(WHITE_SPACE) == 29
    around = WHITE_SPACE + "a" + WHITE_SPACE + "b\u200b" + WHITE_SPACE
    found = prepared(cutter, [[around.encode()]], BuildOptions())
    assert found.documents == [(0, [around.strip()])]


def test_texts_of_unified_records_are_not_stripped(cutter: Cutter) -> None:
    found = prepared(cutter, [[b" a \n"]], BuildOptions(), kind="pt")
    assert found.documents == [(0, [" a \n"])]


def test_a_reject_behind_a_long_text_stays_in_order(cutter: Cutter) -> None:
    uncuttable = b"x" * (3 * LIMIT)
    rows: list[list[bytes | None]] = [[b"a"], [b"\xff"], [uncuttable], [b"b"], [b"\xfe"]]
    found = prepared(cutter, rows, BuildOptions())
    assert [row for row, _ in found.rejects] == [1, 2, 4]
    assert found.rejects[1][1] == long_texts.UNCUTTABLE_REASON
    assert [row for row, _ in found.documents] == [0, 3]


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
def test_texts_come_in_every_type(cutter: Cutter, column: pa.Array) -> None:
    assert of_column(cutter, column) == [(0, ["a"]), (1, [""]), (2, ["床"])]


def of_column(cutter: Cutter, column: pa.Array) -> list[tuple[int, list[str]]]:
    layout = InputLayout(kind="raw", columns=("t",))
    preparer = Preparer(layout=layout, options=BuildOptions(), cutter=cutter)
    table = pa.record_batch([column], names=["t"])
    rows: list[RowBatch] = [RowBatch(first=0, table=table, row_group=0, read=0)]
    return taken(preparer.prepare("f", rows)).documents


def test_a_column_of_nothing_but_nulls_is_empty_texts(cutter: Cutter) -> None:
    assert of_column(cutter, pa.nulls(2)) == [(0, [""]), (1, [""])]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.binary()])
def test_bad_utf8_in_any_type_is_a_reject_of_its_row(cutter: Cutter, kind: Any) -> None:
    binary = pa.array([b"good", b"bad \xed\xa0\x80", b"\xff" * 300])
    column = binary.cast(kind, safe=False) if kind != pa.string_view() else binary
    layout = InputLayout(kind="raw", columns=("t",))
    preparer = Preparer(layout=layout, options=BuildOptions(), cutter=cutter)
    rows = RowBatch(first=5, table=pa.record_batch([column], names=["t"]), row_group=0, read=0)
    shards = list(preparer.prepare("f", [rows]))
    rejects = [reject for shard in shards for reject in shard.rejects]
    assert [(reject.file, reject.row) for reject in rejects] == [("f", 6), ("f", 7)]
    assert rejects[0].found == r"byte 4: b'bad \xed\xa0\x80'"
    assert len(str(rejects[1].found)) < 500
    assert taken(iter(shards)).documents == [(5, ["good"])]
