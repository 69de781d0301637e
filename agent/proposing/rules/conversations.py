"""Gather rows that are single turns, and turn the conversations of lists and texts into drafts."""

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ingot.agent.proposing.columns import (
    Column,
    View,
    last_name,
    list_path,
    name_group,
    name_strength,
    parse_finite_number,
    speaker_role,
    spell_name,
)
from ingot.agent.proposing.proposal import Evidence
from ingot.agent.proposing.readings import Draft, Reading, Talk, role_evidence
from ingot.agent.proposing.rules.context_columns import (
    good_rows_condition,
    persona_system_value,
    tools_value,
)
from ingot.agent.proposing.rules.dialogue import find_talks
from ingot.agent.proposing.rules.question_answer import (
    preferred_conversation_draft,
    question_answer_drafts,
)
from ingot.agent.proposing.rules.sides import answer_strength
from ingot.agent.proposing.rules.speakers import flag_roles, roles_of_values
from ingot.agent.proposing.rules.transcripts import Markers, entry_content, find_markers
from ingot.converters.rows import Json, MappingDocument

_TALKS = frozenset(name_group("talks"))
_TALKS_CJK = ("对话", "会话", "対話", "会話", "대화")
MAX_PROSE = 2
UNEVEN_FACTOR = 0.75
NAMED_TURNS = 1.1  # names say that rows are turns of a talk, and a column counts them
RARE = 0.02


def grouped_reading(reading: Reading) -> Iterator[Reading]:
    """Rows that are single turns, gathered into conversations."""
    by = _find_group_key(reading.view)
    if by is None:
        return
    groups: dict[str, list[int]] = {}
    for place, key in enumerate(by.texts):
        groups.setdefault(key, []).append(place)
    order = _find_order(reading.view, by, list(groups.values()))
    if order is None:
        return
    rows = [[reading.rows[place] for place in order.sorted(group)] for group in groups.values()]
    told = order.column is not None and _names_a_talk(by.name)
    outer: MappingDocument = {"by": [by.path]}
    if order.column:
        outer["sort"] = order.column.path
    yield Reading(
        view=View.of(rows),
        sample=reading.sample,
        source=reading.source,
        outer={"group": outer},
        factor=order.factor * reading.factor * (NAMED_TURNS if told else 1.0),
        why=f"rows with the same {by.path} are one conversation, {order.why}",
    )


def is_single_turn(view: View) -> bool:
    """Whether each row is one message: a column says who speaks, and there is one text to say."""
    prose = [c for c in view.texts if c.words >= 3 and not c.constant and c.looks("prose") > 0.3]
    return len(prose) <= MAX_PROSE and any(map(_names_both_sides, view.columns))


def _names_both_sides(column: Column) -> bool:
    counts = Counter(column.present)
    if column.many or column.fill < 0.95 or not 2 <= len(counts) <= 8:
        return False
    if min(counts.values()) < RARE * len(column.texts):
        return False
    named = column.named_own("speaker") >= 0.8
    roles = {speaker_role(value) for value in counts}
    return bool(flag_roles(column.name, counts)) or (named and {"user", "assistant"} <= roles)


def _find_group_key(view: View) -> Column | None:
    """What rows of one conversation share: an id that comes again, most so in neighbouring rows."""
    turns = is_single_turn(view)
    for column in view.columns:
        if column.many or "." in column.path or column.fill < 0.95 or column.words > 8:
            continue
        talk = _names_a_talk(column.name)
        named = max(column.named(slot) for slot in ("id", "foreign_id", "turns"))
        if named < 0.8 and not talk:
            continue
        runs = [len(list(group)) for _, group in itertools.groupby(column.texts)]
        returns = column.distinct < 0.8 * len(runs)
        often = len(column.texts) / max(1, column.distinct)
        if column.distinct >= 2 and often >= 1.8 and (not returns or (talk and turns)):
            return column
    return None


def _names_a_talk(name: str) -> bool:
    return bool(_TALKS & set(spell_name(name).split("_"))) or any(
        word in name for word in _TALKS_CJK
    )


@dataclass(frozen=True)
class _RowOrder:
    """How the rows of a group follow each other: by a column, or as they stand in the file."""

    column: Column | None
    why: str
    factor: float = 1.0

    def sorted(self, group: list[int]) -> list[int]:
        """The places of the rows of a group in this order, as the mapping language sorts."""
        if self.column is None:
            return group
        texts = self.column.texts
        numbers = [parse_finite_number(texts[place]) for place in group]
        if all(number is not None for number in numbers):
            ranked = sorted(zip(numbers, group, strict=True))
            return [place for _, place in ranked]
        return sorted(group, key=lambda place: texts[place])


