"""The Arrow executor: what it carries, and that it means what the row executor means."""

import datetime as dt
import decimal
import json
import subprocess
import sys
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, event, given, settings

from ingot.converters.convert.job import ConvertOptions, convert
from ingot.converters.mapping.bind import bind
from ingot.converters.mapping.columns import executor, frame
from ingot.converters.mapping.columns.executor import (
    ColumnExecutor,
    MappingExecutor,
    UnifiedTable,
    why_not_columnar,
)
from ingot.converters.mapping.columns.frame import blank_mask
from ingot.converters.mapping.rows import executor as row_executor
from ingot.converters.mapping.rows.executor import RowExecutor, UnifiedBatch
from ingot.converters.mapping.rows.values import is_blank
from ingot.converters.records import writers
from ingot.converters.records.schema import to_batch
from ingot.converters.records.writers import RecordWriter
from ingot.converters.rows import BadRow, Batch
from ingot.converters.sources import open_source
from ingot.converters.sources.formats.arrow import batch_rows, make_lazy_rows

Document = dict[str, Any]

# --- random tables and mappings

TEXTS = st.one_of(
    st.sampled_from(["word", "two words", "end\n", None]),
    st.sampled_from(["", " ", "\n\t", "\u3000", "\u00a0\u2003", "a", " b ", "5", " 0.5 ", "1e3"]),
    st.sampled_from(["user", "assistant", "human", "gpt", "thought", "system", "en", "中文", "😀"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
)
INTEGERS = st.one_of(st.none(), st.sampled_from([0, 1, -3, 2**53 + 1, 2**63 - 1, -(2**63)]))
FLOATS = st.one_of(
    st.none(),
    st.sampled_from([0.0, -0.0, 1.0, 0.1, 1e16, 1e22, 5e-324, 0.5, float("nan"), float("inf")]),
    st.floats(),
)
DAYS = st.sampled_from([dt.datetime(2024, 2, 29, 12, 30), dt.datetime(1969, 12, 31, 23)])
TEXT_TYPES = (
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.dictionary(pa.int8(), pa.string()),
)
SCALARS: tuple[tuple[tuple[pa.DataType, ...], st.SearchStrategy[Any]], ...] = (
    (TEXT_TYPES, TEXTS),
    ((pa.int64(),), INTEGERS),
    ((pa.uint64(),), st.one_of(st.none(), st.sampled_from([0, 1, 2**63, 2**64 - 1]))),
    ((pa.int8(),), st.one_of(st.none(), st.integers(-128, 127))),
    ((pa.float64(), pa.float32(), pa.float16()), FLOATS),
    ((pa.bool_(),), st.sampled_from([None, True, False])),
    ((pa.null(),), st.none()),
    ((pa.timestamp("ms"), pa.timestamp("us", "UTC")), st.one_of(st.none(), DAYS)),
    ((pa.date32(),), st.one_of(st.none(), DAYS.map(dt.datetime.date))),
)
ROLE_TEXTS = st.sampled_from(["human", "gpt", "user", "assistant"] * 4 + ["thought", None, "x"])
NAMES = ("a", "b", "c", "meta.lang", "s")
TURN_TYPES = st.sampled_from(
    [
        pa.struct([("from", pa.string()), ("value", pa.string()), ("other", pa.string())]),
        pa.struct([("from", pa.string()), ("value", pa.large_string())]),
        pa.struct([("value", pa.int64()), ("from", TEXT_TYPES[3])]),
        pa.struct([("value", pa.string_view()), ("from", pa.string())]),
    ]
)


@st.composite
def scalar_columns(draw: st.DrawFn, size: int) -> pa.Array:
    types, values = draw(st.sampled_from(SCALARS))
    kind = draw(st.sampled_from(types))
    found = draw(st.lists(values, min_size=size, max_size=size))
    return column(found, kind)


def column(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    if pa.types.is_floating(kind):
        return pa.array(values, pa.float64()).cast(kind, safe=False)
    if pa.types.is_string_view(kind):
        return pa.array(values, pa.string()).cast(kind)
    return pa.array(values, kind)


@st.composite
def struct_columns(draw: st.DrawFn, size: int) -> pa.Array:
    names = ["lang", "a", "deep"]
    children = [draw(scalar_columns(size)) for _ in names]
    inner = pa.StructArray.from_arrays(children[:2], ["lang", "x.y"])
    gone = pa.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)), pa.bool_())
    return pa.StructArray.from_arrays([*children[:2], inner], names, mask=gone)


@st.composite
def list_columns(draw: st.DrawFn, size: int) -> pa.Array:
    kind = draw(TURN_TYPES)
    lengths = draw(st.lists(st.none() | st.integers(0, 4), min_size=size, max_size=size))
    count = sum(length or 0 for length in lengths)
    said = [TEXTS if child.name == "value" else ROLE_TEXTS for child in kind]
    said = [INTEGERS if pa.types.is_integer(c.type) else s for c, s in zip(kind, said, strict=True)]
    children = [
        column(draw(st.lists(texts, min_size=count, max_size=count)), child.type)
        for texts, child in zip(said, kind, strict=True)
    ]
    gone = draw(st.lists(st.sampled_from([False] * 9 + [True]), min_size=count, max_size=count))
    mask = pa.array(gone, pa.bool_())
    elements = pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    offsets = np.cumsum([0, *(length or 0 for length in lengths)])
    null = pa.array([length is None for length in lengths], pa.bool_())
    if draw(st.booleans()):
        return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), elements, mask=null)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), elements, mask=null)


