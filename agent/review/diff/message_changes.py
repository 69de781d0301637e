"""Compare `messages`: pair old and new entries, then compare each pair."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from ingot.agent.proposing.proposal import ROLES, message_roles
from ingot.agent.reporting.mapping_words import (
    common_length,
    conditions_text,
    cut_text,
    each_text,
    mask_text,
    message_text,
    role_text,
)
from ingot.agent.review.diff.change_rules import Change, exact_text, make_change
from ingot.agent.review.diff.part_changes import (
    contrast_texts,
    only_adds_entries,
    part_changes,
    role_map_changes,
    value_changes,
)
from ingot.converters.json_yaml import pointer_to
from ingot.converters.rows import Json, MappingDocument

# (place among the old messages, place among the new ones); None = it has no partner.
Pair = tuple[int | None, int | None]

_ALONE = 2.5  # what it costs to leave a message without a partner
_DIFFERENT = {"role": 2.0, "content": 2.0, "each": 1.0, "where": 1.0, "loss_mask": 0.5}
_OTHER_MESSAGE = 6.0  # neither role nor content in common
_MOST_CELLS = 250_000  # beyond, messages are paired by their number


def message_changes(
    old: list[MappingDocument], new: list[MappingDocument], pointer: str, *, decides: bool
) -> Iterator[Change]:
    """Compare the messages of one layout; `decides`: a row that gives nothing here gives none."""
    pairs = _align_messages(old, new)
    gone = {exact_text(old[i]): i for i, j in pairs if i is not None and j is None}
    come = {exact_text(new[j]) for i, j in pairs if i is None and j is not None}
    for i, j in pairs:
        if i is not None and j is not None:
            needed = decides and _is_needed(old, i)
            yield from _entry_changes(
                old[i], new[j], f"messages {j + 1}", f"{pointer}/{j}", needed=needed
            )
        elif j is not None:
            words, moved = cut_text(message_text(new[j])), gone.get(exact_text(new[j]))
            was, rule, now = None, "message_added", words
            if moved is not None:
                was, rule = f"{words} (at place {moved + 1})", "message_order"
                now = f"{words} (at place {j + 1})"
            yield make_change(rule, f"messages {j + 1}", was, now, f"{pointer}/{j}")
        elif i is not None and exact_text(old[i]) not in come:
            words = cut_text(message_text(old[i]))
            yield make_change("message_removed", f"messages {i + 1}", words, None, f"{pointer}/{i}")


# --- which message is which


def _align_messages(old: Sequence[MappingDocument], new: Sequence[MappingDocument]) -> list[Pair]:
    before, after = ([exact_text(one) for one in side] for side in (old, new))
    first = common_length(before, after)
    last = common_length(before[first:][::-1], after[first:][::-1])
    ends = len(old) - last, len(new) - last
    return [
        *((i, i) for i in range(first)),
        *_align_by_cost(old, new, range(first, ends[0]), range(first, ends[1])),
        *((ends[0] + i, ends[1] + i) for i in range(last)),
    ]


def _align_by_cost(
    old: Sequence[MappingDocument], new: Sequence[MappingDocument], rows: range, columns: range
) -> list[Pair]:
    """Align with the fewest and smallest differences (Needleman and Wunsch)."""
    if len(rows) * len(columns) > _MOST_CELLS:
        return list(zip_longest(rows, columns))
    before, after = (
        [[exact_text(side[place].get(key)) for key in _DIFFERENT] for place in places]
        for side, places in ((old, rows), (new, columns))
    )
    table = [[j * _ALONE for j in range(len(after) + 1)]]
    for i, one in enumerate(before):
        row = [(i + 1) * _ALONE]
        for j, other in enumerate(after):
            alone = min(table[i][j + 1], row[j]) + _ALONE
            row.append(min(table[i][j] + _difference_cost(one, other), alone))
        table.append(row)
    found: list[Pair] = []
    i, j = len(before), len(after)
    while i or j:
        cost = _difference_cost(before[i - 1], after[j - 1]) if i and j else 0.0
        if i and j and table[i][j] == table[i - 1][j - 1] + cost:
            i, j = i - 1, j - 1
            found.append((rows[i], columns[j]))
        elif j and table[i][j] == table[i][j - 1] + _ALONE:
            j -= 1
            found.append((None, columns[j]))
        else:
            i -= 1
            found.append((rows[i], None))
    return found[::-1]


def _difference_cost(one: Sequence[str], other: Sequence[str]) -> float:
    different = {key for key, a, b in zip(_DIFFERENT, one, other, strict=True) if a != b}
    if {"role", "content"} <= different:
        return _OTHER_MESSAGE
    return sum(_DIFFERENT[key] for key in different)


# --- what differs in one


def _entry_changes(
    old: MappingDocument, new: MappingDocument, target: str, pointer: str, *, needed: bool
) -> list[Change]:
    return [
        *_role_changes(old["role"], new["role"], f"{target} role", f"{pointer}/role"),
        *part_changes(
            "message_each",
            f"{target} each",
            old.get("each"),
            new.get("each"),
            each_text,
            f"{pointer}/each",
        ),
        *part_changes(
            "message_where",
            f"{target} where",
            old.get("where"),
            new.get("where"),
            conditions_text,
            f"{pointer}/where",
        ),
        *value_changes(
            old["content"],
            new["content"],
            target=f"{target} content",
            path_rule="content_path",
            pointer=f"{pointer}/content",
            needed=needed,
        ),
        *_mask_changes(old, new, f"{target} loss_mask", f"{pointer}/loss_mask"),
    ]


def _role_changes(old: Json, new: Json, target: str, pointer: str) -> list[Change]:
    tables = _role_table(old), _role_table(new)
    if tables[0] is not None and tables[1] is not None and old["path"] == new["path"]:
        return role_map_changes(
            tables[0], tables[1], target, lambda key: pointer_to(f"{pointer}/map", key)
        )
    both_split = all(isinstance(role, dict) and "split" in role for role in (old, new))
    rule = "split_markers" if both_split else "message_role"
    return part_changes(rule, target, old, new, role_text, pointer)


def _role_table(role: Json) -> MappingDocument | None:
    """Return the map of a role that is read from the data; without one, names mean themselves."""
    if not isinstance(role, dict) or "split" in role or "order" in role:
        return None
    return role.get("map") or {name: name for name in ROLES}


def _mask_changes(
    old: MappingDocument, new: MappingDocument, target: str, pointer: str
) -> list[Change]:
    before, after = old.get("loss_mask"), new.get("loss_mask")
    if exact_text(_effective_mask(old)) == exact_text(_effective_mask(new)):
        return []
    from_data = [isinstance(mask, str | list | dict) for mask in (before, after)]
    if all(from_data) and only_adds_entries(before, after):
        return value_changes(before, after, target=target, path_rule="", pointer=pointer)
    rule = "loss_mask_from_data" if from_data[1] else "loss_mask"
    return [make_change(rule, target, *contrast_texts(before, after, mask_text), pointer)]


def _effective_mask(message: MappingDocument) -> Json:
    """Return the loss mask as stated, else that of the role; None if the role is read."""
    mask, role = message.get("loss_mask"), message["role"]
    if mask is None and isinstance(role, str):
        return role == "assistant"
    return mask


def _is_needed(messages: list[MappingDocument], place: int) -> bool:
    """Check whether a conversation without this message is never a record.

    It is the only one of the assistant, or the only one that a conversation may answer.
    """
    role = messages[place]["role"]
    if "each" in messages[place] or not isinstance(role, str) or role == "system":
        return False
    side = {"assistant"} if role == "assistant" else {"user", "tool"}
    others = (other["role"] for number, other in enumerate(messages) if number != place)
    return not any(side & set(message_roles(other)) for other in others)
