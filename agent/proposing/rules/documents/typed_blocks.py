"""Texts in lists of blocks of several types: where each has its text, and which are no text.

A value has no `where` of its own; a `pick` whose choice is null leaves out an element: an
advertisement, a caption, a repealed paragraph.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ingot.agent.proposing.columns import (
    View,
    has_scalars,
    last_name,
    text_of,
    total_chars,
    values_at,
)
from ingot.agent.proposing.names import name_group, name_strength, spell_name
from ingot.agent.proposing.readings import join_inner_path, joined_pieces, path_below
from ingot.agent.proposing.rules.documents.current_rows import current_rows_condition
from ingot.converters.mapping.language import add_pick
from ingot.converters.paths import Node, quote_name
from ingot.converters.rows import Json
from ingot.converters.sources.profile import PathFacts, profile_values

_ROWS = 60
_MOST_TYPES = 30
_NEARLY_ALL = 0.9
_ADDRESSES = ("url", "file")
_NEVER = ("url", "hash", "uuid", "time", "number", "email", "file", "json")


@dataclass(frozen=True, kw_only=True, slots=True)
class TypedBlocks:
    """The list of blocks: the path of one, and the places of the texts inside, by type."""

    element: str
    places: tuple[str, ...]

    @property
    def paths(self) -> list[str]:
        """Return the paths of the texts in a row."""
        return [join_inner_path(self.element, place) for place in self.places]

    def comes_in_pieces(self, view: View) -> bool:
        """Return whether the text of a block is split into pieces, such as those in bold."""
        both = zip(self.paths, self.places, strict=True)
        return any(
            "[*]" in p and isinstance(joined_block_pieces(view, q, p), dict) for q, p in both
        )

    def value(self, view: View) -> Json:
        """Return all texts in the order of the blocks; pieces of one block are joined directly."""
        pieces = self.comes_in_pieces(view)
        parts = [{"path": p, "sep": ""} if pieces and "[*]" in p else p for p in self.places]
        return {"each": self.element, "concat": parts}


def joined_block_pieces(view: View, path: str, place: str) -> Json:
    """Join the pieces of a block's text: they hold their own spaces, or are lines."""
    cut = path.rindex("[*]")
    below = [v for node in view.nodes[:_ROWS] for v in values_at(path[:cut], node)]
    rows = [Node({"parts": value}) for value in below if isinstance(value, list)]
    parts_view = View(nodes=tuple(rows), facts=view.facts)
    return joined_pieces(parts_view, f"parts{path[cut:]}", place)


def find_typed_blocks(view: View, inside: str) -> TypedBlocks | None:
    """Return the blocks around a path, None if each block has its text at the same path."""
    if "[*]." not in inside:
        return None
    element = inside[: inside.index("[*]") + 3]
    blocks = [v for n in view.nodes[:_ROWS] for v in values_at(element, n) if isinstance(v, dict)]
    by_type = blocks_by_type(blocks)
    places = dict.fromkeys(p for kind, of in by_type.items() for p in _text_places(kind, of))
    typed = TypedBlocks(element=element, places=tuple(places))
    several = len(places) > 1 or (places and typed.comes_in_pieces(view))
    return typed if several else None


