"""Compare `messages`: pair old and new entries, then compare each pair."""

from collections.abc import Iterator, Sequence

from ingot.agent.proposing.proposal import ROLES, message_roles
from ingot.agent.reporting.mapping_words import (
    cut_text,
    each_text,
    mask_text,
    message_text,
    role_text,
)
from ingot.agent.review.diff.change_rules import Change, make_change
from ingot.agent.review.diff.normal_form import exact_text
from ingot.agent.review.diff.part_changes import (
    contrast_optional_texts,
    contrast_texts,
    only_adds_entries,
    table_changes,
    value_changes,
)
from ingot.converters.mapping.parser import pointer_to
from ingot.converters.rows import Json

Message = dict[str, Json]
# (place among the old messages, place among the new ones); None = it has no partner.
Pair = tuple[int | None, int | None]

_ALONE = 2.5  # what it costs to leave a message without a partner
_DIFFERENT = {"role": 2.0, "content": 2.0, "each": 1.0, "loss_mask": 0.5}
_OTHER_MESSAGE = 6.0  # neither role nor content in common
_MOST_CELLS = 250_000  # beyond, messages are paired by their number


def message_changes(
    old: list[Message], new: list[Message], *, target: str, pointer: str, decides: bool
) -> list[Change]:
    """Compare the messages of one layout."""
    pairs = _align_messages(old, new)
    moved = _moved_messages(old, new, pairs)
    found: list[Change] = []
    for before, after in pairs:
        if before is not None and after is not None:
            place, name = f"{pointer}/{after}", f"{target} {after + 1}"
            needed = decides and _is_needed(old, before)
            found += _entry_changes(old[before], new[after], name, place, needed)
        elif after is not None:
            found.append(_added_message(new, after, moved, target, pointer))
        elif before is not None and exact_text(old[before]) not in moved:
            words = cut_text(message_text(old[before]))
            name = f"{target} {before + 1}"
            found.append(make_change("message_removed", name, words, None, f"{pointer}/{before}"))
    return found


def _added_message(
    new: list[Message], place: int, moved: dict[str, int], target: str, pointer: str
) -> Change:
    words, spelt = cut_text(message_text(new[place])), exact_text(new[place])
    name, there = f"{target} {place + 1}", f"{pointer}/{place}"
    if spelt not in moved:
        return make_change("message_added", name, None, words, there)
    was = f"{words} (at place {moved[spelt] + 1})"
    return make_change("message_order", name, was, f"{words} (at place {place + 1})", there)


def _moved_messages(
    old: list[Message], new: list[Message], pairs: Sequence[Pair]
) -> dict[str, int]:
    """Return messages that are the same but at another place, with the old place."""
    come = {
        exact_text(new[after]) for before, after in pairs if before is None and after is not None
    }
    gone = {
        exact_text(old[before]): before
        for before, after in pairs
        if before is not None and after is None
    }
    return {spelt: place for spelt, place in gone.items() if spelt in come}


# --- which message is which


def _align_messages(old: Sequence[Message], new: Sequence[Message]) -> list[Pair]:
    first, last = _count_common_ends(old, new)
    inner_old, inner_new = old[first : len(old) - last], new[first : len(new) - last]
    inner = _align_by_cost(inner_old, inner_new)
    shift = len(new) - len(old)
    return [
        *((i, i) for i in range(first)),
        *((i if i is None else i + first, j if j is None else j + first) for i, j in inner),
        *((i, i + shift) for i in range(len(old) - last, len(old))),
    ]


def _count_common_ends(old: Sequence[Message], new: Sequence[Message]) -> tuple[int, int]:
    before, after = list(map(exact_text, old)), list(map(exact_text, new))
    most = min(len(before), len(after))
    first = next((i for i in range(most) if before[i] != after[i]), most)
    rest = most - first
    last = next((i for i in range(rest) if before[-1 - i] != after[-1 - i]), rest)
    return first, last


def _align_by_cost(old: Sequence[Message], new: Sequence[Message]) -> list[Pair]:
    """Align with the fewest and smallest differences (Needleman and Wunsch)."""
    rows, columns = len(old), len(new)
    if rows * columns > _MOST_CELLS:
        paired: list[Pair] = [(i, i) for i in range(min(rows, columns))]
        gone: list[Pair] = [(i, None) for i in range(columns, rows)]
        return [*paired, *gone, *((None, j) for j in range(rows, columns))]
    before, after = _exact_texts(old), _exact_texts(new)
    costs = [[_cost(one, other) for other in after] for one in before]
    table = [[j * _ALONE for j in range(columns + 1)]]
    for i in range(1, rows + 1):
        table.append([i * _ALONE])
        for j in range(1, columns + 1):
            alone = min(table[i - 1][j], table[i][j - 1]) + _ALONE
            table[i].append(min(table[i - 1][j - 1] + costs[i - 1][j - 1], alone))
    return list(_trace_back(table, costs))[::-1]