@st.composite
def nested_values(draw: st.DrawFn, size: int, odd: float = 0.0) -> list[Any]:
    """Lists of contexts with questions, each with options and an answer among them."""

    def some(values: st.SearchStrategy[Any], most: int) -> list[Any] | None:
        return draw(st.lists(values, max_size=most) | (st.none() if most else st.nothing()))

    def rarely(value: Any) -> Any:
        return draw(ODD) if odd and draw(st.floats(0, 1)) < odd else value

    def question() -> Any:
        return {
            "q": draw(TEXTS),
            "opts": some(TEXTS, 3),
            "pick": rarely(draw(st.sampled_from(["A", "b", "C", "1", "", None, "A", "B"]))),
            "place": rarely(draw(st.sampled_from([0, 1, 1, 2, None]))),
            "said": draw(TRANSCRIPTS),
            "trained": rarely(draw(st.sampled_from([True, False, None]))),
        }

    def context() -> Any:
        count = draw(st.integers(0, 3))
        asked = [rarely(question()) for _ in range(count)]
        return {"context": draw(TEXTS), "qas": asked if count < 3 else None}

    counts = draw(st.lists(st.integers(0, 2), min_size=size, max_size=size))
    return [[rarely(context()) for _ in range(count)] for count in counts]


QUESTION_TYPE = pa.struct(
    [
        ("q", pa.string()),
        ("opts", pa.list_(pa.string())),
        ("pick", pa.string()),
        ("place", pa.int64()),
        ("said", pa.string()),
        ("trained", pa.bool_()),
    ]
)
NESTED_TYPE = pa.list_(pa.struct([("context", pa.string()), ("qas", pa.list_(QUESTION_TYPE))]))
TRANSCRIPTS = st.lists(
    st.sampled_from(
        [
            "\n\nQ:",
            "\n\nA:",
            "Q:",
            " A:",
            " hi ",
            "ho",
            "\n",
            "\n\nNote:",
            "\u3000",
            "\n\nQ: x",
            "N",
        ]
    ),
    max_size=6,
).map(lambda pieces: "".join(["Q:", *pieces] if len(pieces) % 4 else pieces))


@st.composite
def tables(draw: st.DrawFn) -> pa.RecordBatch:
    size = draw(st.sampled_from([5, 8, 3, 1, 0]))
    columns = {name: draw(scalar_columns(size)) for name in NAMES[:4] if draw(st.booleans())}
    columns["meta"] = draw(struct_columns(size))
    columns["turns"] = draw(list_columns(size))
    columns["texts"] = pa.array(
        draw(st.lists(st.lists(TEXTS, max_size=3) | st.none(), min_size=size, max_size=size)),
        pa.list_(pa.string()),
    )
    columns["nest"] = pa.array(draw(nested_values(size)), NESTED_TYPE)
    table = pa.RecordBatch.from_pydict(columns)
    return table.slice(draw(st.sampled_from([0, 0, 1, 2])), draw(st.sampled_from([9, 9, 3, 1])))


PATHS = st.sampled_from(
    [
        *("a", "b", "c", "['meta.lang']", "meta.lang", "meta.deep.x.y", "meta.deep.lang"),
        *("a", "b", "missing", "meta.missing", "texts[0]", "texts[-1]", "turns[1].value"),
        *("a.b", "a[0]", "meta.a", "@file"),
    ]
)
LITERALS = st.sampled_from(["lit", " ", "中", "0.5"]).map(lambda text: {"literal": text})
MODIFIERS = st.fixed_dictionaries(
    {},
    optional={
        "sep": st.sampled_from(["", " ", "; "]),
        "label": st.sampled_from(["A. ", "(1) ", "a"]),
        "replace": st.sampled_from([{"word": "w"}, {"a": "b", "wo": "", "word": "-"}]),
        "as": st.just("json"),
        "map": st.sampled_from(
            [{"*": "x"}, {"word": "w", "*": None}, {"a": 1, "5": True, "*": ""}, {"word": "w"}]
        ),
    },
)


def templates(paths: st.SearchStrategy[str]) -> st.SearchStrategy[Document]:
    return st.tuples(paths, paths).map(
        lambda two: {"template": f"<{{{{{two[0]}}}}}|{{{{{two[1]}}}}}>"}
    )


def values_at(
    paths: st.SearchStrategy[str], lists: st.SearchStrategy[str], inner: st.SearchStrategy[str]
) -> st.SearchStrategy[Any]:
    """Values of paths, and of hits of paths with lists or of elements of an `each`."""
    one = st.one_of(paths, paths, LITERALS, templates(paths))
    several = st.one_of(
        st.builds(lambda p, m: {"path": p, **m}, lists, MODIFIERS),
        st.builds(lambda p, m: {"path": p, **m}, paths, MODIFIERS),
        st.builds(
            lambda v, m: {"concat": v, **m}, st.lists(one, min_size=1, max_size=3), MODIFIERS
        ),
        st.builds(
            lambda e, v, m: {
                "each": e,
                **({"path": v} if isinstance(v, str) else v),
                **m,
            },
            st.sampled_from(["turns[*]", "nest[*].qas[*]"]),
            st.one_of(inner, templates(inner)),
            MODIFIERS,
        ),
        st.builds(
            lambda p, c, n, m: {"path": p, "pick": {"path": c, "from": n} if n else c, **m},
            lists,
            paths,
            st.sampled_from([0, 1]),
            MODIFIERS,
        ),
    )
    leaves = st.one_of(one, one, several)
    return st.recursive(
        st.one_of(leaves, st.lists(leaves, min_size=2, max_size=2).map(lambda v: {"any_of": v})),
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3),
            st.tuples(
                st.lists(inner, min_size=1, max_size=3), st.sampled_from(["", " ", "--"])
            ).map(lambda both: {"concat": both[0], "sep": both[1]}),
        ),
        max_leaves=4,
    )


TEMPLATES = templates(PATHS)
VALUES = values_at(
    PATHS,
    st.sampled_from(["texts[*]", "turns[*].value", "nest[*].qas[*].q", "nest[0].qas[*].opts[*]"]),
    st.sampled_from(["value", "q", "^.a", "^.context", "$", "missing"]),
)
WANTED = st.lists(
    st.sampled_from(["a", "en", "5", "", 0, 1, 1.0, 0.1, 2**53, 2.0**53, 1e300, True, False, None]),
    min_size=1,
    max_size=3,
)