def _find_order(view: View, by: Column, groups: list[list[int]]) -> _RowOrder | None:
    """The order of the turns; None where nothing tells it, or no column can put them into it."""
    follows = _reply_targets(view, by, groups)
    counted = _restarting_order(view, by)
    named = [
        _RowOrder(c, f"in the order of {c.path}")
        for c in (counted, *_time_order(view, groups))
        if c
    ]
    as_read = _RowOrder(None, "in the order of the file")
    if follows is not None:
        ids = [_id_order(c) for c in view.columns if c.named("id") >= 0.95]
        tried = [*named, as_read, *ids]
        return next((one for one in tried if _order_agrees(one, follows, groups)), None)
    if named:
        return named[0]
    return as_read if is_single_turn(view) or _speaks_in_turn(view, by, groups) else None


def _speaks_in_turn(view: View, by: Column, groups: list[list[int]]) -> bool:
    """Whether a column acts as two speakers in the order of the file, or names who speaks."""
    columns = view.columns if _names_a_talk(by.name) else ()
    for column in columns:
        if column.many or column.fill <= 0.95:
            continue
        said = [[column.texts[place] for place in group] for group in groups]
        if roles_of_values(column.name, column.facts, said):
            return True
        several = sum(len(set(one)) > 1 for one in said) > 0.8 * len(said)
        if several and column.named_own("speaker") >= 0.8:
            return True
    return False


def _id_order(column: Column) -> _RowOrder:
    """The order of ids; as texts of several lengths they may sort otherwise than as numbers."""
    uneven = not column.numeric and len({len(text) for text in column.present}) > 1
    return _RowOrder(
        column, f"in the order of {column.path}", factor=UNEVEN_FACTOR if uneven else 1.0
    )


def _restarting_order(view: View, by: Column) -> Column | None:
    """A number that counts up inside every group."""
    for column in view.columns:
        if not column.numeric or column.path == by.path or column.many:
            continue
        groups: dict[str, list[float]] = {}
        for key, text in zip(by.texts, column.texts, strict=True):
            groups.setdefault(key, []).append(parse_finite_number(text) or 0.0)
        lists = [g for g in groups.values() if len(g) > 1]
        rises = all(len(set(g)) == len(g) for g in lists)
        starts = len({min(g) for g in groups.values()}) <= max(2, 0.2 * len(groups))
        if lists and rises and (starts or name_strength(column.name, "order") >= 0.8):
            return column
    return None


def _time_order(view: View, groups: list[list[int]]) -> list[Column]:
    """Points in time that differ inside nearly every group, and sort as they are spelled."""
    found = [c for c in view.columns if _is_sortable_time(c) and c.fill > 0.95 and not c.many]
    longer = [group for group in groups if len(group) > 1]
    return [
        c
        for c in found
        if sum(len({c.texts[n] for n in g}) == len(g) for g in longer) >= 0.9 * len(longer)
    ]


def _is_sortable_time(column: Column) -> bool:
    """Years first, so that texts sort as times do; or numbers that a name calls a time."""
    if column.numeric:
        return column.named_own("time") >= 0.8
    return column.nature == "time" and all(text[:4].isdigit() for text in column.present)


def _reply_targets(view: View, by: Column, groups: list[list[int]]) -> dict[int, int] | None:
    """Row -> the row that it answers, where a column names the id of another row of its group."""
    ids = [c for c in view.columns if c.distinct == len(c.texts) and not c.many]
    for column in view.columns:
        if column.path == by.path or column.many or column in ids or column.fill > 0.95:
            continue
        for own in ids:
            rows = {text: place for place, text in enumerate(own.texts)}
            known = {n: rows[t] for n, t in enumerate(column.texts) if t.strip() and t in rows}
            inside = [(a, b) for a, b in known.items() if by.texts[a] == by.texts[b] and a != b]
            if len(known) >= 0.4 * len(column.texts) and len(inside) >= 0.9 * len(known):
                return dict(inside)
    return None


def _order_agrees(order: _RowOrder, follows: dict[int, int], groups: list[list[int]]) -> bool:
    """Whether every row stands right behind the one that it answers."""
    longer = [order.sorted(group) for group in groups if len(group) > 1]
    good = sum(all(follows.get(b) == a for a, b in itertools.pairwise(g)) for g in longer)
    return good >= 0.9 * len(longer)


CLOSED_SHARE = 0.35  # an answer beside turns that all end open is their end


def _path_strength(path: str, slot: str) -> float:
    return name_strength(last_name(path), slot) if path != "$" else 0.0


def _find_system(view: View, talk: Talk) -> Json:
    """A system text beside a conversation, or inside its turns."""
    inside = [e.choice for e in talk.evidence if e.target == "system"]
    if inside:
        return inside[0]
    return persona_system_value([c for c in view.columns if not _is_below(c, talk)])


def _is_below(column: Column, talk: Talk) -> bool:
    path = column.path
    return path == talk.path or path.startswith((f"{talk.path}[", f"{talk.path}."))


