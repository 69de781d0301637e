"""Mapping documents, rows and edits as hypothesis draws them, for what a change claims."""

import copy
import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from hypothesis import strategies as st

from ingot.agent.review.diff import normal_form as forms
from ingot.converters.mapping.bind import bind, read_tree
from ingot.converters.mapping.language import Mapping
from ingot.converters.mapping.rows.executor import RowExecutor
from ingot.converters.paths import Node

Document = dict[str, Any]


def normal_form(document: Document, values: Any = ()) -> Mapping:
    """Return the normal form of a document's mapping."""
    return forms.normal_form(read_tree(document), values)


PATHS = ("a", "$.a", "b", "['b']", "w", "o[*]", "t[*].v", "$['t'][*].v", "o[0]", "v", "f", "^.a")
ROLE_PATHS = ("f", "b")
KEYS = ("x", "y", "z", "*", "1")

texts = st.sampled_from(["x", "y", "z", "", " ", "1", "long text"])
scalars = st.one_of(texts, st.sampled_from([None, 1, 1.0, True, 0]))
turns = st.fixed_dictionaries({}, optional={"f": texts, "v": scalars, "w": scalars})
rows = st.fixed_dictionaries(
    {},
    optional={
        "a": st.one_of(scalars, st.just(["x"])),
        "b": scalars,
        "w": st.sampled_from([0, 1, True, False, None]),
        "o": st.lists(scalars, max_size=3),
        "t": st.lists(turns, max_size=3),
        "f": texts,
        "v": scalars,
    },
)

paths = st.sampled_from(PATHS)
maps = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(["x", "y", "", 1, None]), min_size=1)
roles = st.sampled_from(["user", "assistant", "system", "tool"])
role_maps = st.dictionaries(
    st.sampled_from(["x", "y", "z", "1", "*"]), st.one_of(roles, st.none()), min_size=1
)
lookups = st.sampled_from(
    [
        {"lookup": "t[*]", "key": "f", "of": "a", "take": "v"},
        {"lookup": "$.t[*]", "key": "['f']", "of": "b", "take": "w"},
        {"lookup": "^.o[*]", "key": "$", "of": "f", "take": "~"},
    ]
)
literals = st.fixed_dictionaries({"literal": st.sampled_from(["en", "hello", "a"])})
templates = st.fixed_dictionaries({"template": st.sampled_from(["{{a}}: {{b}}", "- {{ $.v }}"])})


few_maps = st.dictionaries(st.sampled_from(KEYS[:3]), st.sampled_from(["x", "y"]), min_size=1)
mapped = st.builds(lambda path, table: {"path": path, "map": table}, paths, few_maps)


