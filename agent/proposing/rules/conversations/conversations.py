"""Draft mappings from the conversations that lists and texts hold."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace

from ingot.agent.proposing.columns import (
    Column,
    View,
    is_path_inside,
    last_name,
    parent_path,
    values_at,
)
from ingot.agent.proposing.names import CLEAR, NAMED, PLAIN, name_strength, speaker_role
from ingot.agent.proposing.proposal import Evidence
from ingot.agent.proposing.readings import (
    Draft,
    Talk,
    join_parts,
    joined_pieces,
    role_evidence,
    seen_from_element,
)
from ingot.agent.proposing.rules.answers.preference import Verdict, differing_words, find_verdict
from ingot.agent.proposing.rules.answers.question_answer import UNDECIDED, question_answer_drafts
from ingot.agent.proposing.rules.answers.sides import answer_strength, preferred_list_element
from ingot.agent.proposing.rules.context_columns import (
    good_rows_condition,
    persona_system_value,
    tools_value,
)
from ingot.agent.proposing.rules.conversations.dialogue import find_talks
from ingot.agent.proposing.rules.conversations.transcripts import (
    Markers,
    entry_content,
    find_markers,
)
from ingot.agent.proposing.rules.conversations.turn_contents import (
    calls_of,
    is_below_talk,
    is_mostly_inside,
    repeats_talk,
    with_first_turn,
)
from ingot.converters.mapping.bind import read_tree
from ingot.converters.mapping.language import (
    Message,
    Role,
    RoleFromData,
    Value,
    add_pick,
    possible_roles,
)
from ingot.converters.mapping.walk import walk
from ingot.converters.rows import Json, MappingDocument

CLOSED_SHARE = 0.35  # an answer beside turns that all end open is their end


def _path_strength(path: str, slot: str) -> float:
    return name_strength(last_name(path), slot) if path != "$" else 0.0


def _find_system(view: View, talk: Talk) -> Json:
    """A system text beside a conversation, or inside its turns."""
    inside = [e.choice for e in talk.evidence if e.target == "system"]
    if inside:
        return inside[0]
    return persona_system_value([c for c in view.columns if not is_below_talk(c, talk)])


def _find_ending(view: View, talk: Talk) -> tuple[Json, str] | None:
    """What the assistant says after a conversation that ends with the user's turn; its path."""
    if (spoken := _spoken_reply(view, talk)) is not None:
        return spoken
    for column in (c for c in view.texts if c.many and not is_below_talk(c, talk)):
        if chosen := preferred_list_element(view.columns, column):
            return chosen, column.path
    for other in view.facts.paths:
        path = other.path
        named = _path_strength(path, "chosen")
        if named >= 0.9 and other.types.get("object") and not path.startswith(talk.path):
            inner = [c for c in view.texts if c.path.startswith(f"{path}.") and not c.many]
            best = max(inner, key=lambda c: (c.named("utterance"), c.chars), default=None)
            if best:
                return best.path, best.path
    able = [c for c in view.columns if _can_end(c, talk)]
    answer = max(able, key=lambda c: (answer_strength(c), -c.position), default=None)
    return (answer.path, answer.path) if answer and answer_strength(answer) >= 0.6 else None


def _spoken_reply(view: View, talk: Talk) -> tuple[Json, str] | None:
    """The text of a message beside the talk that says of itself that the assistant speaks."""
    for facts in view.facts.paths:
        values = [str(value) for value, _ in facts.values]
        if not values or {speaker_role(v) for v in values} != {"assistant"}:
            continue
        head = parent_path(facts.path)
        if (
            facts.path.startswith(talk.path)
            or name_strength(last_name(facts.path), "speaker") < CLEAR
        ):
            continue
        columns = (*view.columns, *view.deep)
        inside = [c for c in columns if is_path_inside(c.path, head) and c.nature != "empty"]
        utterances = [c for c in inside if c.named("utterance") >= NAMED and c.path != facts.path]
        best = max(utterances, key=lambda c: c.chars, default=None)
        if best:
            first = head.replace("[*]", "[0]")
            said_once = best.path.count("[*]") == head.count("[*]") > 0
            if said_once and isinstance(whole := joined_pieces(view, best.path), dict):
                return whole, best.path  # the pieces of one answer, of which the first says who
            single = sum(len(row) <= 1 for row in best.values) >= 0.9 * len(best.values)
            place = head if single else first
            inner = best.path.replace(head, place, 1)
            content_value = joined_pieces(view, best.path, inner) if "[*]" in inner else inner
            calls = [{"path": f"{place}.{call}", "as": "json"} for call in calls_of(view, head)]
            return join_parts([content_value, *calls]), best.path
    return None


def _can_end(column: Column, talk: Talk) -> bool:
    number = column.nature == "number" and column.named("answer") >= PLAIN
    spoken = number or column.nature in ("text", "label", "letter")
    usual = column.fill > 0.5  # else most conversations would end without an answer
    return spoken and usual and not is_below_talk(column, talk) and not column.nested