def conditions(paths: st.SearchStrategy[str]) -> st.SearchStrategy[Document]:
    return st.one_of(
        st.builds(lambda p, v: {"path": p, "in": v}, paths, WANTED),
        st.builds(lambda p, v: {"path": p, "not_in": v}, paths, WANTED),
        st.builds(lambda p, n: {"path": p, "min_chars": n}, paths, st.integers(0, 3)),
        st.builds(lambda p, n: {"path": p, "max_chars": n}, paths, st.integers(0, 6)),
    )


CONDITIONS = conditions(PATHS)
META = st.fixed_dictionaries(
    {},
    optional={
        "source": VALUES,
        "language": st.one_of(PATHS, LITERALS),
        "timestamp": PATHS,
        "original_id": VALUES,
        "token_count": st.one_of(PATHS, LITERALS, TEMPLATES),
        "quality_score": st.one_of(PATHS, LITERALS),
    },
)
FIXED_ROLES = st.sampled_from(["user", "assistant", "user", "assistant", "system", "tool"])
ROLE_MAP = {"human": "user", "gpt": "assistant", "thought": None, "user": "user", "a": "system"}
OTHER_MAP = {"gpt": "assistant", "thought": None, "*": "user"}
DATA_ROLES = st.sampled_from(
    [
        {"path": "from", "map": ROLE_MAP},
        {"path": "from"},
        {"path": "from", "map": OTHER_MAP},
        {"path": "from", "order": ["user", "assistant", "tool"]},
    ]
)
LOSS_MASKS = st.sampled_from([None, None, True, False])


@st.composite
def entries(draw: st.DrawFn) -> Document:
    entry: Document
    match draw(st.sampled_from(["row", "row", "turns", "turns", "texts", "split"])):
        case "split":
            where = draw(st.sampled_from([("nest[0].qas[*]", "said"), ("nest[*].qas[*]", "said")]))
            entry = {"each": where[0], "role": SPLIT, "content": where[1]}
        case "row":
            entry = {"role": draw(FIXED_ROLES), "content": draw(st.one_of(st.none(), VALUES))}
        case "turns":
            role = draw(st.one_of(DATA_ROLES, DATA_ROLES, FIXED_ROLES))
            content = draw(st.sampled_from(["value", "value", ["value", "other"], "from", None]))
            entry = {"each": "turns[*]", "role": role, "content": content}
        case _:
            entry = {"each": "texts[*]", "role": ["user", "assistant"], "content": "$"}
    if draw(st.sampled_from([False, False, True])):
        inner = st.sampled_from(["value", "from", "$", "missing", "a"])
        entry["where"] = draw(st.lists(conditions(inner), min_size=1, max_size=2))
    mask = draw(LOSS_MASKS)
    return entry if mask is None else {**entry, "loss_mask": mask}


# Elements that are records: the lists, what stands at an element, and what has several hits there.
RECORDS: dict[str, tuple[list[str], list[str]]] = {
    "turns[*]": (["value", "from", "^.a", "^.b", "^.meta.lang", "^.^.a", "@file"], ["value"]),
    "texts[*]": (["$", "$", "^.a", "^.meta.deep.x.y"], ["$"]),
    "nest[*]": (["context", "qas[0].q", "^.a", "^.c"], ["qas[*].q", "qas[*].opts[*]"]),
    "nest[*].qas[*]": (
        ["q", "q", "said", "opts[0]", "place", "^.context", "^.^.a", "^.^.meta.lang", "^.^.^.a"],
        ["opts[*]", "opts[*]"],
    ),
}
SPLIT = {"split": {"\n\nQ:": "user", "\n\nA:": "assistant", "\n\nNote:": None, "N": "system"}}


@st.composite
def element_documents(draw: st.DrawFn) -> Document:
    """Mappings in which the elements of a list are records."""
    each = draw(st.sampled_from([*RECORDS]))
    paths, lists = map(st.sampled_from, RECORDS[each])
    values = values_at(paths, lists, st.sampled_from(["$", "q", "^.context"]))
    document: Document = {"version": 2, "each": each, "meta": {"original_id": draw(values)}}
    if draw(st.sampled_from([False, False, True])):
        document["where"] = draw(st.lists(conditions(paths), min_size=1, max_size=2))
    if draw(st.sampled_from([False, False, True])):
        return {**document, "text": draw(values)}
    asked: Document = {"role": "user", "content": draw(values)}
    answer: Document = {"role": "assistant", "content": ["^.context", {"literal": "r"}]}
    messages = [asked, answer]
    if each == "nest[*]":
        turns = {"each": "qas[*]", "role": ["user", "assistant"], "content": ["^.context", "q"]}
        messages.insert(draw(st.integers(0, 2)), turns)
    if each == "nest[*].qas[*]":
        chosen = draw(st.sampled_from(["pick", "place", {"path": "place", "from": 1}]))
        picked = {"path": "opts[*]", "pick": chosen, "label": "A. "}
        other = [
            {"role": SPLIT, "content": "said"},
            {"role": "assistant", "content": picked, "loss_mask": draw(TRAINED)},
        ]
        messages[draw(st.integers(0, 2)) : 1] = draw(st.lists(st.sampled_from(other), max_size=2))
    return {**document, "messages": messages, "system": draw(values)}


TRAINED = st.sampled_from(["trained", "place", "pick", True])


@st.composite
def documents(draw: st.DrawFn) -> Document:
    if draw(st.sampled_from([False, True])):
        return draw(element_documents())
    document: Document = {"version": 2, "meta": draw(META)}
    if draw(st.sampled_from([False, False, True])):
        document["where"] = draw(st.lists(CONDITIONS, min_size=1, max_size=2))
    if draw(st.booleans()):
        return {**document, "text": draw(VALUES)}
    document["messages"] = draw(st.lists(entries(), min_size=1, max_size=4))
    if draw(st.booleans()):  # so that more rows are conversations
        question, answer = {"literal": "q"}, {"any_of": ["a", {"literal": "r"}]}
        document["messages"].insert(0, {"role": "user", "content": question})
        document["messages"].append({"role": "assistant", "content": answer})
    for key in ("system", "tools"):
        if draw(st.booleans()):
            document[key] = draw(VALUES)
    return document


# --- the same by both


