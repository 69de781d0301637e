"""What speaks against a mapping: turns not taken as turns, or taken in a wrong way."""

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ingot.agent.proposing.columns import (
    Column,
    View,
    is_path_inside,
    last_name,
    parse_finite_number,
    text_of,
    texts_in,
    values_at,
)
from ingot.agent.proposing.names import NAMED, name_strength, speaker_role
from ingot.agent.proposing.proposal import value_strings
from ingot.agent.proposing.readings import Draft, Reading, has_documents
from ingot.agent.proposing.rules.conversations.row_groups import group_rows, paged_reading
from ingot.agent.proposing.rules.documents.typed_blocks import blocks_by_type
from ingot.agent.proposing.speakers import flag_roles
from ingot.converters.mapping.documents.writer import part_document
from ingot.converters.mapping.language import Mapping, RoleFromData, RoleInTurn
from ingot.converters.mapping.lookup import Lookup, taken_path
from ingot.converters.mapping.rows.executor import Record
from ingot.converters.mapping.walk import select_messages
from ingot.converters.paths import Mark, compile_path, steps_text
from ingot.converters.rows import Json
from ingot.converters.sources.text_kinds import count_words, is_time

_ROWS = 60  # rows that are looked at
_LOOKED_AT = 2_000  # characters of a text
_FEW = 8  # the most values of a field that says who speaks, or what kind an element is
_CHANGES = 0.4  # share of neighbours that differ where two speak


@dataclass(frozen=True, slots=True)
class Doubt:
    """One thing that speaks against a mapping: its name, how much of it, and what was seen."""

    name: str
    share: float
    seen: str


def turn_doubts(whole: View, reading: Reading, draft: Draft) -> list[Doubt]:
    """Return what lists of turns, and rows that are turns, say."""
    return [
        _turn_list_doubt(whole, draft),
        _sequence_doubt(reading, draft),
        _block_doubt(reading, draft),
        _turn_kind_doubt(whole, draft),
        _turn_order_doubt(whole, draft),
        _link_doubt(whole, draft),
        _role_doubt(whole, draft),
    ]


def message_lists(mapping: Mapping) -> set[str]:
    """Return the lists that a mapping converts to messages, one per element or step."""
    return {path.text for message in select_messages(mapping) for path in message.each}


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnList:
    """A list whose elements are said by somebody: its element, who speaks, and the characters."""

    element: str
    speaker: str
    chars: int


def turn_lists(view: View) -> list[TurnList]:
    """Return the lists of objects with a text and a field whose few values change as turns do."""
    lists_of_turns = []
    for facts in view.facts.paths:
        steps = compile_path(facts.path).steps
        if facts.types.get("object", 0) < 2 or not steps or not isinstance(steps[-1], Mark):
            continue
        parent = steps_text(steps[:-1]) or "$"
        if name_strength(last_name(parent), "options") >= NAMED:
            continue
        values = [v for node in view.nodes[:_ROWS] for v in values_at(parent, node)]
        lists = [list(v.values()) if isinstance(v, dict) else v for v in values]
        talks = [_object_scalars(v) for v in lists if isinstance(v, list) and len(v) > 1]
        if len(talks) >= max(2, 0.3 * len(lists)) and (turn := _as_turns(facts.path, talks)):
            lists_of_turns.append(turn)
    return lists_of_turns


def _object_scalars(values: Iterable[Json]) -> list[dict[str, str]]:
    """The scalars of the objects among some values, by name."""
    return [dict(_scalars(value)) for value in values if isinstance(value, dict)]


def _scalars(value: Json, head: str = "", depth: int = 2) -> Iterator[tuple[str, str]]:
    for key, inside in value.items():
        name = f"{head}.{key}" if head else key
        if isinstance(inside, dict) and depth:
            yield from _scalars(inside, name, depth - 1)
        elif isinstance(inside, list):
            yield name, " ".join(text for text in texts_in(inside) if " " in text)[:2000]
        elif text := text_of(inside):
            yield name, text


