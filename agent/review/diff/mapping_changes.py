"""Compare two mappings target by target, each alternative laid over the outer keys.

Of `messages` old and new entries are paired first, then each pair is compared.
"""

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from ingot.agent.reporting.mapping_words import (
    common_length,
    conditions_text,
    cut_text,
    each_text,
    group_text,
    layout_text,
    mask_text,
    message_text,
    role_text,
)
from ingot.agent.review.diff.change_rules import Change, exact_text, make_change
from ingot.agent.review.diff.part_changes import (
    PlacedCondition,
    contrast_texts,
    only_adds_entries,
    part_changes,
    role_map_changes,
    source_changes,
    value_changes,
    where_changes,
)
from ingot.converters.json_yaml import pointer_to
from ingot.converters.mapping.documents.writer import to_document
from ingot.converters.mapping.language import (
    META_KEYS,
    ROLES,
    Layout,
    Mapping,
    Message,
    MessageRole,
    Role,
    RoleFromData,
    RoleSplit,
    Value,
    merge_layout,
    possible_roles,
)

# (place among the old ones, place among the new ones); None = it has no partner.
_Pair = tuple[int | None, int | None]

# Pairs of alternatives, and characters of the keys around them, said again for each of them.
_MOST_PAIRS, _MOST_AROUND = 4_000_000, 4 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class _Alternative:
    """One layout laid over the outer keys, with its conditions, the outer ones first.

    Its targets begin with `name` (`alternative 1: `); `base` is its JSON Pointer, and `own` is what
    it states itself.
    """

    layout: Layout
    name: str
    base: str
    own: Layout
    where: list[PlacedCondition]

    def pointer(self, key: str) -> str:
        """Return the JSON Pointer to a key: into the alternative if it is stated there."""
        block, _, inner = key.partition("/")
        own_block = getattr(self.own, block)
        return f"{self.base if (own_block and (not inner or inner in own_block)) else ''}/{key}"


def _expand_alternatives(mapping: Mapping) -> list[_Alternative]:
    """Return the layouts of a mapping in normal form, in the order in which they are tried."""
    outer_conditions = _place_conditions(mapping.outer, "")
    if not mapping.any_of:
        outer = mapping.outer
        return [_Alternative(layout=outer, name="", base="", own=outer, where=outer_conditions)]
    alternatives = []
    for number, variant in enumerate(mapping.any_of):
        base = f"/any_of/{number}"
        alternatives.append(
            _Alternative(
                layout=merge_layout(mapping.outer, variant),
                name=f"alternative {number + 1}: ",
                base=base,
                own=variant,
                where=[*outer_conditions, *_place_conditions(variant, base)],
            )
        )
    return alternatives


def _place_conditions(layout: Layout, base: str) -> list[PlacedCondition]:
    return [
        PlacedCondition(one, f"{base}/where/{number}", frozenset(map(exact_text, one.values)))
        for number, one in enumerate(layout.where)
    ]


def compare_mappings(old: Mapping, new: Mapping) -> tuple[Change, ...]:
    """Compare two mappings in normal form.

    The changes are in the order of the language: source, group, then the layouts key by key. No
    change at all means that every row gives the same records.
    """
    if _has_too_many_pairs(old, new):
        old_text, new_text = (f"{len(one.any_of) or 1} alternatives" for one in (old, new))
        pointer = _first_pointer(new)
        many = make_change("alternatives_many", "alternatives", old_text, new_text, pointer)
        same = exact_text(to_document(old)) == exact_text(to_document(new))
        return () if same else (many,)
    before, after = _expand_alternatives(old), _expand_alternatives(new)
    kinds = _records_kind(before), _records_kind(after)
    if "" in kinds:
        return tuple(_relevance_changes(before, after, *kinds))
    changes = [
        *source_changes(old.source, new.source),
        *part_changes("group", "group", old.group, new.group, group_text, "/group"),
    ]
    if kinds[0] != kinds[1]:
        words = _all_texts(before), _all_texts(after)
        return (*changes, make_change("records_kind", kinds[1], *words, _first_pointer(new)))
    # Alternatives are tried for whole rows where one has its own `each`.
    rows = [any(variant.each for variant in one.any_of) for one in (old, new)]
    several = old.any_of and new.any_of
    if several and rows[0] != rows[1] and (old.outer.each or new.outer.each):
        old_text, new_text = ("per row" if one else "per element" for one in rows)
        changes.append(
            make_change("alternatives_each", "alternatives", old_text, new_text, "/any_of")
        )
    return (*changes, *_layout_changes(before, after, rows=any(rows)))