def batch_of(table: pa.RecordBatch, bad: tuple[BadRow, ...] = (), lazy: bool = False) -> Batch:
    """A batch as readers make it: rows and table, or (`lazy`) rows that wait in the table."""
    names = table.schema.names
    values: Any = batch_rows(table, names)[0]
    if lazy and (found := make_lazy_rows(table, names)):
        values, table = found
    numbers = range(10, 10 + table.num_rows)
    return Batch(file="f.parquet", rows=numbers, values=values, bad=bad, table=table)


def joined(parts: Iterable[UnifiedBatch | UnifiedTable], kind: Any) -> UnifiedTable:
    """The parts of a batch as one result with a table."""
    made = [p if isinstance(p, UnifiedTable) else executor._to_table(p, kind, "t") for p in parts]
    return executor._join_results(made)


def both(document: Document, table: pa.RecordBatch, **options: Any) -> UnifiedTable:
    """Run both executors, hold them equal, and give the result."""
    mapping = bind(document)
    batch = batch_of(table, **options)
    by_rows = RowExecutor(mapping, source_name="set", language="xx")
    wanted = by_rows.batch(batch)
    by_columns = ColumnExecutor(
        RowExecutor(mapping, source_name="set", language="xx"), batch.table.schema
    )
    kind = "pt" if mapping.kind == "pt" else "sft"
    made = joined(by_columns.parts(batch), kind)
    made.table.validate(full=True)
    assert made.table.equals(to_batch(wanted.records, kind, where="test"), check_metadata=True)
    assert made.rejects == wanted.rejects
    for count in ("converted", "rejected", "filtered", "ragged", "meta_failures", "written"):
        assert getattr(made, count) == getattr(wanted, count), count
    assert by_columns.stats.counts == by_rows.stats.counts
    return made


def same_by_both(table: pa.RecordBatch, document: Document, lazy: bool) -> None:
    reason = why_not_columnar(bind(document), table.schema)
    event("carried" if reason is None else reason)
    if reason is None:
        made = both(document, table, lazy=lazy)
        event(f"records: {min(made.converted, 2)}, rejects: {min(len(made.rejects), 2)}")


@pytest.mark.more
@settings(max_examples=150)
@given(tables(), documents(), st.booleans())
def test_both_executors_have_one_meaning(
    table: pa.RecordBatch, document: Document, lazy: bool
) -> None:
    same_by_both(table, document, lazy)


@pytest.mark.long
@settings(max_examples=4_000, derandomize=False, suppress_health_check=list(HealthCheck))
@given(tables(), documents(), st.booleans())
def test_both_executors_have_one_meaning_in_many_more_cases(
    table: pa.RecordBatch, document: Document, lazy: bool
) -> None:
    same_by_both(table, document, lazy)


# --- rows of JSON

ODD = st.sampled_from([None, "text", 5, 0.5, True, [], {}, ["x"], {"a": "b"}, 2**70, {"lang": 1}])
KINDS = (
    TEXTS,
    TEXTS,
    st.sampled_from([None, 0, 7, -3]),
    st.sampled_from([0.5, 1e22]),
    st.booleans(),
)


@st.composite
def json_values(draw: st.DrawFn, size: int, odd: float) -> list[Any]:
    """Values of one place: of one kind, now and then another one."""
    kind = draw(st.sampled_from(KINDS))
    return [draw(ODD) if draw(st.floats(0, 1)) < odd else draw(kind) for _ in range(size)]


@st.composite
def json_rows(draw: st.DrawFn) -> list[Any]:
    """Rows whose places are of one kind but for a few, and in which some keys are missing."""
    size = draw(st.sampled_from([6, 3, 1]))
    odd, gone = draw(st.sampled_from([0.0, 0.0, 0.05])), draw(st.sampled_from([0.0, 0.0, 0.2]))

    def rarely(share: float) -> bool:
        return share > 0 and draw(st.floats(0, 1)) < share

    def objects(columns: dict[str, list[Any]], count: int) -> list[Any]:
        return [
            {name: values[place] for name, values in columns.items() if not rarely(gone)}
            for place in range(count)
        ]

    def lists(elements: list[Any], lengths: list[int]) -> list[Any]:
        ends = np.cumsum([0, *lengths]).tolist()
        return [elements[a:b] for a, b in pairwise(ends)]

    lengths = draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    count = sum(lengths)
    said = draw(st.lists(TEXTS, min_size=count, max_size=count))
    roles = draw(st.lists(ROLE_TEXTS, min_size=count, max_size=count))
    inner = {"x.y": draw(json_values(size, odd)), "lang": draw(json_values(size, odd))}
    meta = {"lang": draw(json_values(size, odd)), "deep": objects(inner, size)}
    columns = {name: draw(json_values(size, odd)) for name in ("a", "b", "c")}
    columns["meta"] = [draw(ODD) if rarely(odd) else one for one in objects(meta, size)]
    turns = objects({"from": roles, "value": said}, count)
    columns["turns"] = lists([draw(ODD) if rarely(odd) else one for one in turns], lengths)
    columns["texts"] = lists(said, lengths)
    columns["nest"] = draw(nested_values(size, odd))
    if draw(st.sampled_from([False] * 4 + [True])):
        columns["meta.lang"] = draw(json_values(size, odd))
    return [draw(ODD) if rarely(odd) else one for one in objects(columns, size)]


def same_from_rows(
    rows: list[Any],
    document: Document,
    monkeypatch: pytest.MonkeyPatch,
    weights: list[int] | None = None,
) -> None:
    """Rows of JSON give the same through columns and without them."""
    mapping = bind(document)
    numbers = range(10, 10 + len(rows))
    batch = Batch(file="f.jsonl", rows=numbers, values=rows, weights=weights)
    by_rows = MappingExecutor(mapping, source_name="set", language="xx", columns=False)
    wanted = joined(by_rows.parts(batch), by_rows.kind)
    monkeypatch.setattr(executor, "_FEWEST_ROWS", 1)
    by_columns = MappingExecutor(mapping, source_name="set", language="xx")
    parts = list(by_columns.parts(batch))
    event(" ".join({type(part).__name__ for part in parts}))
    made = joined(parts, by_columns.kind)
    made.table.validate(full=True)
    assert made.table.equals(wanted.table)
    assert made.rejects == wanted.rejects
    for count in ("converted", "rejected", "filtered", "ragged", "meta_failures", "written"):
        assert getattr(made, count) == getattr(wanted, count), count
    assert by_columns.stats.counts == by_rows.stats.counts


