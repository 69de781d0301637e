"""Say what a turn of a conversation holds, and find a first one that stands apart."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from operator import contains

from ingot.agent.proposing import names
from ingot.agent.proposing.columns import (
    Column,
    View,
    is_path_inside,
    last_name,
    text_of,
    values_at,
)
from ingot.agent.proposing.names import CLEAR, PLAIN
from ingot.agent.proposing.readings import (
    Field,
    Talk,
    field_sequences,
    join_inner_path,
    join_parts,
    joined_pieces,
    path_below,
    text_weight,
    thought_part,
)
from ingot.agent.proposing.rules.conversations.pairs_and_events import text_kinds_content
from ingot.agent.proposing.speakers import roles_of_values
from ingot.converters.paths import Mark, Names, Node, compile_path, quote_name
from ingot.converters.rows import Json


def find_role_field(
    view: View, element: str, fields: list[Field]
) -> tuple[Field, dict[str, str | None], float] | None:
    """Return the field that says who speaks, its map to roles, and a score."""
    best: tuple[float, Field, dict[str, str | None]] | None = None
    for field in fields:
        roles = roles_of_values(
            field.name, field.facts, field_sequences(view, element, field.inner)
        )
        sure = roles[1] * field.facts.filled / field.facts.places if roles else 0.0
        if roles and (best is None or sure > best[0]):
            best = (sure, field, roles[0])
    return (best[1], best[2], best[0]) if best else None


def turns_of(
    view: View, element: str, who: str, content: str, *more: str
) -> list[list[tuple[str, ...]]]:
    """Return the turns of each row: speaker, text, and more; turns without a text are left out."""
    inside = view.elements(element)
    turns = zip(*(inside.firsts(path) for path in (who, content, *more)), strict=True)
    rows = [islice(turns, len(row)) for row in view.places.values(element)]
    return [[turn for turn in row if turn[1].strip()] for row in rows]


def open_end_share(view: View, element: str, inner: str, mapping: dict[str, str | None]) -> float:
    """Return the share of the conversations that do not end with the assistant."""
    sequences = [s for s in field_sequences(view, element, inner) if s]
    ends = sum(1 for s in sequences if mapping.get(s[-1]) != "assistant")
    return ends / max(1, len(sequences))


_TAGS = re.compile(r"</?[a-z][^<>]{0,80}>", re.IGNORECASE)


def _plain_weight(view: View, element: str, field: Field) -> float:
    """How much text a field carries, less where it is markup: the plain text may stand beside."""
    weight = text_weight(field)
    if not weight:
        return 0.0
    texts = [t for s in field_sequences(view, element, field.inner)[:20] for t in s]
    tagged = sum(bool(_TAGS.search(text)) for text in texts)
    return weight * (0.4 if tagged > 0.5 * len(texts) else 1.0)


def find_content(view: View, element: str, fields: list[Field], not_this: str) -> str | None:
    """Return the path of the content in an element: a text, or the texts of a list of parts."""
    flat = [(_plain_weight(view, element, f), f.inner) for f in fields if f.inner != not_this]
    best = max(flat, default=(0.0, ""))
    repeats = any(  # annotations of a text that everybody speaks repeat it, however long they are
        f.facts.filled > 0.9 * f.facts.places and names.name_strength(f.name, "utterance") >= CLEAR
        for f in fields
        if text_weight(f) > 0
    )
    for facts in view.facts.paths:
        inner = path_below(facts.path, element) if facts.path.startswith(element + ".") else ""
        parts = compile_path(inner).steps if inner else ()
        wild = [s for s in parts if isinstance(s, Mark)]
        if len(wild) != 1 or not facts.types.get("string") or wild[0].mark != "[*]":
            continue
        field = Field(inner=inner, facts=facts)
        if names.name_strength(last_name(inner), "utterance") < 0.5:
            continue
        head = names.name_strength(_first_name(inner), "utterance")
        if head >= 0.5 or not repeats:
            best = max(best, (text_weight(field) * (1 + head), inner))
    return _without_quotes(view, element, fields, best[1]) if best[0] > 0 else None


_QUOTED = re.compile(r"\n[ \t]*(?:>|[-_=]{4,})")


def _without_quotes(view: View, element: str, fields: list[Field], whole: str) -> str:
    """The field with what is said alone, where another one repeats what it answers."""
    for field in fields:
        if field.inner == whole or text_weight(field) <= 0:
            continue
        both = [(a, b.strip()) for t in turns_of(view, element, whole, field.inner) for a, b in t]
        rests = [a.strip()[len(b) :] for a, b in both if b and a.strip().startswith(b)]
        quoted = [rest for rest in rests if _QUOTED.search(f"\n{rest}")]
        if quoted and len(rests) == len(both) and len(quoted) == sum(map(bool, rests)):
            return field.inner
    return whole


def _first_name(inner: str) -> str:
    first = compile_path(inner).steps[0]
    return first.names[0] if isinstance(first, Names) else ""


def mask_field(view: View, element: str, fields: list[Field], role: dict[str, Json]) -> str | None:
    """Return a field that says which turns are trained on, unless it marks the user's turns."""
    for field in fields:
        values = {value for value, _ in field.facts.values}
        plain = values and values <= {"true", "false", 0, 1}
        named = names.name_strength(field.name, "weight") >= CLEAR
        if plain and named and not _mark_is_users(view, element, field.inner, role):
            return field.inner
    return None