def blocks_by_type(blocks: Sequence[Mapping[str, Json]]) -> dict[str, list[Mapping[str, Json]]]:
    """Return the blocks of each type, {} if no field names a type."""
    known = set(name_group("block_types")) | set(name_group("blocks_of_no_text"))
    for key in blocks[0] if blocks else ():
        values = [block.get(key) for block in blocks]
        names = [value for value in values if isinstance(value, str) and value]
        few = 2 <= len(set(names)) <= min(_MOST_TYPES, len(blocks) // 2)
        if len(names) < _NEARLY_ALL * len(blocks) or not few or max(map(len, names)) > 40:
            continue
        parted: dict[str, list[Mapping[str, Json]]] = defaultdict(list)
        for value, block in zip(values, blocks, strict=True):
            parted[str(value)].append(block)
        is_type = name_strength(key, "label") or {"component", "type"} & set(
            spell_name(key).split("_")
        )
        is_type = is_type or known & {spell_name(value) for value in parted}
        if is_type or (_keyed_share(parted) > _NEARLY_ALL):
            return dict(parted)
    return {}


def _keyed_share(by_type: Mapping[str, Sequence[Mapping[str, Json]]]) -> float:
    """Share of the blocks that hold what they are under a key named by their type."""
    whole = sum(map(len, by_type.values()))
    return sum(kind in block for kind, of in by_type.items() for block in of) / max(1, whole)


def _text_places(kind: str, blocks: Sequence[Mapping[str, Json]]) -> Iterator[str]:
    """Where the blocks of a type hold their text: nowhere for pictures and files."""
    keyed = all(kind in block for block in blocks)
    head = quote_name(kind) if keyed else ""
    contents = [block[kind] for block in blocks] if keyed else list(blocks)
    facts = [
        f for f in profile_values(contents).paths if has_scalars(f) and f.path.count("[*]") < 2
    ]
    telling_fields = [f for f in facts if f.distinct > 1 or kind not in f.examples]
    if any(max(f.looks.get(look, 0.0) for look in _ADDRESSES) > 0.5 for f in telling_fields):
        return
    texts = [f for f in telling_fields if _is_text_place(f)]
    most = max(map(total_chars, texts), default=0)
    longest = [f.path for f in texts if total_chars(f) == most]
    if longest:
        inner = min(longest, key=lambda path: (path.count(".") + path.count("["), path))
        yield inner if not head else head if inner == "$" else join_inner_path(head, inner)


def _is_text_place(facts: PathFacts) -> bool:
    caption = spell_name(last_name(facts.path)) in name_group("captions")
    is_text = max(facts.looks.get(look, 0.0) for look in _NEVER) < 0.5
    varied = facts.distinct > 0.5 * facts.filled
    return bool(facts.types.get("string")) and is_text and varied and not caption


# --- elements that are no part of the text


_MOST_FILTERED = 12  # types
_FILTERED_ROWS = 200
_UNCLEAR = 0.55  # the most where it is not understood which elements are text


def keep_elements(view: View, value: Json, element: str) -> tuple[Json, float]:
    """Return the value without elements that are not text, and a draft's highest score then."""
    values = [v for node in view.nodes[:_FILTERED_ROWS] for v in values_at(element, node)]
    rows = [value for value in values if isinstance(value, dict)]
    if len(rows) < _NEARLY_ALL * len(values) or not rows:
        return value, 1.0
    parts = [path_below(value, element)] if isinstance(value, str) else value["concat"]
    speaking = [node for node in map(Node, rows) if any(map(text_of, _texts_at(parts, node)))]
    conditions, most = _conditions(
        View.over(speaking), [part for part in parts if isinstance(part, str)]
    )
    silent = [node for node in map(Node, rows) if not any(map(text_of, _texts_at(parts, node)))]
    conditions = [_without_silent(condition, speaking, silent) for condition in conditions]
    picks = [_pick_of(condition) for condition in conditions]
    if not picks:
        return value, most
    if None in picks or not _are_filled([*speaking, *silent], parts, conditions):
        return value, min(most, _UNCLEAR)
    pick: Json = None
    for other_pick in picks:
        pick = add_pick(other_pick, pick) if pick else other_pick
    return {"each": element, "concat": [_keep(part, pick) for part in parts]}, most


def _conditions(elements: View, used: Sequence[str]) -> tuple[list[Json], float]:
    conditions, most = current_rows_condition(elements, frozenset(used))
    read = {condition["path"] for condition in conditions}
    conditions += [
        condition for condition in _type_conditions(elements) if condition["path"] not in read
    ]
    return [condition for condition in conditions if condition["path"] not in used], most


def _without_silent(condition: Json, speaking: Sequence[Node], silent: Sequence[Node]) -> Json:
    """The condition against the types without any text too."""
    if "not_in" not in condition:
        return condition
    types, without = (
        [value for node in nodes for value in values_at(condition["path"], node)]
        for nodes in (speaking, silent)
    )
    more = [
        condition
        for n, condition in enumerate(without)
        if condition not in types and condition not in without[:n]
    ]
    return {**condition, "not_in": [*condition["not_in"], *more]}


def _are_filled(
    elements: Sequence[Node], parts: Sequence[Json], conditions: Sequence[Json]
) -> bool:
    """Whether all elements that stay have all parts: nothing can be other_pick of a blank one."""
    nodes_left = [
        node for node in elements if all(_holds(condition, node) for condition in conditions)
    ]
    return all(any(map(text_of, _texts_at([part], node))) for node in nodes_left for part in parts)


def _texts_at(parts: Sequence[Json], node: Node) -> list[Json]:
    paths = [part["path"] if isinstance(part, dict) else part for part in parts]
    return [value for path in paths for value in values_at(path, node)]


def _holds(condition: Mapping[str, Json], node: Node) -> bool:
    value = next(iter(values_at(condition["path"], node)), None)
    return value not in condition["not_in"] if "not_in" in condition else bool(text_of(value))


def _type_conditions(elements: View) -> list[Json]:
    """Conditions on the fields that name the type of an element, by what the types are called."""
    known = set(map(spell_name, name_group("blocks_of_no_text")))
    conditions: list[Json] = []
    for column in elements.columns:
        types = sorted(set(column.present))
        few = 2 <= len(types) <= _MOST_FILTERED and 2 * len(types) <= len(column.present)
        gone: list[Json] = [kind for kind in types if spell_name(kind) in known]
        if few and not column.many and 0 < len(gone) < len(types):
            conditions.append({"path": column.path, "not_in": gone})
    return conditions


def _pick_of(condition: Mapping[str, Json]) -> Json:
    """A `pick` of the only text where a condition holds, None where it cannot say that."""
    gone: Sequence[Json] | None = condition.get("not_in")
    if gone is None and not condition.get("min_chars"):
        return None
    table = {text_of(value): None for value in gone or ()} | {"*": 0}
    return {"path": condition["path"], "map": table}


def _keep(part: Json, pick: Json) -> Json:
    """A part that is there if the pick gives its number."""
    plain = isinstance(part, str) and "[*]" not in part
    return add_pick({"path": part} if plain else {"concat": [part]}, pick)