@pytest.mark.parametrize(("size", "made"), [(16, UnifiedBatch), (17, UnifiedTable)])
def test_few_rows_of_json_go_by_rows(size: int, made: type[object]) -> None:
    rows = [{"text": f"text {number}"} for number in range(size)]
    unifier = MappingExecutor(bind({"version": 2, "text": "text"}), source_name="set")
    (unified,) = unifier.parts(Batch(file="f", rows=range(size), values=rows))
    assert type(unified) is made
    assert unified.converted == unified.written == size


@pytest.mark.more
@settings(max_examples=150)
@given(json_rows(), documents())
def test_rows_of_json_mean_the_same_as_columns(rows: list[Any], document: Document) -> None:
    with pytest.MonkeyPatch.context() as patch:
        same_from_rows(rows, document, patch)


@pytest.mark.long
@settings(max_examples=4_000, derandomize=False, suppress_health_check=list(HealthCheck))
@given(json_rows(), documents())
def test_rows_of_json_mean_the_same_in_many_more_cases(rows: list[Any], document: Document) -> None:
    with pytest.MonkeyPatch.context() as patch:
        same_from_rows(rows, document, patch)


@st.composite
def group_documents(draw: st.DrawFn) -> Document:
    document: Document = {"version": 2, "group": {"by": ["a"], "sort": "b"}}
    if draw(st.booleans()):
        document["where"] = [draw(conditions(st.sampled_from(["[0].a", "[-1].meta.lang"])))]
    if draw(st.sampled_from([False, False, True])):
        document["each"] = draw(st.sampled_from(["[*]", "[*].turns[*]"]))
        paths = ["a", "value", "meta.lang", "^.a", "^.b"]
        return {**document, "text": draw(st.lists(st.sampled_from(paths), min_size=1, max_size=2))}
    role = draw(st.one_of(DATA_ROLES, FIXED_ROLES, st.just(["user", "assistant"])))
    role = {**role, "path": "c"} if isinstance(role, dict) else role
    messages = [
        {"role": "user", "content": {"path": "[*].a", "label": "1. "}},
        {"each": "[*]", "role": role, "content": ["a", "meta.lang"]},
        {"each": "[*].turns[*]", "role": ["assistant", "user"], "content": ["^.b", "value"]},
    ]
    return {**document, "messages": messages, "system": "[0].b"}


@pytest.mark.more
@settings(max_examples=60)
@given(json_rows(), group_documents(), st.lists(st.integers(1, 3), min_size=6, max_size=6))
def test_groups_of_rows_mean_the_same_as_columns(
    rows: list[Any], document: Document, sizes: list[int]
) -> None:
    ends = np.cumsum([0, *sizes]).tolist()
    groups = [rows[a:b] for a, b in pairwise(ends) if rows[a:b]]
    with pytest.MonkeyPatch.context() as patch:
        same_from_rows(groups, document, patch, weights=sizes[: len(groups)])


# --- single facts

COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("title", pa.string()),
        ("body", pa.large_string()),
        ("meta", pa.struct([("lang", pa.string()), ("score", pa.float32())])),
        ("tags", pa.list_(pa.string())),
        ("turns", pa.list_(pa.struct([("from", pa.string()), ("value", pa.string())]))),
        ("at", pa.timestamp("us", "UTC")),
        ("price", pa.decimal128(9, 2)),
        ("picture", pa.binary()),
        ("extra", pa.map_(pa.string(), pa.string())),
    ]
)
PAIR = [{"role": "user", "content": "title"}, {"role": "assistant", "content": "body"}]
LOOKUP = {"lookup": "turns[*]", "key": "from", "of": "title", "take": "value"}
SHAREGPT = {
    "each": "turns[*]",
    "role": {"path": "from", "map": {"human": "user", "gpt": "assistant"}},
    "content": "value",
}


@pytest.mark.parametrize(
    "document",
    [
        {"text": "body"},
        {"text": ["title", "body"], "where": [{"path": "meta.lang", "in": ["en"]}]},
        {"text": {"concat": ["title", "body"], "sep": ""}},
        {"text": {"template": "# {{title}} ({{tags[0]}})"}},
        {"text": {"any_of": ["body", "title"]}},
        {"text": "body", "meta": {"timestamp": "at", "quality_score": "meta.score"}},
        {"text": "body", "meta": {"original_id": "id", "language": {"literal": "en"}}},
        {"messages": PAIR, "system": {"literal": "Be kind."}, "tools": "title"},
        {"messages": [SHAREGPT]},
        {"messages": [{"role": "system", "content": "title"}, SHAREGPT]},
        {"messages": [{**SHAREGPT, "role": "user"}, {**SHAREGPT, "role": "assistant"}]},
        {"messages": [{**SHAREGPT, "role": ["user", "assistant"], "loss_mask": True}]},
        {"messages": [{"each": "tags[*]", "role": ["user", "assistant"], "content": "$"}]},
        {"text": ["^.title", "value"], "each": "turns[*]"},
        {"text": "tags[*]"},
        {"text": {"path": "tags[*]", "label": "A. ", "sep": "; ", "pick": "id"}},
        {"text": {"path": "body", "replace": {"<eos>": ""}}},
        {"messages": [{"role": {"split": {"Q:": "user"}}, "content": "body"}]},
        {"messages": [{**PAIR[0], "loss_mask": "id"}, PAIR[1]]},
    ],
)
def test_what_is_carried(document: Document) -> None:
    assert why_not_columnar(bind({"version": 2, **document}), COLUMNS) is None


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"text": "value", "each": ["turns[*]", "tags[*]"]}, "walked in step"),
        ({"text": {"path": "tags[*]", "pick": {"path": "id", "map": {"1": 0}}}}, "a pick"),
        ({"text": {"any_of": ["tags[*]", "body"], "label": "A. "}}, "any_of with modifiers"),
        ({"any_of": [{"text": "body"}, {"text": "title"}]}, "any_of of layouts"),
        ({"text": LOOKUP}, "a lookup"),
        ({"text": ["title", {"path": LOOKUP, "sep": "; "}]}, "a lookup"),
        ({"text": "body", "where": [{"path": LOOKUP, "in": ["x"]}]}, "a lookup"),
        ({"messages": [{**SHAREGPT, "role": {"path": LOOKUP}}]}, "a lookup"),
        ({"text": "body", "meta": {"original_id": "~"}}, "the mark ~"),
        ({"text": "tags"}, "tags: a value of type list"),
        ({"text": "meta"}, "meta: a value of type struct"),
        ({"text": "body", "meta": {"quality_score": "price"}}, "decimal"),
        ({"text": "picture"}, "binary"),
        ({"text": "extra.key"}, "map"),
        ({"messages": [{**SHAREGPT, "each": "meta[*]"}]}, "struct"),
        ({"messages": [{**SHAREGPT, "each": ["turns[*]", "tags[*]"]}]}, "walked in step"),
        ({"messages": [{**SHAREGPT, "where": [{"path": "~", "in": [0]}]}]}, "the mark ~"),
        (
            {
                "messages": [{**SHAREGPT, "role": {"path": "from", "order": ["user", "assistant"]}}]
                * 2
            },
            "several entries with an order of speakers",
        ),
        ({"text": None}, "maps nothing"),
    ],
)
def test_what_is_not_carried_and_why(document: Document, reason: str) -> None:
    mapping = bind({"version": 2, **document})
    found = why_not_columnar(mapping, COLUMNS)
    assert found is not None
    assert reason in found