def _modified(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    forms = st.one_of(
        st.fixed_dictionaries({"path": paths}),
        st.fixed_dictionaries({"concat": st.lists(values, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"any_of": st.lists(values, min_size=2, max_size=3)}),
        st.fixed_dictionaries(
            {
                "tree": st.sampled_from(["t[*]", "$.t[*]", "o[*]", "$"]),
                "text": values,
                "children": st.sampled_from(["t[*]", "o[*]"]),
                "depth": st.integers(1, 3),
            }
        ),
    )
    modifiers = st.fixed_dictionaries(
        {},
        optional={
            "map": maps,
            "label": st.sampled_from(["A. ", "1) "]),
            "sep": st.sampled_from(["\n", ", "]),
            "replace": st.sampled_from([{"x": "q"}, {"x": "", "y": "x"}]),
            "as": st.just("json"),
            "text_of": st.just("html"),
            "each": st.sampled_from(["o[*]", "t[*]", ["o[*]", "t[*]"]]),
            "pick": st.sampled_from(
                ["w", "b", {"path": "b", "map": {"x": 0}}, {"path": "w", "from": 1}]
            ),
        },
    )
    return st.builds(lambda form, more: {**form, **_few(more)}, forms, modifiers)


def _few(modifiers: Document) -> Document:
    return dict(list(modifiers.items())[:2])


values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(paths, paths, literals, templates, mapped, lookups),
    lambda inner: st.one_of(st.lists(inner, min_size=1, max_size=3), _modified(inner)),
    max_leaves=4,
)
masks = st.one_of(st.booleans(), st.none(), st.sampled_from(["w", {"path": "b", "map": {"x": 1}}]))
message_roles = st.one_of(
    roles,
    roles,
    st.just(["user", "assistant"]),
    st.builds(
        lambda path, table: {"path": path, "map": table},
        st.one_of(st.sampled_from(ROLE_PATHS), lookups),
        role_maps,
    ),
    st.builds(lambda table: {"path": "f", "map": {"x": "user", **table}}, role_maps),
    st.just({"path": "f"}),
    st.just({"path": "f", "order": ["user", "assistant"]}),
    st.just({"split": {"x": "user", "y": "assistant"}}),
)
conditions = st.one_of(
    st.builds(
        lambda path, op, wanted: {"path": path, op: wanted},
        st.one_of(st.sampled_from(["a", "b", "f", "o[*]"]), lookups),
        st.sampled_from(["in", "not_in"]),
        st.lists(scalars, min_size=1, max_size=3),
    ),
    st.builds(
        lambda path, op, count: {"path": path, op: count},
        st.sampled_from(["a", "b", "f"]),
        st.sampled_from(["min_chars", "max_chars"]),
        st.integers(0, 5),
    ),
)
messages = st.builds(
    lambda role, content, more: {"role": role, "content": content, **more},
    message_roles,
    st.one_of(values, values, paths, st.none()),
    st.fixed_dictionaries(
        {},
        optional={
            "loss_mask": masks,
            "each": st.sampled_from(["t[*]", "o[*]"]),
            "where": st.lists(conditions, min_size=1, max_size=2),
        },
    ),
)
eaches = st.sampled_from(["t[*]", "o[*]", "$.t[*]", ["o[*]", "t[*]"]])
metas = st.dictionaries(
    st.sampled_from(["language", "original_id", "token_count"]), values, max_size=2
)
_around = {"where": st.lists(conditions, min_size=1, max_size=2), "each": eaches, "meta": metas}
conversations = st.one_of(
    st.lists(messages, min_size=1, max_size=3),
    st.builds(
        lambda user, assistant: [
            {"role": "user", "content": user},
            {"role": "assistant", "content": assistant},
        ],
        values,
        values,
    ),
)
texts_layouts = st.fixed_dictionaries({"text": values}, optional=_around)
chat_layouts = st.fixed_dictionaries(
    {"messages": conversations}, optional={**_around, "system": values}
)


def _whole(layouts: st.SearchStrategy[Document]) -> st.SearchStrategy[Document]:
    several = st.fixed_dictionaries(
        {"any_of": st.lists(layouts, min_size=2, max_size=3)}, optional=_around
    )
    return st.one_of(layouts, several).map(lambda layout: {"version": 2, **layout})


documents = st.one_of(_whole(texts_layouts), _whole(chat_layouts))


# --- edits


@st.composite
def edited(draw: st.DrawFn, document: Document) -> Document:
    """The document with one part of it changed, added or taken out."""
    new = copy.deepcopy(document)
    if "any_of" not in new and draw(st.integers(0, 5)) == 0:
        return _as_alternatives(draw, new)
    edits: dict[str, list[Edit]] = {}
    for kind, edit in (one for holder in _holders(new) for one in _edits(holder)):
        edits.setdefault(kind, []).append(edit)
    kind = draw(st.sampled_from(sorted(edits)))
    draw(st.sampled_from(edits[kind]))(draw)
    return new


def _as_alternatives(draw: st.DrawFn, document: Document) -> Document:
    more = draw(texts_layouts if "text" in document else chat_layouts)
    layout = {key: value for key, value in document.items() if key != "version"}
    return {"version": 2, "any_of": [layout, more]}


def _holders(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _holders(inner)


Edit = Callable[[st.DrawFn], None]
_OPERATORS = ("in", "not_in", "min_chars", "max_chars")
_ENTRIES: dict[str, st.SearchStrategy[Any]] = {
    "content": messages,
    "text": texts_layouts,
    "messages": chat_layouts,
    **dict.fromkeys(_OPERATORS, conditions),
}
_FRESH: dict[str, st.SearchStrategy[Any]] = {
    "text": values,
    "content": values,
    "system": values,
    "where": st.lists(conditions, min_size=1, max_size=2),
    "each": eaches,
    "meta": metas,
    "map": maps,
    "loss_mask": masks,
    "path": paths,
    "language": values,
    "original_id": values,
    "in": st.lists(scalars, min_size=1, max_size=3),
    "not_in": st.lists(scalars, min_size=1, max_size=3),
    "min_chars": st.integers(0, 6),
    "max_chars": st.integers(0, 6),
    "role": message_roles,
    "label": st.sampled_from(["A. ", "a) "]),
    "sep": st.sampled_from([", ", "\n"]),
}


def _edits(holder: Any) -> Iterator[tuple[str, Edit]]:
    """The edits of a list or object, each with its kind: kinds are drawn alike often."""
    if isinstance(holder, list):
        kind = "conditions" if _condition_list(holder) else "list"
        yield from ((kind, edit) for edit in _list_edits(holder))
        return
    for key in holder:
        if key in _FRESH:
            kind = "conditions" if key in _OPERATORS else "fresh"
            yield kind, partial(_refresh, holder, key)
        if key in ("map", "split"):
            yield "table", partial(_edit_table, holder, key)
        if key in ("where", "each", "meta", "loss_mask", "map", "label", "sep", "system"):
            yield "conditions" if key == "where" else "gone", partial(_drop, holder, key)
        if key in ("text", "content") and holder[key] is not None:
            yield "fallback", partial(_fall_back, holder, key)
    if "content" in holder:
        yield "mask", partial(_refresh, holder, "loss_mask")
    if "version" in holder:
        yield "meta", partial(_refresh, holder, "meta")


def _condition_list(holder: list[Any]) -> bool:
    return any(isinstance(one, dict) and one.keys() & {*_OPERATORS} for one in holder)


def _refresh(holder: Document, key: str, draw: st.DrawFn) -> None:
    holder[key] = draw(_FRESH[key])


def _drop(holder: Any, key: Any, draw: st.DrawFn) -> None:
    holder.pop(key)


def _fall_back(holder: Document, key: str, draw: st.DrawFn) -> None:
    holder[key] = {"any_of": [holder[key], draw(values)]}


def _edit_table(holder: Document, key: str, draw: st.DrawFn) -> None:
    named = {"user", "assistant", "system", "tool"} & {*map(str, holder[key].values())}
    more = draw(role_maps if named or key == "split" else maps)
    if draw(st.booleans()):
        more.pop("*", None)
    holder[key] = {**holder[key], **more} if draw(st.booleans()) else {**more, **holder[key]}


def _list_edits(holder: list[Any]) -> Iterator[Edit]:
    for place, entry in enumerate(holder):
        yield partial(_drop, holder, place)
        if isinstance(entry, str):
            yield partial(_replace, holder, place)
    if holder:
        yield partial(_insert, holder, len(holder))
        yield partial(_insert, holder, 0)
        yield partial(_reverse, holder)


def _replace(holder: list[Any], place: int, draw: st.DrawFn) -> None:
    holder[place] = draw(paths)


def _insert(holder: list[Any], place: int, draw: st.DrawFn) -> None:
    holder.insert(place, draw(_like(holder[-1])))


def _reverse(holder: list[Any], draw: st.DrawFn) -> None:
    holder.reverse()


def _like(entry: Any) -> st.SearchStrategy[Any]:
    if not isinstance(entry, dict):
        return st.one_of(scalars, paths)
    for key, fresh in _ENTRIES.items():
        if key in entry:
            return fresh
    return values


# --- what becomes of rows


def records(document: Document, row: Any, values: Any = ()) -> list[Document]:
    """The records that a document makes of a row."""
    unifier = RowExecutor(bind(document, values), source_name="rows")
    made, _ = unifier.row(Node(row, 7))
    return made


def spelt(made: list[Document], without: tuple[str, ...] = ()) -> list[str]:
    """Records as texts, some keys of records and messages left out."""

    def bare(record: Document) -> Document:
        kept = {key: value for key, value in record.items() if key not in without}
        if "messages" in kept:
            kept["messages"] = [
                {k: v for k, v in m.items() if k not in without} for m in kept["messages"]
            ]
        return kept

    return [json.dumps(bare(record), sort_keys=True) for record in made]


def within(few: list[str], many: list[str]) -> bool:
    """Whether the records are among the others, in their order."""
    rest = iter(many)
    return all(any(one == other for other in rest) for one in few)