def _as_turns(element: str, talks: Sequence[Sequence[dict[str, str]]]) -> TurnList | None:
    elements = [element for talk in talks for element in talk]
    names = dict.fromkeys(name for element in elements for name in element)
    values_by_name = {name: [element.get(name, "") for element in elements] for name in names}
    texts = {
        name: sum(map(len, values))
        for name, values in values_by_name.items()
        if sum(count_words(v[:500]) for v in values) >= 3 * len(values)
        and len(set(values)) > 0.4 * sum(map(bool, values))
    }
    if not texts:
        return None
    for name, values in values_by_name.items():
        counts = set(values)
        if name in texts or not 2 <= len(counts) <= _FEW or "" in counts:
            continue
        if max(map(len, counts)) > 40 or all(parse_finite_number(v) is not None for v in counts):
            continue
        turns = [[element.get(name, "") for element in talk] for talk in talks]
        pairs = [a != b for turn in turns for a, b in itertools.pairwise(turn)]
        both = sum(len(set(turn)) > 1 for turn in turns) >= 0.5 * len(turns)
        known = any(speaker_role(v) in ("user", "assistant") for v in counts)
        named = name_strength(name.rpartition(".")[2], "speaker") >= 0.5
        flags = bool(flag_roles(name.rpartition(".")[2], counts))
        if both and sum(pairs) >= _CHANGES * len(pairs) and (known or named or flags):
            return TurnList(element=element, speaker=name, chars=max(texts.values()))
    return None


def _turn_list_doubt(view: View, draft: Draft) -> Doubt:
    """Texts of lists in which somebody speaks, where the mapping does not take them as turns."""
    lists = message_lists(draft.tree)
    left = [
        t for t in turn_lists(view) if not any(_leads_into(place, t.element) for place in lists)
    ]
    chars = sum(t.chars for t in left)
    whole = sum(len(t) for node in view.nodes[:_ROWS] for t in texts_in(node.value) if " " in t)
    seen = ", ".join(f"{t.element} ({t.speaker})" for t in left[:2])
    return Doubt(
        "turns", min(1.0, 2 * chars / max(1, chars + whole)), f"{seen}: turns not taken as such"
    )


def _leads_into(path: str, element: str) -> bool:
    return path == element or is_path_inside(path, element) or is_path_inside(element, path)


def _sequence_doubt(reading: Reading, draft: Draft) -> Doubt:
    """Rows that are parts of something: turns of a talk, pages of a text; taken one by one."""
    columns = [c for c in reading.view.columns if not c.many and c.fill >= 0.95]
    if "group" in reading.outer or reading.view.each:
        columns = []
    for by in columns:
        often = len(by.present) / max(1, by.distinct)
        if by.distinct < 2 or often < 1.8 or by.words > 8 or by.path in draft.used:
            continue
        longer = [g for g in group_rows(by).values() if len(g) > 1]
        if len(longer) < 2 or sum(map(len, longer)) < 0.6 * len(by.texts):
            continue
        for column in columns:
            values = [[column.texts[n] for n in group] for group in longer]
            if column is not by and _acts_as_speaker(column, values, by):
                return Doubt(
                    "sequence", 1.0, f"rows with the same {by.path} take turns by {column.path}"
                )
            if column is not by and draft.kind == "pt" and _counts_up(column, values):
                return Doubt(
                    "pages", 1.0, f"rows with the same {by.path} are counted by {column.path}"
                )
    pages = next(paged_reading(reading), None) if columns and draft.kind == "pt" else None
    return Doubt("pages", 1.0, pages.why) if pages else Doubt("sequence", 0.0, "")


def _block_doubt(reading: Reading, draft: Draft) -> Doubt:
    """Elements that are blocks of several types, such as paragraphs, taken one by one."""
    blocks = [n.value for n in reading.view.nodes if isinstance(n.value, dict)]
    paths = [path for path in draft.used if not path.startswith("^")]
    nodes = (
        [n for n in reading.view.nodes if any(map(text_of, values_at(paths[0], n)))]
        if paths
        else []
    )
    several = draft.kind == "pt" and len(nodes) >= 2 * len(reading.rows)
    typed = bool(reading.view.each) and several and not has_documents(reading.view)
    has_types = typed and bool(blocks_by_type(blocks))
    return Doubt("pages", float(has_types), f"{reading.view.each} are blocks of several types")