EDGES = pa.RecordBatch.from_pydict(
    {
        "body": pa.array(["a", "", None, " \n", "b c", "é\u3000", "5", "true", "x" * 9]),
        "flag": pa.array([True, False, None, True, True, True, False, True, None]),
        "whole": pa.array([0, 1, None, -1, 2**53 + 1, 5, 7, 8, 2**63 - 1]),
        "score": pa.array([0.0, 1.0, None, -0.5, float("nan"), 1e300, 0.25, -0.0, 1.5]),
        "digits": pa.array(["7", " 7.0 ", "", None, "7.5", "1e400", "x", "+3", "9" * 19]),
        "meta": pa.array([{"lang": "en"}, None, {"lang": None}] * 3),
        "meta.lang": pa.array(["de", None, " "] * 3),
        "turns": pa.array(
            [
                [
                    {"from": "thought", "value": "hm"},
                    {"from": "human", "value": "q"},
                    {"from": "gpt", "value": None if n == 4 else "a"},
                    {"from": "gpt", "value": "more"},
                    None if n == 3 else {"from": None, "value": " "},
                    {"from": "rules" if n % 2 else "human", "value": "be kind"},
                ]
                for n in range(9)
            ]
        ),
    }
)
ROLES = {"human": "user", "gpt": "assistant", "thought": None, "rules": "system"}
TURNS = {**SHAREGPT, "role": {"path": "from", "map": ROLES}}
ASKED = {"role": "user", "content": {"literal": "q"}}


@pytest.mark.parametrize(
    "document",
    [
        {"text": "meta.lang", "meta": {"language": "['meta'].lang"}},
        {"text": ["body", "whole", "flag", "score"], "meta": {"language": "meta.lang"}},
        {"text": {"template": "{{body}}{{meta.missing}}"}},
        {"text": {"any_of": ["meta.lang", {"template": "<{{digits}}>"}, "whole"]}},
        {"text": "whole", "meta": {"token_count": "whole", "quality_score": "score"}},
        {"text": "whole", "meta": {"token_count": "digits", "quality_score": "digits"}},
        {"text": "whole", "meta": {"token_count": "score", "quality_score": "flag"}},
        {"text": {"concat": ["body", "digits"], "map": {"*": "x"}}},
        {"text": {"path": "turns[*].value", "label": "A. ", "map": {"q": 1, "*": None}}},
        {"text": "whole", "where": [{"path": "body", "in": [None, "a", 5]}]},
        {"text": "whole", "where": [{"path": "meta.missing", "in": [None]}]},
        {"text": "whole", "where": [{"path": "body", "not_in": [None, "5", True]}]},
        {"text": "whole", "where": [{"path": "flag", "in": [1, False]}]},
        {"text": "body", "where": [{"path": "whole", "in": [1.0, 2.0**53, False, 2**53 + 1]}]},
        {"text": "body", "where": [{"path": "score", "not_in": [0, 1, True, 10**400]}]},
        {"text": "whole", "where": [{"path": "score", "min_chars": 4}]},
        {
            "text": "whole",
            "where": [{"path": "body", "max_chars": 2}, {"path": "meta.lang", "in": ["de", None]}],
        },
        {"messages": [TURNS], "system": "body"},
        {"messages": [{**TURNS, "role": {"path": "from", "order": ["user", "assistant"]}}]},
        {"messages": [{**TURNS, "role": {"path": "from", "order": ["user", "assistant", "user"]}}]},
        {
            "messages": [
                ASKED,
                {"role": {"path": "digits", "order": ["user", "tool"]}, "content": "body"},
                PAIR[1],
            ]
        },
        {"messages": [ASKED, {**TURNS, "where": [{"path": "from", "not_in": ["rules", None]}]}]},
        {
            "messages": [
                ASKED,
                {**TURNS, "where": [{"path": "value", "max_chars": 1}]},
                {**TURNS, "role": "tool", "where": [{"path": "from", "in": ["thought"]}]},
                {**TURNS, "role": "tool", "content": "from"},
                {"role": "assistant", "content": "body", "where": [{"path": "flag", "in": [True]}]},
            ]
        },
        {"messages": [{**TURNS, "role": {"path": "from", "map": {"gpt": None, "*": "user"}}}]},
        {"messages": [{**TURNS, "role": {"path": "from", "map": {"*": "user", "gpt": "tool"}}}]},
        {"messages": [ASKED, {**TURNS, "role": {"path": "from", "map": {"x": "user", "*": None}}}]},
        {"messages": [TURNS], "system": "body", "tools": "digits"},
        {"messages": [ASKED, {**TURNS, "loss_mask": False}, {"role": "tool", "content": "body"}]},
        {"messages": [ASKED, {**TURNS, "role": ["assistant", "user"]}]},
        {
            "messages": [
                {**TURNS, "role": "user", "content": "from"},
                {**TURNS, "role": "assistant"},
                {"role": "assistant", "content": "body", "loss_mask": True},
            ]
        },
        {"messages": [{"role": "user", "content": "turns[-3].value"}, TURNS]},
        {"text": ["whole", "turns[6].value", "turns[5].value", "turns[-7].from"]},
        {"messages": [{"role": {"path": "turns[5].from", "map": ROLES}, "content": "body"}, TURNS]},
    ],
)
def test_edges_of_every_construct(document: Document) -> None:
    for table in (EDGES, EDGES.slice(2, 5), EDGES.slice(9)):
        for lazy in (False, True):
            both({"version": 2, **document}, table, lazy=lazy)