def _has_too_many_pairs(old: Mapping, new: Mapping) -> bool:
    outer_sizes = [len(exact_text(one.outer)) * len(one.any_of) for one in (old, new)]
    return len(old.any_of) * len(new.any_of) > _MOST_PAIRS or max(outer_sizes) > _MOST_AROUND


# --- relevance and kind


def _records_kind(layouts: Sequence[_Alternative]) -> str:
    keys = ("messages", "text")
    return next((key for key in keys if any(getattr(one.layout, key) for one in layouts)), "")


def _relevance_changes(
    before: Sequence[_Alternative], after: Sequence[_Alternative], old_kind: str, new_kind: str
) -> Iterator[Change]:
    if new_kind:
        pointer = after[0].pointer(new_kind)
        yield make_change("mapped_now", new_kind, None, _all_texts(after), pointer)
    elif old_kind:
        pointer = before[0].pointer(old_kind)
        yield make_change("mapped_no_more", old_kind, _all_texts(before), None, pointer)


def _first_pointer(mapping: Mapping) -> str:
    if mapping.outer.text or mapping.outer.messages:
        return "/text" if mapping.outer.text else "/messages"
    return "/any_of" if mapping.any_of else ""


def _all_texts(layouts: Sequence[_Alternative]) -> str:
    return cut_text(" | ".join(layout_text(one.layout) for one in layouts))


# --- alternatives


def _layout_changes(
    old: Sequence[_Alternative], new: Sequence[_Alternative], *, rows: bool
) -> Iterator[Change]:
    """Compare all layouts; `rows`: alternatives are tried for whole rows."""
    before, after = ([exact_text(one.layout) for one in side] for side in (old, new))
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    pairs = [
        index_pair
        for _, first, end, new_first, new_end in matcher.get_opcodes()
        for index_pair in zip_longest(range(first, end), range(new_first, new_end))
    ]
    matched = [(i, j) for i, j in pairs if i is not None and j is not None]
    per_pair = [
        list(_layout_pair_changes(old[i], new[j], last=i == len(old) - 1)) for i, j in matched
    ]
    # What changed in all alternatives alike. A row that passes a condition passes it in each of
    # them, so none takes a row from another, unless they are tried for whole rows of which some
    # elements pass.
    common = (
        set.intersection(*({one.identity for one in changes} for changes in per_pair))
        if len(matched) == len(old) > 1
        else set()
    )
    for one in per_pair[0] if common else ():
        if one.identity in common and (rows or one.rule != "where_order"):
            yield _change_among_alternatives(one, last=not rows)
    for (i, j), changes in zip(matched, per_pair, strict=True):
        name = new[j].name or old[i].name
        for one in changes:
            if one.identity not in common:
                placed = _change_among_alternatives(one, last=i == len(old) - 1)
                yield replace(placed, target=f"{name}{one.target}")
    yield from _unpaired_changes(old, new, pairs)


def _change_among_alternatives(change: Change, *, last: bool) -> Change:
    if change.rule != "where_widened" or last:
        return change
    rule = "where_widened_among_alternatives"
    return make_change(rule, change.target, change.old, change.new, change.pointer)


def _unpaired_changes(
    old: Sequence[_Alternative], new: Sequence[_Alternative], pairs: Sequence[_Pair]
) -> Iterator[Change]:
    removed = {exact_text(old[i].layout): i for i, j in pairs if i is not None and j is None}
    added = {exact_text(new[j].layout): j for i, j in pairs if i is None and j is not None}
    last = max((j for i, j in pairs if i is not None and j is not None), default=-1)
    for text, i in removed.items():
        words = cut_text(layout_text(old[i].layout))
        if text in added:
            old_text, new_text = (f"{words} (at place {number + 1})" for number in (i, added[text]))
            target = f"alternative {added[text] + 1}"
            yield make_change(
                "alternative_order", target, old_text, new_text, new[added[text]].base
            )
        else:
            yield make_change(
                "alternative_removed", f"alternative {i + 1}", words, None, old[i].base
            )
    for text, j in added.items():
        if text not in removed:
            rule = "alternative_added" if j > last else "alternative_inserted"
            words = cut_text(layout_text(new[j].layout))
            yield make_change(rule, f"alternative {j + 1}", None, words, new[j].base)


