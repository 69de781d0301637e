"""The Arrow executor: what it carries, and that it means what the row executor means."""

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
from hypothesis import event, given, settings

from ingot.converters.columnar import ColumnarUnified, ColumnarUnifier, carries
from ingot.converters.mapping import bind
from ingot.converters.record_kinds import to_batch
from ingot.converters.rows import BadRow, Batch
from ingot.converters.unify import Unifier

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
)
ROLE_TEXTS = st.sampled_from(["human", "gpt", "user", "assistant"] * 4 + ["thought", None, "x"])
NAMES = ("a", "b", "c", "meta.lang", "s")
TURN_TYPES = st.sampled_from(
    [
        pa.struct([("from", pa.string()), ("value", pa.string()), ("other", pa.string())]),
        pa.struct([("from", pa.string()), ("value", pa.large_string())]),
        pa.struct([("value", pa.int64()), ("from", TEXT_TYPES[3])]),
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
def tables(draw: st.DrawFn) -> pa.RecordBatch:
    size = draw(st.sampled_from([5, 8, 3, 1, 0]))
    columns = {name: draw(scalar_columns(size)) for name in NAMES[:4] if draw(st.booleans())}
    columns["meta"] = draw(struct_columns(size))
    columns["turns"] = draw(list_columns(size))
    columns["texts"] = pa.array(
        draw(st.lists(st.lists(TEXTS, max_size=3) | st.none(), min_size=size, max_size=size)),
        pa.list_(pa.string()),
    )
    table = pa.RecordBatch.from_pydict(columns)
    return table.slice(draw(st.sampled_from([0, 0, 1, 2])), draw(st.sampled_from([9, 9, 3, 1])))


PATHS = st.sampled_from(
    [
        *("a", "b", "c", "['meta.lang']", "meta.lang", "meta.deep.x.y", "meta.deep.lang"),
        *("a", "b", "missing", "meta.missing", "texts[0]", "texts[-1]", "turns[1].value"),
        *("a.b", "a[0]", "meta.a"),
    ]
)
LITERALS = st.sampled_from(["lit", " ", "中", "0.5"]).map(lambda text: {"literal": text})
TEMPLATES = st.tuples(PATHS, PATHS).map(
    lambda paths: {"template": f"<{{{{{paths[0]}}}}}|{{{{{paths[1]}}}}}>"}
)
LEAVES = st.one_of(PATHS, PATHS, LITERALS, TEMPLATES)
VALUES = st.recursive(
    st.one_of(LEAVES, st.lists(LEAVES, min_size=2, max_size=2).map(lambda v: {"any_of": v})),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3),
        st.tuples(st.lists(inner, min_size=1, max_size=3), st.sampled_from(["", " ", "--"])).map(
            lambda both: {"concat": both[0], "sep": both[1]}
        ),
    ),
    max_leaves=4,
)
WANTED = st.lists(
    st.sampled_from(["a", "en", "5", "", 0, 1, 1.0, 0.1, 2**53, 2.0**53, 1e300, True, False, None]),
    min_size=1,
    max_size=3,
)
CONDITIONS = st.one_of(
    st.builds(lambda p, v: {"path": p, "in": v}, PATHS, WANTED),
    st.builds(lambda p, v: {"path": p, "not_in": v}, PATHS, WANTED),
    st.builds(lambda p, n: {"path": p, "min_chars": n}, PATHS, st.integers(0, 3)),
    st.builds(lambda p, n: {"path": p, "max_chars": n}, PATHS, st.integers(0, 6)),
)
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
DATA_ROLES = st.sampled_from([{"path": "from", "map": ROLE_MAP}, {"path": "from"}])
LOSS_MASKS = st.sampled_from([None, None, True, False])


@st.composite
def entries(draw: st.DrawFn) -> Document:
    entry: Document
    match draw(st.sampled_from(["row", "row", "turns", "turns", "texts"])):
        case "row":
            entry = {"role": draw(FIXED_ROLES), "content": draw(st.one_of(st.none(), VALUES))}
        case "turns":
            role = draw(st.one_of(DATA_ROLES, DATA_ROLES, FIXED_ROLES))
            content = draw(st.sampled_from(["value", "value", ["value", "other"], "from", None]))
            entry = {"each": "turns[*]", "role": role, "content": content}
        case _:
            entry = {"each": "texts[*]", "role": ["user", "assistant"], "content": "$"}
    mask = draw(LOSS_MASKS)
    return entry if mask is None else {**entry, "loss_mask": mask}


@st.composite
def documents(draw: st.DrawFn) -> Document:
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


def rows_of(table: pa.RecordBatch) -> list[Any]:
    """The rows as readers give them: not finite is null."""
    columns = [finite(array) for array in table.columns]
    rows = [dict(zip(table.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]
    return rows or [{} for _ in range(table.num_rows)]


def finite(array: pa.Array) -> list[Any]:
    def one(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: one(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [one(inner) for inner in value]
        if isinstance(value, float | np.floating):
            return float(value) if np.isfinite(value) else None
        return value

    return [one(value) for value in array.to_pylist()]


def batch_of(table: pa.RecordBatch, first: int = 10, bad: tuple[BadRow, ...] = ()) -> Batch:
    numbers = range(first, first + table.num_rows)
    return Batch(file="f.parquet", rows=numbers, values=rows_of(table), bad=bad, table=table)


def both(document: Document, table: pa.RecordBatch, **options: Any) -> ColumnarUnified:
    """Run both executors, hold them equal, and give the result."""
    mapping = bind(document)
    batch = batch_of(table, **options)
    by_rows = Unifier(mapping, source_name="set", language="xx")
    wanted = by_rows.batch(batch)
    by_columns = ColumnarUnifier(mapping, table.schema, source_name="set", language="xx")
    made = by_columns.batch(batch)
    kind = "pt" if mapping.kind == "pt" else "sft"
    made.table.validate(full=True)
    assert made.table.equals(to_batch(wanted.records, kind, where="test"), check_metadata=True)
    assert made.rejects == wanted.rejects
    for count in ("converted", "rejected", "filtered", "ragged", "meta_failures"):
        assert getattr(made, count) == getattr(wanted, count), count
    assert by_columns.stats.counts == by_rows.stats.counts
    return made


@settings(max_examples=400)
@given(tables(), documents())
def test_both_executors_have_one_meaning(table: pa.RecordBatch, document: Document) -> None:
    reason = carries(bind(document), table.schema)
    event("carried" if reason is None else reason)
    if reason is None:
        made = both(document, table)
        event(f"records: {min(made.converted, 2)}, rejects: {min(len(made.rejects), 2)}")