@pytest.mark.more
def test_blank_means_the_same_for_every_character() -> None:
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF]
    assert blank_mask(pa.array(characters)).tolist() == [is_blank(text) for text in characters]
    texts = ["", None, " \n", " x", "\u3000\u2028", "\u200b", "\ufeff"]
    assert blank_mask(pa.array(texts)).tolist() == [is_blank(text) for text in texts]


def test_rows_with_faults_keep_their_place_among_the_others() -> None:
    said = [("human", "q"), ("gpt", "a")]
    rows = [said, [("robot", "x"), *said], said, [("human", "q")], None, [*said, (None, " ")]]
    turns = [
        None if row is None else [{"from": role, "value": text} for role, text in row]
        for row in rows
    ]
    keep = [True, True, False, True, True, True]
    table = pa.RecordBatch.from_pydict({"turns": turns, "keep": keep})
    document = {
        "version": 2,
        "messages": [SHAREGPT],
        "where": [{"path": "keep", "in": [True]}],
    }
    bad = (BadRow(row=99, detail="cut", found="{"),)
    made = both(document, table, bad=bad)
    assert [(reject.row, reject.reason) for reject in made.rejects] == [
        (11, "unmapped_value"),
        (12, "filtered"),
        (13, "no_assistant"),
        (14, "no_prompt"),
        (99, "bad_row"),
    ]
    assert (made.converted, made.rejected, made.filtered, made.written) == (2, 4, 1, 2)


def test_a_large_batch_is_cut_and_a_large_row_goes_by_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "MAX_BATCH_BYTES", 200)
    texts = ["short", " ", "long " * 100, None, "short again", "x" * 90, "y" * 90]
    table = pa.RecordBatch.from_pydict({"body": texts, "id": range(7)})
    document = {"version": 2, "text": "body", "meta": {"original_id": "id"}}
    bad = (BadRow(row=50, detail="cut", found=""),)
    for lazy in (False, True):
        made = both(document, table, bad=bad, lazy=lazy)
        assert made.table["text"].to_pylist() == [t for t in texts if t and t.strip()]
        assert [reject.row for reject in made.rejects] == [11, 13, 50]


@pytest.mark.parametrize("text", [["q", {"literal": "x" * 99}], {"template": "x" * 99 + "{{q}}"}])
def test_a_batch_that_repeats_a_long_text_is_cut(
    text: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frame, "MAX_BATCH_BYTES", 1_000)
    monkeypatch.setattr(executor, "_FEWEST_ROWS", 1)
    rows = [{"asked": [{"q": "a"}] * 5} for _ in range(9)]
    unifier = MappingExecutor(
        bind({"version": 2, "each": "asked[*]", "text": text}), source_name="set"
    )
    parts = list(unifier.parts(Batch(file="f", rows=range(9), values=rows)))
    assert [part.written for part in parts] == [10, 10, 10, 5, 10]