def _layout_pair_changes(old: _Alternative, new: _Alternative, *, last: bool) -> Iterator[Change]:
    """Compare two layouts; `last`: a row that gives nothing here gives nothing."""

    def place(key: str, after: object) -> str:
        return (new if after else old).pointer(key)

    old_layout, new_layout = old.layout, new.layout
    pointer = place("each", new_layout.each)
    yield from part_changes(
        "each", "each", old_layout.each or None, new_layout.each or None, each_text, pointer
    )
    condition_changes = where_changes(old.where, new.where)
    yield from (one for one in condition_changes if one.rule != "where_order" or not last)
    if old_layout.messages and new_layout.messages:
        pointer = new.pointer("messages")
        yield from message_changes(old_layout.messages, new_layout.messages, pointer, decides=last)
    for key in ("text", "system", "tools"):
        before, after = getattr(old_layout, key), getattr(new_layout, key)
        yield from value_changes(
            before,
            after,
            target=key,
            path_rule=f"{key}_path",
            pointer=place(key, after),
            needed=key == "text" and last,
        )
    for key in META_KEYS:  # whatever changes in a meta value is one change of that value
        before, after = old_layout.meta.get(key), new_layout.meta.get(key)
        rule, target, pointer = f"meta_{key}", f"meta.{key}", place(f"meta/{key}", after)
        for one in value_changes(before, after, target=target, path_rule=rule, pointer=pointer):
            yield make_change(rule, target, one.old, one.new, pointer)


_ALONE = 2.5  # what it costs to leave a message without a partner
_DIFFERENT = {"role": 2.0, "content": 2.0, "each": 1.0, "where": 1.0, "loss_mask": 0.5}
_OTHER_MESSAGE = 6.0  # neither role nor content in common
_MOST_CELLS = 250_000  # beyond, messages are paired by their number


def message_changes(
    old: Sequence[Message], new: Sequence[Message], pointer: str, *, decides: bool
) -> Iterator[Change]:
    """Compare the messages of one layout; `decides`: a row that gives nothing here gives none."""
    before, after = ([exact_text(one) for one in side] for side in (old, new))
    first = common_length(before, after)
    last = common_length(before[first:][::-1], after[first:][::-1])
    stops = len(old) - last, len(new) - last
    pairs = [
        *((i, i) for i in range(first)),
        *_align_by_cost(old, new, range(first, stops[0]), range(first, stops[1])),
        *((stops[0] + i, stops[1] + i) for i in range(last)),
    ]
    removed = {exact_text(old[i]): i for i, j in pairs if i is not None and j is None}
    added = {exact_text(new[j]) for i, j in pairs if i is None and j is not None}
    for i, j in pairs:
        if i is not None and j is not None:
            needed = decides and _is_needed(old, i)
            yield from _entry_changes(
                old[i], new[j], f"messages {j + 1}", f"{pointer}/{j}", needed=needed
            )
        elif j is not None:
            words, moved = cut_text(message_text(new[j])), removed.get(exact_text(new[j]))
            old_words, rule, new_words = None, "message_added", words
            if moved is not None:
                old_words, rule = f"{words} (at place {moved + 1})", "message_order"
                new_words = f"{words} (at place {j + 1})"
            yield make_change(rule, f"messages {j + 1}", old_words, new_words, f"{pointer}/{j}")
        elif i is not None and exact_text(old[i]) not in added:
            words = cut_text(message_text(old[i]))
            yield make_change("message_removed", f"messages {i + 1}", words, None, f"{pointer}/{i}")


# --- which message is which