def _find_ending(view: View, talk: Talk) -> tuple[list[dict[str, Json]], list[str]] | None:
    """The assistant's turn that follows a conversation which ends with the user's."""
    for other in view.facts.paths:
        path = other.path
        named = max(
            _path_strength(path, "chosen"),
            0.95 * _path_strength(path, "answer") * bool(other.types.get("list")),
        )
        if path.startswith(talk.path) or named < 0.9:
            continue
        if other.types.get("object"):
            inner = [c for c in view.texts if c.path.startswith(f"{path}.") and not c.many]
            best = max(inner, key=lambda c: (c.named("utterance"), c.chars), default=None)
            if best:
                return [{"role": "assistant", "content": best.path}], [best.path]
        if other.types.get("list") and (listed := _answer_of_list(view, path)):
            return [{"role": "assistant", "content": listed[0]}], [listed[1]]
    ranked = sorted(
        ((answer_strength(c), -c.position, c) for c in view.columns if _can_end(c, talk)),
        key=lambda r: (-r[0], -r[1]),
    )
    if ranked and ranked[0][0] >= 0.6:
        answer = ranked[0][2]
        return [{"role": "assistant", "content": answer.path}], [answer.path]
    return None


def _answer_of_list(view: View, path: str) -> tuple[str, str] | None:
    """Of a list of answers the first, of a chosen conversation the last turn; and its column."""
    inside = [c for c in view.columns if c.path.startswith(path) and c.present]
    told = [c for c in inside if list_path(c.path) == path and c.named_own("answer") >= 0.9]
    if told and told[0].text:
        return told[0].path.replace("[*]", "[0]", 1), told[0].path
    said = [c for c in inside if c.named("utterance") >= 0.8]
    last = max(said, key=lambda c: c.chars, default=None)
    return (last.path.replace("[*]", "[-1]", 1), last.path) if last else None


def _can_end(column: Column, talk: Talk) -> bool:
    number = column.nature == "number" and column.named("answer") >= 0.95
    spoken = number or column.nature in ("text", "label", "letter")
    return spoken and not _is_below(column, talk) and not column.nested


def _draft_with_ending(view: View, talk: Talk, body: MappingDocument, score: float) -> Draft | None:
    ending = _find_ending(view, talk)
    if ending is None:
        return None
    entries, used = ending
    shortened = {**body, "messages": [*body["messages"], *entries]}
    return Draft(
        kind="sft",
        body=shortened,
        score=score,
        why=f"{talk.why}; {used[0]} answers",
        used=talk.used | frozenset(used),
        evidence=(
            *talk.evidence,
            Evidence(target="messages.assistant", choice=used[0], why="the conversation ends open"),
        ),
        most=talk.most,
        unknown=talk.unknown,
    )


def _earlier_turns(view: View, talk: Talk) -> Draft | None:
    """Earlier turns before a question and its answer in columns of their own."""
    flat = question_answer_drafts(_view_without_talk(view, talk))
    if not flat or flat[0].score < 0.75:
        return None
    best = flat[0]
    asked = [view.column(path) for path in best.used]
    if any(column and _repeats_talk(view, column, talk) for column in asked):
        return None
    body = {**best.body, "messages": [*talk.entries, *best.body["messages"]]}
    return replace(
        best,
        body=body,
        score=min(0.97, best.score + 0.02),
        used=best.used | talk.used,
        why=f"{best.why}, after the turns in {talk.path}",
        evidence=(*best.evidence, *(talk.evidence if talk.most < 1 else ())),
        most=min(best.most, talk.most),
        unknown=talk.unknown,
    )


def _shared_context(view: View, talk: Talk) -> str | None:
    """The passage that all questions of a row are about."""
    found = [
        c
        for c in view.texts
        if max(c.named("context"), c.named("body")) >= 0.9
        and c.words > 20
        and not _is_below(c, talk)
        and not c.nested
    ]
    best = max(found, key=lambda c: c.chars, default=None)
    return best.path if best and best.path not in talk.used else None


def _behind_context(context: str, entry: dict[str, Json]) -> dict[str, Json]:
    """The user's turns, the first of them behind the passage that all are about."""
    only_first: Json = {"path": f"^.{context}", "pick": {"path": "~", "map": {"0": 0, "*": None}}}
    asked = entry["content"]
    return {**entry, "content": [only_first, *(asked if isinstance(asked, list) else [asked])]}


def _repeats_talk(view: View, column: Column, talk: Talk) -> bool:
    """Whether a column only repeats what the conversation says."""
    said = [c for c in view.columns if _is_below(c, talk)]
    for other in said:
        both = [(a, b) for a, b in zip(column.texts, other.texts, strict=True) if a and b]
        if both and sum(a.strip() in b for a, b in both) > 0.7 * len(both):
            return True
    return False