def _mark_is_users(view: View, element: str, mark: str, role: dict[str, Json]) -> bool:
    turns = [Node(turn) for row in view.nodes for turn in values_at(element, row)]
    roles = role.get("map") or {"user": "user"}
    user_turns = [
        t for t in turns if any(roles.get(text_of(v)) == "user" for v in values_at(role["path"], t))
    ]
    marked = sum(any(bool(value) for value in values_at(mark, turn)) for turn in user_turns)
    return bool(user_turns) and marked >= 0.9 * len(user_turns)


def calls_of(view: View, message: str) -> Iterator[str]:
    """Yield the fields of messages that hold tool calls."""
    for facts in view.facts.paths:
        inner = path_below(facts.path, message) if facts.path.startswith(message + ".") else ""
        calls = inner in names.alias_tables()["assistant_calls"] and facts.types.get("list")
        if calls and facts.items and facts.items.low > 0:
            yield inner


def with_tool_calls(view: View, element: str, content: str, spoken: Json) -> Json:
    """Return the content with the reasoning before it and the tool calls after it."""
    parts: list[Json] = [
        spoken,
        *({"path": inner, "as": "json"} for inner in calls_of(view, element)),
    ]
    for facts in view.facts.paths:
        inner = path_below(facts.path, element) if facts.path.startswith(element + ".") else ""
        reasons = quote_name(inner) == inner and names.name_strength(inner, "rationale") >= PLAIN
        apart = inner and inner != content and not _stands_in(view, element, inner, content)
        if apart and reasons and facts.chars:
            parts.insert(0, thought_part(inner, inner))
    return join_parts(parts)


def _stands_in(view: View, element: str, part: str, whole: str) -> bool:
    """Whether what a field holds mostly stands in the other one of the same turn too."""
    both = [(a, b.strip()) for t in turns_of(view, element, whole, part) for a, b in t]
    filled = [(a, b) for a, b in both if b]
    return sum(b in a for a, b in filled) > 0.5 * len(filled)


def role_entry(
    view: View, element: str, fields: list[Field], role: dict[str, Json], content: str
) -> dict[str, Json]:
    """Return the mapping entry for turns whose role stands beside their text."""
    content_value = with_tool_calls(
        view, element, content, spoken_text(view, element, content, fields)
    )
    entry: dict[str, Json] = {"each": element, "role": role, "content": content_value}
    if where := spoken_turns(fields, role["path"]):
        entry["where"] = where
    if mask := mask_field(view, element, fields, role):
        entry["loss_mask"] = mask
    return entry


def spoken_turns(fields: list[Field], speaker: str) -> list[Json]:
    """Return conditions that leave out notes, events and turns that the other side does not see."""
    conditions: list[Json] = []
    for field in fields:
        values = [text_of(value) for value, _ in field.facts.values]
        left = names.left_out_values(field.name, values) if field.inner != speaker else []
        rare = 2 * field.facts.filled < max(other.facts.filled for other in fields)
        if left and (rare or len(left) < len(values)):
            truth = bool(field.facts.types.get("boolean"))
            left_values: list[Json] = [text == "true" for text in left] if truth else list(left)
            conditions.append({"path": field.inner, "not_in": left_values})
    return conditions


_SELDOM = 0.2  # of the turns bear a mark that leaves them out


def turns_out_of_turn(
    view: View, element: str, fields: list[Field], role: dict[str, Json], content: str
) -> list[Json]:
    """Return a condition that drops short marked turns if the speakers alternate without them."""
    who = role["path"]
    for field in fields:
        counts = sorted(field.facts.values, key=lambda value: value[1])
        seldom = len(counts) == 2 and 2 <= counts[0][1] <= _SELDOM * field.facts.filled
        if field.inner in (who, content) or not seldom:
            continue
        turns = [
            (role["map"].get(code), text, mark)
            for talk in turns_of(view, element, who, content, field.inner)
            for code, text, mark in [*talk, ("", "", "")]
            if code == "" or role["map"].get(code)
        ]
        turns_left = [turn for turn in turns if turn[2] != text_of(counts[0][0])]
        left = [len(turn[1]) for turn in turns if turn not in turns_left]
        usual = sum(len(turn[1]) for turn in turns_left) / max(1, len(turns_left))
        if _count_breaks(turns) >= 2 and not _count_breaks(turns_left) and max(left) < usual:
            return [{"path": field.inner, "not_in": [counts[0][0]]}]
    return []


def _count_breaks(turns: Sequence[tuple[str | None, ...]]) -> int:
    return sum(bool(a[0]) and a[0] == b[0] for a, b in pairwise(turns))


_EDITED = re.compile(r"edit|revis|correct|amend|rewrit|修订|修改|更正|訂正|修正", re.IGNORECASE)