def _acts_as_speaker(column: Column, values: Sequence[Sequence[str]], by: Column) -> bool:
    """Whether two or more take part in most groups, and a name says that somebody speaks."""
    ident = max(by.named(slot) for slot in ("id", "foreign_id", "turns")) >= 0.5
    if not 2 <= column.distinct <= _FEW or not (ident or by.nature in ("hash", "uuid", "mark")):
        return False
    distinct = set(column.present)
    known = {"user", "assistant"} <= {speaker_role(v) for v in distinct}
    several = sum(len(set(v)) > 1 for v in values) >= 0.5 * len(values)
    return several and (
        known or column.named_own("speaker") >= NAMED or bool(flag_roles(column.name, distinct))
    )


def _counts_up(column: Column, values: Sequence[Sequence[str]]) -> bool:
    """Whether whole numbers count the rows of every group, from about the same start."""
    if not column.numeric or column.distinct < 3:
        return False
    numbers = [[parse_finite_number(v) or 0.0 for v in group] for group in values]
    counts = all(len(set(v)) == len(v) and max(v) - min(v) < 3 * len(v) for v in numbers)
    return counts and len({min(v) for v in numbers}) <= max(2, 0.3 * len(numbers))


def _turn_kind_doubt(view: View, draft: Draft) -> Doubt:
    """A field of the turns that sorts them, by more than who speaks, and that nothing reads."""
    for message in select_messages(draft.tree):
        role = message.role
        if len(message.each) != 1 or not isinstance(role, RoleFromData):
            continue
        each, speaker_path = message.each[0].text, role.path
        speaker = (
            speaker_path.parts["of"] if isinstance(speaker_path, Lookup) else speaker_path
        ).text  # its writer
        read = {speaker, *value_strings(part_document(message))}
        nodes = [v for node in view.nodes[:_ROWS] for v in values_at(each, node)]
        turns = _object_scalars(nodes)
        names = dict.fromkeys(name for turn in turns for name in turn)
        speakers = [turn.get(speaker, "") for turn in turns]
        for name in names:
            values = [turn.get(name, "") for turn in turns]
            kinds = set(values)
            if name != speaker and _names_several_hosts(values, speakers, role.map):
                return Doubt("kinds of turns", 1.0, f"{name} names several who answer")
            if name in read or not 2 <= len(kinds) <= 6 or max(map(len, kinds)) > 30:
                continue
            if all(parse_finite_number(v) is not None for v in kinds if v):
                continue
            differ = len(set(zip(speakers, values, strict=True))) > len(set(speakers))
            rare = min(values.count(kind) for kind in kinds)
            if differ and rare >= 2 and sum(map(bool, values)) > 0.5 * len(values):
                seen = f"{name} sorts the turns of {each} and is not read"
                return Doubt("kinds of turns", 1.0, seen)
    return Doubt("kinds of turns", 0.0, "")


def _names_several_hosts(
    values: Sequence[str], speakers: Sequence[str], roles: dict[str, Json] | None
) -> bool:
    """Whether a field names people, a few of whom answer: one of them may be another machine."""
    sides: dict[str, set[str]] = {}
    for value, speaker in zip(values, speakers, strict=True):
        sides.setdefault(value, set()).add(str((roles or {}).get(speaker, speaker)))
    hosts = sum(side == {"assistant"} for side in sides.values())
    guests = sum(side == {"user"} for side in sides.values())
    return (
        hosts + guests == len(sides) and 2 <= hosts <= 4 < guests and 2 * len(sides) < len(values)
    )


def _turn_order_doubt(view: View, draft: Draft) -> Doubt:
    """Turns whose times go backwards: the last one stands first."""
    for each in sorted(message_lists(draft.tree)):
        if "[" in each.removesuffix("[*]") or not each.endswith("[*]"):
            continue
        head = each.removesuffix("[*]") or "$"
        values = (value for node in view.nodes[:_ROWS] for value in values_at(head, node))
        turns = [_object_scalars(v) for v in values if isinstance(v, list) and len(v) > 1]
        names = dict.fromkeys(name for talk in turns for turn in talk for name in turn)
        for name in names:
            times = [[turn.get(name, "") for turn in talk] for talk in turns]
            if not times or not all(map(is_time, itertools.chain.from_iterable(times))):
                continue
            falls = sum(talk_times != sorted(talk_times) for talk_times in times) / len(times)
            return Doubt("order of turns", falls, f"{name} goes backwards in {falls:.0%} of {each}")
    return Doubt("order of turns", 0.0, "")