def _trace_back(table: list[list[float]], costs: list[list[float]]) -> Iterator[Pair]:
    i, j = len(table) - 1, len(table[0]) - 1
    while i or j:
        if i and j and table[i][j] == table[i - 1][j - 1] + costs[i - 1][j - 1]:
            i, j = i - 1, j - 1
            yield i, j
        elif j and table[i][j] == table[i][j - 1] + _ALONE:
            j -= 1
            yield None, j
        else:
            i -= 1
            yield i, None


def _exact_texts(messages: Sequence[Message]) -> list[dict[str, str]]:
    return [{key: exact_text(one.get(key)) for key in _DIFFERENT} for one in messages]


def _cost(one: dict[str, str], other: dict[str, str]) -> float:
    different = {key for key in _DIFFERENT if one[key] != other[key]}
    if {"role", "content"} <= different:
        return _OTHER_MESSAGE
    return sum(_DIFFERENT[key] for key in different)


# --- what differs in one


def _entry_changes(
    old: Message, new: Message, target: str, pointer: str, needed: bool
) -> list[Change]:
    found = _role_changes(old["role"], new["role"], f"{target} role", f"{pointer}/role")
    if exact_text(old.get("each")) != exact_text(new.get("each")):
        words = contrast_optional_texts(old.get("each"), new.get("each"), each_text)
        found.append(make_change("message_each", f"{target} each", *words, f"{pointer}/each"))
    found += value_changes(
        old["content"],
        new["content"],
        target=f"{target} content",
        path_rule="content_path",
        pointer=f"{pointer}/content",
        needed=needed,
    )
    return found + _mask_changes(old, new, f"{target} loss_mask", f"{pointer}/loss_mask")


def _role_changes(old: Json, new: Json, target: str, pointer: str) -> list[Change]:
    if exact_text(old) == exact_text(new):
        return []
    tables = _role_table(old), _role_table(new)
    if tables[0] is not None and tables[1] is not None and old["path"] == new["path"]:
        return table_changes(
            tables[0],
            tables[1],
            target=target,
            rules=("role_map_value_added", "role_map_value_removed", "role_map_value_changed"),
            pointer=lambda key: pointer_to(f"{pointer}/map", key),
        )
    both_split = all(isinstance(role, dict) and "split" in role for role in (old, new))
    rule = "split_markers" if both_split else "message_role"
    return [make_change(rule, target, *contrast_texts(old, new, role_text), pointer)]


def _role_table(role: Json) -> dict[str, Json] | None:
    """Return the map of a role that is read from the data; without one, names mean themselves."""
    if not isinstance(role, dict) or "split" in role:
        return None
    return role.get("map") or {name: name for name in ROLES}


def _mask_changes(old: Message, new: Message, target: str, pointer: str) -> list[Change]:
    before, after = old.get("loss_mask"), new.get("loss_mask")
    if exact_text(_effective_mask(old)) == exact_text(_effective_mask(new)):
        return []
    if _is_from_data(before) and _is_from_data(after) and only_adds_entries(before, after):
        return value_changes(before, after, target=target, path_rule="", pointer=pointer)
    rule = "loss_mask_from_data" if _is_from_data(after) else "loss_mask"
    return [make_change(rule, target, *contrast_optional_texts(before, after, mask_text), pointer)]


def _is_from_data(mask: Json) -> bool:
    return isinstance(mask, str | list | dict)


def _effective_mask(message: Message) -> Json:
    """Return the loss mask as stated, else that of the role; None if the role is read."""
    mask, role = message.get("loss_mask"), message["role"]
    if mask is None and isinstance(role, str):
        return role == "assistant"
    return mask


def _is_needed(messages: list[Message], place: int) -> bool:
    """Check whether a conversation without this message is never a record.

    It is the only one of the assistant, or the only one that a conversation may answer.
    """
    role = messages[place]["role"]
    if "each" in messages[place] or not isinstance(role, str) or role == "system":
        return False
    side = {"assistant"} if role == "assistant" else {"user", "tool"}
    others = (other["role"] for number, other in enumerate(messages) if number != place)
    return not any(side & set(message_roles(other)) for other in others)