def spoken_text(view: View, element: str, content: str, fields: list[Field]) -> Json:
    """Return the text of a turn: as it stands, in blocks of a list, or either if both occur."""
    path = join_inner_path(element, content)
    blocks = [
        path_below(f.path, element)
        for f in view.facts.paths
        if f.path.startswith(f"{path}[*].")
        and f.chars
        and names.name_strength(last_name(f.path), "utterance") >= CLEAR
    ]
    facts = view.facts.get(path)
    if "[*]" in content:
        plain = content[: content.index("[*]")]
        whole = view.facts.get(join_inner_path(element, plain))
        both = bool(whole and whole.types.get("string") and quote_name(plain) == plain)
        parts = joined_pieces(view, path, content)
        return {"any_of": [parts, plain]} if both else parts
    if facts and facts.types.get("list") and blocks:
        parts = joined_pieces(view, join_inner_path(element, blocks[0]), blocks[0])
        return {"any_of": [parts, content]}
    # What was edited later stands for what was said first.
    edited = [f for f in fields if _EDITED.search(_first_name(f.inner)) and text_weight(f) > 0]
    last = max(edited, key=text_weight, default=None)
    if facts and last and last.facts.filled < 0.9 * facts.filled and last.inner != content:
        return {"any_of": [last.inner, content]}
    return text_kinds_content(view, element, content, fields)


# --- a first message that stands apart from the others


def is_below_talk(column: Column, talk: Talk) -> bool:
    """Return whether a column lies inside a talk."""
    return column.path == talk.path or is_path_inside(column.path, talk.path)


def repeats_talk(view: View, column: Column, talk: Talk) -> bool:
    """Return whether a column only repeats what the conversation says."""
    return any(is_mostly_inside(c, column) for c in view.columns if is_below_talk(c, talk))


def is_mostly_inside(outer: Column, inner: Column) -> bool:
    """Return whether the texts of one column hold most texts of another in the same rows."""
    both = [(a, b) for a, b in zip(outer.texts, inner.texts, strict=True) if a and b]
    return bool(both) and sum(b.strip() in a for a, b in both) > 0.7 * len(both)


def with_first_turn(view: View, talk: Talk) -> Talk:
    """Return the talk with its first message, if that stands in a field of its own."""
    first = _find_first_turn(view, talk)
    if first is None:
        return talk
    return replace(talk, entries=(first[0], *talk.entries), used=talk.used | {first[1]})


def _find_first_turn(view: View, talk: Talk) -> tuple[dict[str, Json], str] | None:
    """The first message where it stands in a field of its own and the other side goes on."""
    entry = talk.entries[0]
    each, role, content = entry.get("each"), entry["role"], entry["content"]
    if len(talk.entries) > 1 or not (isinstance(each, str) and isinstance(content, str)):
        return None
    for column in view.texts:
        head = column.path.removesuffix(content).removesuffix(".")
        if column.many or is_below_talk(column, talk) or f"{head}.{content}" != column.path:
            continue
        spoken = role["path"] if isinstance(role, dict) else ""
        if isinstance(spoken, str) and (who := view.column(f"{head}.{spoken}")):
            role_map = {value: names.speaker_role(value) or "user" for value in set(who.present)}
            roles = {**role_map, **role.get("map", {})}
            if 2 * sum(roles[value] == "user" for value in who.present) < len(who.present):
                continue
            return {"role": {"path": who.path, "map": roles}, "content": column.path}, column.path
    if _assistant_goes_on(view, entry) and (first := _asking_column(view, talk)):
        return {"role": "user", "content": first.path}, first.path
    return None


_GOES_ON = 0.7  # of the lists begin with the assistant where the question stands before them


def _assistant_goes_on(view: View, entry: dict[str, Json]) -> bool:
    roles = entry["role"].get("map", {}) if isinstance(entry["role"], dict) else {}
    who = entry["role"].get("path") if roles else None
    if not isinstance(who, str):
        return False
    left = [condition for condition in entry.get("where", ()) if "not_in" in condition]
    talks = turns_of(view, entry["each"], who, entry["content"], *(c["path"] for c in left))
    shut = [{text_of(value) for value in condition["not_in"]} for condition in left]
    first_roles = (
        [roles.get(code) for code, _, *marks in talk if not any(map(contains, shut, marks))]
        for talk in talks
    )
    begun = [roles[0] for roles in first_roles if roles and roles[0]]
    return bool(begun) and begun.count("assistant") >= _GOES_ON * len(begun)


def _asking_column(view: View, talk: Talk) -> Column | None:
    """A text beside the talk that asks, as its name or its values say."""
    candidates = [
        (max(c.named("question"), c.named("utterance"), c.looks("question")), c.chars, c)
        for c in view.texts
        if not c.many and c.fill >= 0.9 and c.words >= 3 and c.distinct > 0.5 * len(c.present)
    ]
    free = [
        candidate
        for candidate in candidates
        if not is_below_talk(candidate[2], talk) and candidate[0] >= 0.5
    ]
    best = max(free, key=lambda candidate: candidate[:2], default=None)
    return best[2] if best and not repeats_talk(view, best[2], talk) else None