def _align_by_cost(
    old: Sequence[Message], new: Sequence[Message], rows: range, columns: range
) -> list[_Pair]:
    """Align with the fewest and smallest differences (Needleman and Wunsch)."""
    if len(rows) * len(columns) > _MOST_CELLS:
        return list(zip_longest(rows, columns))
    before, after = (
        [[exact_text(getattr(side[index], key)) for key in _DIFFERENT] for index in indices]
        for side, indices in ((old, rows), (new, columns))
    )
    table = [[j * _ALONE for j in range(len(after) + 1)]]
    for i, one in enumerate(before):
        row = [(i + 1) * _ALONE]
        for j, other in enumerate(after):
            alone = min(table[i][j + 1], row[j]) + _ALONE
            row.append(min(table[i][j] + _difference_cost(one, other), alone))
        table.append(row)
    pairs: list[_Pair] = []
    i, j = len(before), len(after)
    while i or j:
        cost = _difference_cost(before[i - 1], after[j - 1]) if i and j else 0.0
        if i and j and table[i][j] == table[i - 1][j - 1] + cost:
            i, j = i - 1, j - 1
            pairs.append((rows[i], columns[j]))
        elif j and table[i][j] == table[i][j - 1] + _ALONE:
            j -= 1
            pairs.append((None, columns[j]))
        else:
            i -= 1
            pairs.append((rows[i], None))
    return pairs[::-1]


def _difference_cost(before: Sequence[str], after: Sequence[str]) -> float:
    different = {key for key, a, b in zip(_DIFFERENT, before, after, strict=True) if a != b}
    if {"role", "content"} <= different:
        return _OTHER_MESSAGE
    return sum(_DIFFERENT[key] for key in different)


# --- what differs in one


def _entry_changes(
    old: Message, new: Message, target: str, pointer: str, *, needed: bool
) -> list[Change]:
    each, where = (
        (getattr(old, key) or None, getattr(new, key) or None) for key in ("each", "where")
    )
    return [
        *_role_changes(old.role, new.role, f"{target} role", f"{pointer}/role"),
        *part_changes("message_each", f"{target} each", *each, each_text, f"{pointer}/each"),
        *part_changes(
            "message_where", f"{target} where", *where, conditions_text, f"{pointer}/where"
        ),
        *value_changes(
            old.content,
            new.content,
            target=f"{target} content",
            path_rule="content_path",
            pointer=f"{pointer}/content",
            needed=needed,
        ),
        *_mask_changes(old, new, f"{target} loss_mask", f"{pointer}/loss_mask"),
    ]


def _role_changes(
    old: MessageRole, new: MessageRole, target: str, pointer: str
) -> Sequence[Change]:
    if isinstance(old, RoleFromData) and isinstance(new, RoleFromData):
        by_name = not old.order and not new.order
        if by_name and exact_text(old.path) == exact_text(new.path):
            tables = _role_table(old), _role_table(new)
            return role_map_changes(*tables, target, lambda key: pointer_to(f"{pointer}/map", key))
    both_split = isinstance(old, RoleSplit) and isinstance(new, RoleSplit)
    rule = "split_markers" if both_split else "message_role"
    return part_changes(rule, target, old, new, role_text, pointer)


def _role_table(role: RoleFromData) -> dict[str, Role | None]:
    """Return the map of a role that is read from the data; without one, names mean themselves."""
    return role.map or {name: name for name in ROLES}


def _mask_changes(old: Message, new: Message, target: str, pointer: str) -> Sequence[Change]:
    before, after = old.loss_mask, new.loss_mask
    if exact_text(_effective_mask(old)) == exact_text(_effective_mask(new)):
        return []
    if isinstance(before, Value) and isinstance(after, Value) and only_adds_entries(before, after):
        return value_changes(before, after, target=target, path_rule="", pointer=pointer)
    rule = "loss_mask_from_data" if isinstance(after, Value) else "loss_mask"
    return [make_change(rule, target, *contrast_texts(before, after, mask_text), pointer)]


def _effective_mask(message: Message) -> bool | Value | None:
    """Return the loss mask as stated, else that of the role; None if the role is read."""
    if message.loss_mask is None and isinstance(message.role, str):
        return message.role == "assistant"
    return message.loss_mask


def _is_needed(messages: Sequence[Message], index: int) -> bool:
    """Check whether it is the only one of the assistant, or the only one that may be answered."""
    role = messages[index].role
    if messages[index].each or not isinstance(role, str) or role == "system":
        return False
    side = {"assistant"} if role == "assistant" else {"user", "tool"}
    other_roles = (other.role for number, other in enumerate(messages) if number != index)
    return not any(side & set(possible_roles(other)) for other in other_roles)