def _draft_with_ending(view: View, talk: Talk, body: MappingDocument, score: float) -> Draft | None:
    ending = _find_ending(view, talk)
    if ending is None:
        return None
    content, used = ending
    spoken = _path_strength(used, "chosen") >= NAMED or _spoken_reply(view, talk) == ending
    if _uses_tools(talk) and not spoken:
        return None
    answer_message = {"role": "assistant", "content": content}
    shortened = {**body, "messages": [*body["messages"], answer_message]}
    if talk.ends_open > 0.9 and isinstance(content, str):
        shortened["where"] = [*body.get("where", ()), {"path": content, "min_chars": 1}]
    return Draft(
        kind="sft",
        body=shortened,
        score=score,
        why=f"{talk.why}; assistant = {used}",
        used=talk.used | {used},
        evidence=(
            *talk.evidence,
            Evidence(target="messages.assistant", choice=used, why="the conversation ends open"),
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
    if any(column and repeats_talk(view, column, talk) for column in asked):
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


def _steps_between(view: View, talk: Talk) -> Draft | None:
    """The steps of an agent between the task that it is given and what it answers in the end."""
    flat = question_answer_drafts(_view_without_talk(view, talk))
    if not flat:
        return None
    asked, *answered = flat[0].body["messages"]
    body = {**flat[0].body, "messages": [asked, *talk.entries, *answered]}
    if answered and isinstance(end := answered[-1]["content"], str):
        ended: Json = {"path": end, "min_chars": 1}  # a run that was broken off answers nothing
        body["where"] = [*body.get("where", ()), ended]
    return replace(
        flat[0],
        body=body,
        score=max(flat[0].score, talk.score),
        used=flat[0].used | talk.used,
        why=f"{flat[0].why}; {talk.why}",
    )


def _shared_context(view: View, talk: Talk) -> str | None:
    """The passage that all questions of a row are about."""
    text_columns = [
        c
        for c in view.texts
        if max(c.named("context"), c.named("body")) >= 0.9
        and c.words > 20
        and not is_below_talk(c, talk)
        and not c.nested
    ]
    best = max(text_columns, key=lambda c: c.chars, default=None)
    return best.path if best and best.path not in talk.used else None


def _behind_context(context: str, entry: dict[str, Json]) -> dict[str, Json]:
    """The user's turns, the first of them behind the passage that all are about."""
    first: Json = {"path": "~", "map": {"0": 0, "*": None}}
    only_first = add_pick({"path": f"^.{context}"}, first)
    asked = entry["content"]
    return {**entry, "content": [only_first, *(asked if isinstance(asked, list) else [asked])]}


def _view_without_talk(view: View, talk: Talk) -> View:
    """The same records without the columns inside a conversation."""
    rest = View(nodes=view.nodes, facts=view.facts, each=view.each)
    rest.__dict__["columns"] = tuple(c for c in view.columns if not is_below_talk(c, talk))
    return rest


def _talk_draft(view: View, talk: Talk) -> Draft | None:
    talk = with_first_turn(view, talk)
    body: MappingDocument = {"messages": list(talk.entries)}
    if system := _find_system(view, talk):
        body["system"] = system
    stepped = isinstance(talk.entries[0].get("each"), list) and talk.entries[0]["role"] == "user"
    if stepped and (context := _shared_context(view, talk)):
        body["messages"] = [_behind_context(context, talk.entries[0]), *talk.entries[1:]]
    if (tools := tools_value(view)) is not None:
        body["tools"] = tools
    if where := [*talk.where, *(good_rows_condition(view, talk.used) or ())]:
        body["where"] = where
    if _path_strength(talk.path, "history") >= 0.9 and (draft := _earlier_turns(view, talk)):
        return draft
    if talk.entries[-1]["role"] == "tool":
        return _steps_between(view, talk)
    if talk.ends_open > 0.5:
        closed = min(0.95, max(talk.score, talk.score + CLOSED_SHARE * talk.ends_open))
        with_answer = _draft_with_ending(view, talk, body, closed)
        if with_answer:
            return with_answer
    spoken = {role for one in _read_messages(talk) for role in _named_roles(one)}
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


def _uses_tools(talk: Talk) -> bool:
    """Whether a run of an agent is told with its tools: what was expected of it is no turn."""
    entries = [one for one in _read_messages(talk) if one.each]
    roles = {role for one in entries for role in _named_roles(one)}
    return {"assistant", "tool"} <= roles or any(one.as_json for one in walk((*entries,), Value))


def _read_messages(talk: Talk) -> tuple[Message, ...]:
    return read_tree({"version": 2, "messages": [*talk.entries]}).outer.messages or ()


def _named_roles(message: Message) -> list[Role | None]:
    """The roles that a message says, the assistant's where the data hold roles as they are."""
    if isinstance(message.role, RoleFromData) and not message.role.map:
        return ["assistant"]
    return [*possible_roles(message.role)]


def conversation_drafts(view: View) -> list[Draft]:
    """Draft mappings for rows that hold a conversation, best first."""
    drafts = [
        preferred_conversation_draft(view, d)
        for talk in find_talks(view)
        if (d := _talk_draft(view, talk))
    ]
    drafts = [_with_pairs_apart(view, d) for d in drafts]
    drafts += [d for d in (_transcript_draft(view, c) for c in _transcript_columns(view)) if d]
    return sorted(drafts, key=lambda d: -d.score)


_MANY_PAIRS = 8  # of a row: no conversation goes on so long in questions and answers


def _with_pairs_apart(view: View, draft: Draft) -> Draft:
    """A draft of a list of pairs, each a record of its own where a row has many of them."""
    entries = draft.body.get("messages", ())
    each = [entry.get("each") for entry in entries]
    pairs = [entry.get("content") for entry in entries] == ["[0]", "[1]"] and each[0] == each[1]
    element = each[0] if pairs and isinstance(each[0], str) else ""
    sizes = [len(values_at(element, node)) for node in view.nodes] if element else []
    if not sizes or sum(sizes) < _MANY_PAIRS * len(sizes):
        return draft
    apart = [{key: value for key, value in entry.items() if key != "each"} for entry in entries]
    around = {key: seen_from_element(value) for key, value in draft.body.items()}
    return replace(draft, body={**around, "each": element, "messages": apart})


def _transcript_columns(view: View) -> Sequence[Column]:
    texts = [c for c in view.texts if c.named("rejected") < NAMED and not c.nested]
    return sorted(texts, key=lambda c: -c.chars)[:6]


def _transcript_draft(view: View, column: Column) -> Draft | None:
    markers = find_markers(column)
    if markers is None or _is_in_other_columns(view, column, markers):
        return None
    spoken = [marker for marker, role in markers.split.items() if role]
    entry: dict[str, Json] = {
        "role": {"split": markers.split},
        "content": entry_content(column.path, markers),
    }
    if column.many:
        entry = {"each": column.path, **entry, "content": entry_content("$", markers)}
    talk = Talk(
        path=column.path,
        entries=(entry,),
        score=0.95 * markers.share,
        why=f"{column.path} is a transcript with the markers {', '.join(map(repr, spoken))}",
        ends_open=markers.ends_open,
        used=frozenset({column.path}),
        evidence=role_evidence(
            "cut at markers",
            ", ".join(f"{m!r} = {r or 'left out'}" for m, r in markers.split.items()),
            markers.share,
        ),
        most=markers.most,
    )
    return _talk_draft(view, talk)


def _is_in_other_columns(view: View, column: Column, markers: Markers) -> bool:
    """Whether the rows also say in columns what the transcript wraps, or answer it as a whole."""
    flat = question_answer_drafts(view)
    roles = any(speaker_role(re.sub(r"[^\w ]", "", marker)) for marker in markers.split)
    if not flat or flat[0].score < (0.78 if roles else 0.65):
        return False
    parts = [c for path in flat[0].used if (c := view.column(path))]
    if roles and column.path in flat[0].used and markers.ends_open < 0.5:
        return False  # somebody answers inside, and what stands beside it sums that up
    if column.path not in flat[0].used:
        return all(
            is_mostly_inside(column, c) for c in parts if c.looks("question") > 0.3 or c.chars
        ) or any(is_mostly_inside(column, c) and c.words > 4 for c in parts)
    return markers.ends_open < 0.9 and not any(
        is_mostly_inside(column, c) for c in parts if c is not column
    )


def preferred_conversation_draft(view: View, draft: Draft) -> Draft:
    """Extend the draft of the first of two conversations to the one that a column prefers."""
    lists = sorted(f.path for f in view.facts.paths if f.types.get("list"))
    for first in lists:
        inside = [path for path in draft.used if path.startswith(f"{first}[")]
        for second in lists:
            verdict = inside and find_verdict(view.columns, last_name(first), last_name(second))
            if verdict and len(inside) == len(draft.used):
                return _widen_to_winner(draft, first, second, verdict)
            is_apart = not any(path.startswith(f"{second}[") for path in draft.used)
            if inside and is_apart and differing_words(last_name(first), last_name(second)):
                draft = replace(draft, most=min(draft.most, UNDECIDED))
    return draft


def _widen_to_winner(draft: Draft, first: str, second: str, verdict: Verdict) -> Draft:
    text = json.dumps(draft.body, ensure_ascii=False)
    other = json.loads(text.replace(f'"{first}[', f'"{second}['))
    used = frozenset(path.replace(f"{first}[", f"{second}[", 1) for path in draft.used)
    bodies = [
        {**body, "where": [_won(verdict, values), *body.get("where", ())]}
        for body, values in ((draft.body, verdict.first), (other, verdict.second))
    ]
    return replace(
        draft,
        body={"any_of": bodies},
        used=draft.used | used | {verdict.column.path},
        why=f"{draft.why}; {verdict.column.path} says when {second} is better",
    )


def _won(verdict: Verdict, values: Sequence[str]) -> dict[str, Json]:
    """The condition of the rows in which one side won."""
    cells = (value for row in verdict.column.values for value in row)
    texts = {json.dumps(v).strip('"') if not isinstance(v, str) else v: v for v in cells}
    return {"path": verdict.column.path, "in": [texts[v] for v in values if v in texts]}