@pytest.mark.parametrize("columns", [True, False])
def test_a_row_with_too_much_text_is_converted_in_parts(
    columns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [{"q": f"question {n}" if n % 5 else " "} for n in range(40)]
    rows = [{"text": f"{n} " + "long " * 20, "asked": asked[: 40 - n]} for n in (38, 0, 39, 1)]
    rows[0]["asked"] = [{"q": "first"}]
    document = {"version": 2, "each": "asked[*]", "text": ["^.text", {"path": "q", "sep": ""}]}
    mapping = bind({**document, "where": [{"path": "q", "not_in": ["question 7"]}]})
    batch = Batch(file="f", rows=range(4), values=rows)
    whole = RowExecutor(mapping, source_name="set")
    wanted = whole.batch(batch)
    assert (len(wanted.records), wanted.converted) == (1 + 39 + 1 + 38, 4)
    monkeypatch.setattr(frame, "MAX_BATCH_BYTES", 1_000)
    monkeypatch.setattr(row_executor, "PART_CHARS", 700)
    monkeypatch.setattr(executor, "_FEWEST_ROWS", 1)
    by_parts = MappingExecutor(mapping, source_name="set", columns=columns)
    parts = list(by_parts.parts(batch))
    assert max(part.written for part in parts) < 20
    made = joined(parts, "pt")
    assert made.table.equals(to_batch(wanted.records, "pt", where="t"))
    assert made.rejects == wanted.rejects
    for count in ("converted", "rejected", "filtered"):
        assert getattr(made, count) == getattr(wanted, count), count
    assert by_parts.stats.counts == whole.stats.counts
    assert whole.batch(batch) == wanted
    assert 2 < len(whole.look(batch).records) < 20
    assert whole.look(batch).rejects == wanted.rejects


def test_a_batch_without_an_arrow_form_goes_by_rows() -> None:
    schema = pa.schema([("body", pa.string())])
    mapping = bind({"version": 2, "text": "body"})
    unifier = ColumnExecutor(RowExecutor(mapping, source_name="set"), schema)
    (made,) = unifier.parts(Batch(file="f", rows=[0, 1], values=[{"body": "a"}, {"body": 1}]))
    assert made.table["text"].to_pylist() == ["a", "1"]


# --- through readers, writers and the job


def table_of_everything(size: int) -> pa.Table:
    """Rows that convert, rows that do not, and columns of all kinds."""
    whole = dt.datetime(2024, 2, 29, 12, 30, tzinfo=dt.UTC)
    rows = [
        {
            "id": number,
            "title": None if number % 7 == 0 else f"Title {number}",
            "body": " " if number % 11 == 0 else f"Body of {number}: 中文 😀 " * (number % 5 + 1),
            "meta": None if number % 13 == 0 else {"lang": "en", "score": number / size},
            "tags": [f"t{number}"] * (number % 3),
            "turns": [
                {"from": ("human", "gpt", "robot")[n if number % 17 else 2], "value": f"v{n}"}
                for n in range(number % 3)
            ],
            "at": whole + dt.timedelta(seconds=number, microseconds=number),
            "price": decimal.Decimal(number) / 4,
            "picture": None,
            "extra": {"key": "value"},
        }
        for number in range(size)
    ]
    return pa.Table.from_pylist(rows, schema=COLUMNS)


ARTICLES: Document = {
    "version": 2,
    "text": ["title", "body"],
    "where": [{"path": "id", "not_in": [3, 5]}],
    "meta": {"timestamp": "at", "quality_score": "meta.score", "original_id": "id"},
}
CHATS: Document = {"version": 2, "messages": [SHAREGPT], "meta": {"language": "meta.lang"}}


def converted(source: Path, document: Document, out: Path, columns: bool, **options: Any) -> Any:
    """Convert a source by one of the executors: the bytes of its part, and all counts."""
    mapping = bind(document)
    kind = "pt" if mapping.kind == "pt" else "sft"
    unifier = MappingExecutor(mapping, source_name="set", columns=columns)
    results = []
    with RecordWriter(out, kind=kind, **options) as writer:
        for batch in open_source(str(source)).batches():
            (unified,) = unifier.parts(batch)
            assert isinstance(unified, UnifiedTable) == columns
            if isinstance(unified, UnifiedTable):
                writer.write_batch(unified.table)
            else:
                writer.write(unified.records)
            counts = unified.converted, unified.rejected, unified.filtered, writer.bytes
            results.append((unified.rejects, counts))
    return writer.path.read_bytes(), results, unifier.stats.counts


@pytest.mark.more
@pytest.mark.parametrize("document", [ARTICLES, CHATS], ids=["articles", "chats"])
@pytest.mark.parametrize("record_format", ["parquet", "jsonl"])
@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_parts_are_the_same_to_the_byte(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    document: Document,
    record_format: str,
    suffix: str,
) -> None:
    monkeypatch.setattr(writers, "ROW_GROUP_ROWS", 700)
    monkeypatch.setattr(writers, "ROW_GROUP_BYTES", 20_000)
    table = table_of_everything(3_000).drop_columns(["picture"])
    source = tmp_path / f"source.{suffix}"
    if suffix == "parquet":
        pq.write_table(table, source, row_group_size=1_300)
    else:
        with pa.ipc.new_file(source, table.schema) as file:
            file.write_table(table)
    for name in ("rows", "columns"):
        (tmp_path / name).mkdir()
    by_rows = converted(source, document, tmp_path / "rows", False, format=record_format)
    by_columns = converted(source, document, tmp_path / "columns", True, format=record_format)
    assert by_columns == by_rows


def test_a_job_gives_the_same_from_columns_and_from_lines(tmp_path: Path) -> None:
    table = table_of_everything(600).drop_columns(["picture", "at", "price", "extra"])
    for name in ("columns", "lines"):
        (tmp_path / name).mkdir()
    pq.write_table(table, tmp_path / "columns" / "set.data")
    lines = "".join(f"{json.dumps(row)}\n" for row in table.to_pylist())
    (tmp_path / "lines" / "set.data").write_text(lines, encoding="utf-8")
    document = {**ARTICLES, "meta": {"quality_score": "meta.score", "original_id": "id"}}
    results = [
        convert(
            open_source(str(tmp_path / name)),
            bind(document),
            tmp_path / f"{name}.out",
            ConvertOptions(source_name="set", workers=1),
        )
        for name in ("columns", "lines")
    ]
    names = [sorted(p for p in r.out.rglob("part-*")) for r in results]
    assert [p.read_bytes() for p in names[0]] == [p.read_bytes() for p in names[1]]
    assert len(names[0]) == 2
    for key in ("rows", "records"):
        assert results[0].manifest[key] == results[1].manifest[key]


def test_rows_are_made_only_when_looked_at() -> None:
    batch = table_of_everything(40).drop_columns(["picture"]).to_batches()[0]
    names = batch.schema.names
    eager = batch_rows(batch, names)[0]
    found = make_lazy_rows(batch, names)
    assert found is not None
    lazy, table = found
    assert table.num_rows == len(lazy) == 40
    assert lazy.take([7, 3]) == [eager[7], eager[3]]
    assert list(lazy[5:9]) == eager[5:9]
    assert list(lazy) == eager
    assert lazy[-1] == eager[-1]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([b"fine", b"\xff"], pa.binary()),
        pa.StringArray.from_buffers(
            2, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pa.py_buffer(b"a\xff")
        ),
    ],
    ids=["binary", "text"],
)
def test_columns_that_may_hold_broken_text_are_looked_at_row_by_row(column: pa.Array) -> None:
    batch = pa.RecordBatch.from_arrays([column], names=["a"])
    assert make_lazy_rows(batch, ["a"]) is None


@pytest.mark.long
def test_the_benchmark_measures_every_shape(repository: Path) -> None:
    argv = [sys.executable, repository / "benchmarks" / "executors.py", "--mb", "1", "--rounds=1"]
    done = subprocess.run(argv, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    assert sum(" arrow " in line for line in done.stdout.splitlines()) == 3