def _view_without_talk(view: View, talk: Talk) -> View:
    """The same records without the columns inside a conversation."""
    rest = View(nodes=view.nodes, facts=view.facts, each=view.each)
    columns = tuple(c for c in view.columns if not _is_below(c, talk))
    rest.__dict__["columns"] = columns
    return rest


def _talk_draft(view: View, talk: Talk) -> Draft | None:
    body: MappingDocument = {"messages": list(talk.entries)}
    if system := _find_system(view, talk):
        body["system"] = system
    stepped = isinstance(talk.entries[0].get("each"), list) and talk.entries[0]["role"] == "user"
    if stepped and (context := _shared_context(view, talk)):
        body["messages"] = [_behind_context(context, talk.entries[0]), *talk.entries[1:]]
    if (tools := tools_value(view)) is not None:
        body["tools"] = tools
    if where := good_rows_condition(view, talk.used):
        body["where"] = where
    if _path_strength(talk.path, "history") >= 0.9 and (draft := _earlier_turns(view, talk)):
        return draft
    if talk.ends_open > 0.5:
        closed = min(0.95, max(talk.score, talk.score + CLOSED_SHARE * talk.ends_open))
        with_answer = _draft_with_ending(view, talk, body, closed)
        if with_answer:
            return with_answer
    spoken = {v for e in talk.entries for v in _entry_roles(e)}
    if "assistant" not in spoken and not talk.unknown:
        return None
    return Draft(
        kind="sft",
        body=body,
        score=min(0.98, talk.score * (1 - 0.15 * talk.ends_open)),
        why=talk.why,
        used=talk.used,
        evidence=talk.evidence,
        most=talk.most,
        unknown=talk.unknown,
    )


def _entry_roles(entry: dict[str, Json]) -> list[str]:
    role = entry["role"]
    if isinstance(role, str):
        return [role]
    if isinstance(role, list):
        return role
    if "split" in role:
        return list(role["split"].values())
    return [v for v in role.get("map", {"assistant": "assistant"}).values() if v]


def conversation_drafts(view: View) -> list[Draft]:
    """Drafts for rows that hold a conversation, best first."""
    found = [
        preferred_conversation_draft(view, d)
        for talk in find_talks(view)
        if (d := _talk_draft(view, talk))
    ]
    found += [d for d in (_transcript_draft(view, c) for c in _transcript_columns(view)) if d]
    return sorted(found, key=lambda d: -d.score)


def _transcript_columns(view: View) -> Sequence[Column]:
    texts = [c for c in view.texts if c.named("rejected") < 0.8 and not c.nested]
    return sorted(texts, key=lambda c: -c.chars)[:6]


def _transcript_draft(view: View, column: Column) -> Draft | None:
    markers = find_markers(column)
    if markers is None or _is_in_other_columns(view, column, markers):
        return None
    entry: dict[str, Json] = {
        "role": {"split": markers.split},
        "content": entry_content(column.path, markers),
    }
    if column.many:
        entry = {"each": column.path, **entry, "content": entry_content("$", markers)}
    return _finish_transcript(view, column, markers, entry)


def _is_in_other_columns(view: View, column: Column, markers: Markers) -> bool:
    """Whether the rows also say in columns what the transcript wraps, or answer it as a whole."""
    flat = question_answer_drafts(view)
    roles = any(speaker_role(re.sub(r"[^\w ]", "", marker)) for marker in markers.split)
    if not flat or flat[0].score < (0.78 if roles else 0.65):
        return False
    parts = [c for path in flat[0].used if (c := view.column(path))]
    if column.path not in flat[0].used:
        return all(
            _is_mostly_inside(column, c) for c in parts if c.looks("question") > 0.3 or c.chars
        ) or any(_is_mostly_inside(column, c) and c.words > 4 for c in parts)
    return markers.ends_open < 0.9 and not any(
        _is_mostly_inside(column, c) for c in parts if c is not column
    )


def _is_mostly_inside(outer: Column, inner: Column) -> bool:
    both = [(a, b) for a, b in zip(outer.texts, inner.texts, strict=True) if a and b]
    return bool(both) and sum(b.strip() in a for a, b in both) > 0.7 * len(both)


def _finish_transcript(
    view: View, column: Column, markers: Markers, entry: dict[str, Json]
) -> Draft | None:
    talk = Talk(
        path=column.path,
        entries=(entry,),
        score=0.95 * markers.share,
        why=f"{column.path} is a transcript with the markers {', '.join(map(repr, markers.split))}",
        ends_open=markers.ends_open,
        used=frozenset({column.path}),
        evidence=role_evidence(
            "cut at markers",
            ", ".join(f"{m!r} = {r}" for m, r in markers.split.items()),
            markers.share,
        ),
    )
    return _talk_draft(view, talk)