def _role_doubt(view: View, draft: Draft) -> Doubt:
    """Roles of values that no name says, and turns by order."""
    worst, seen = 0.0, ""
    for message in select_messages(draft.tree):
        role = message.role
        if isinstance(role, RoleInTurn):
            worst, seen = max((worst, seen), (0.5, "only the order says who speaks"))
        if not isinstance(role, RoleFromData) or not role.map or not message.each:
            continue
        speaker_path, table = taken_path(role.path).text, role.map
        name = last_name(speaker_path) if speaker_path != "$" else ""
        strange = [
            v for v, r in table.items() if v != "*" and r != "system" and speaker_role(str(v)) != r
        ]
        if strange and not flag_roles(name, list(table)):
            share = len(strange) / len(table)
            worst, seen = max(
                (worst, seen), (share, f"no name says who {', '.join(strange[:4])} are")
            )
    return Doubt("roles", worst, seen)


def _link_doubt(view: View, draft: Draft) -> Doubt:
    """Turns that name the one they follow, where that is not the one before: a tree of versions."""
    for each in sorted(message_lists(draft.tree)):
        if not each.endswith(("[*]", ".*")):
            continue
        head = each.removesuffix("[*]").removesuffix(".*") or "$"
        values = [value for node in view.nodes[:_ROWS] for value in values_at(head, node)]
        lists = [list(v.values()) if isinstance(v, dict) else v for v in values]
        talks = [_object_scalars(talk) for talk in lists if isinstance(talk, list)]
        names = dict.fromkeys(name for talk in talks for turn in talk for name in turn)
        for speaker_name, other in itertools.permutations(list(names)[:12], 2):
            if any(_follows_another(talk, speaker_name, other) for talk in talks):
                return Doubt("links", 1.0, f"{other} names the {speaker_name} of a turn further up")
    return Doubt("links", 0.0, "")


def _follows_another(talk: Sequence[dict[str, str]], name: str, other: str) -> bool:
    """Whether turns name others of the same talk, and some not the one right before them."""
    ids = [turn.get(name, "") for turn in talk]
    if len(talk) < 3 or len(set(ids)) < len(ids) or max(map(len, ids)) > 80:
        return False
    links = [(n, turn.get(other, "")) for n, turn in enumerate(talk) if turn.get(other)]
    known = [(n, link) for n, link in links if link in ids]
    if len(known) < 0.6 * (len(talk) - 1) or len(known) < 2:
        return False
    return any(n == 0 or ids[n - 1] != link for n, link in known)


_MOST_TALKS = 0.5  # of the texts: with more of them somebody is asked whether texts are meant
_SPEAKER_TURN = re.compile(
    r"^[ \t]*(?:[\[(<]?\d[\d:.,/\-T ]*\d[\])>]?[ \t]*[-–|]?[ \t]*)?"
    r"(?P<name>[^\W\d_][^\n:：\[\]()]{0,29})[:：][ \t]+\S",
    re.MULTILINE,
)
_FEWEST_TURNS, _MOST_SPEAKERS = 4, 4


def conversation_doubt(records: Sequence[Record]) -> Doubt:
    """Return texts that are conversations: whether they are to be cut is for a person."""
    speakers = [*filter(None, map(_speakers_in_text, (record["text"] for record in records)))]
    share = len(speakers) / max(1, len(records))
    names = ", ".join(
        name for name, _ in Counter(itertools.chain(*speakers)).most_common(_MOST_SPEAKERS)
    )
    words = f"{share:.0%} of the texts are conversations ({names}): as messages with --mode sft"
    return Doubt("transcripts", share if share > _MOST_TALKS else 0.0, words)


def _speakers_in_text(text: str) -> list[str]:
    """The names before the lines of a text that is a conversation, none of any other."""
    lines = text[:_LOOKED_AT].strip().splitlines()
    names = [match["name"].strip() for match in _SPEAKER_TURN.finditer(text[:_LOOKED_AT])]
    counts = Counter(names)
    speakers = [name for name, count in counts.items() if count > 1]
    turns = [name for name in names if name in speakers]
    spread = len(turns) >= max(_FEWEST_TURNS, len([*filter(str.strip, lines)]) / 2)
    changes = sum(turn != other for turn, other in itertools.pairwise(turns))
    several = 1 < len(speakers) <= _MOST_SPEAKERS
    return speakers if several and spread and 2 * changes >= len(turns) - 1 else []
