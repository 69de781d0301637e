"""What the page shows of a conversation: fields, mapping, gates, rows beside their records.

Everything goes through the door of the data set. A colour is the number of a field that the mapping
takes; it is the same in the tree of fields, in the row and in the record.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple
from weakref import WeakKeyDictionary

from ingot.agent.chat.commands import command_usages
from ingot.agent.chat.conversation import Conversation
from ingot.agent.chat.operations import compare_targets, difference_lines, match_states
from ingot.agent.chat.responses import Reply
from ingot.agent.context import Context
from ingot.agent.judging.policy import failed_gates, gates_of_state, state_person_reasons
from ingot.agent.judging.trial import shown_report, try_out
from ingot.agent.privacy import Door
from ingot.agent.proposing.columns import text_of, values_at
from ingot.agent.proposing.llm.data_block import read_data
from ingot.agent.proposing.proposal import document_layouts, layout_parts
from ingot.agent.reporting.mapping_words import cut_text, mapping_lines
from ingot.agent.reporting.preview import speaker_text
from ingot.agent.ui.field_uses import list_targets, message_target, row_path, view_uses
from ingot.converters.errors import MappingError
from ingot.converters.json_yaml import encode
from ingot.converters.mapping.check import PathReach
from ingot.converters.mapping.language import ROLES
from ingot.converters.paths import Node, PathSyntaxError, join_path
from ingot.converters.rows import Json, MappingDocument
from ingot.converters.sources.profile import PathFacts, Profile

Facts = dict[str, Json]  # a part of an answer
_EXAMPLES = 8  # rows beside their records
_FIELDS = 400
_CELL, _TEXT = 300, 4_000  # characters of a value of a field, and of one line of a row or record
_LINES, _ELEMENTS = 160, 12  # lines of a row or a record; elements of a list in a row
_SHORT = 4  # characters below which a text is only found as a whole
_INSIDE = {"role": "role", "where": "where", "loss_mask": "trained"}  # parts of a message
_COLOURED = ("text", "system", "tools", "messages", "message", *ROLES, "meta")
# What the sample behind a door holds, as it may be shown and as it is: hiding takes a while.
_READ: WeakKeyDictionary[Door, tuple[Profile, Profile]] = WeakKeyDictionary()


class FieldUse(NamedTuple):
    """A field that the mapping takes.

    `field` is its path in a row, `path` where the mapping starts; `colour` is None for what goes
    into no record.
    """

    field: str
    path: str
    target: str
    colour: int | None


def view_conversation(conversation: Conversation, context: Context) -> Facts:
    """Everything that the page shows of a conversation, but where its files lie."""
    state, order = conversation.state, conversation.order
    proposal, check = state.get("proposal"), state.get("check")
    door = context.door(order.source, order.spec)
    uses = list(_field_uses(conversation.mapping, check.paths if check else ()))
    held = failed_gates(state.get("problems", ()))
    asking, first = context.asking, conversation.steps[0].state.get("proposal")
    return {
        "id": conversation.id,
        "decision": conversation.decision,
        "mapper": proposal.mapper if proposal else None,
        "confidence": proposal.confidence if proposal and proposal.mapper != "edited" else None,
        "reason": proposal.reason if proposal else "",
        "model": f"{asking.endpoint.model} at {asking.endpoint.host}" if asking else None,
        "step": {"at": conversation.at + 1, "of": len(conversation.steps)},
        "lines": [[*line] for line in mapping_lines(conversation.mapping, door)],
        "mapping": door.value(conversation.mapping).json,
        **_view_fields(conversation, context, uses),
        "targets": _view_targets(conversation.mapping, uses),
        "gates": [encode(one) for one in gates_of_state(state)],
        "problems": [str(one) for one in state.get("problems", ())],
        "person": state_person_reasons(state),
        "can_approve": not held and conversation.decision in ("pt", "sft", "irrelevant"),
        "why_not": "; ".join(held),
        "evidence": [encode(one) for one in first.evidence] if first else [],
        "sample": {"rows": check.rows, "ok": check.ok_rows, "records": check.records}
        if check
        else None,
        "examples": list(_view_examples(conversation, context, door, uses)),
        "said": [{"who": one.who, "text": one.text} for one in conversation.said],
    }


def _view_targets(mapping: MappingDocument, uses: Sequence[FieldUse]) -> list[Facts]:
    """What fields can be dropped on, each with its fields in the order of the mapping."""
    by_name = {one.name: one for one in list_targets(mapping)}
    return [
        {
            "name": name,
            "clear": one.clear,
            "joins": one.joins,
            "fields": [*dict.fromkeys(use.field for use in uses if use.target == name)],
        }
        for name, one in by_name.items()
    ]


def view_reply(reply: Reply, context: Context) -> Facts:
    """What a line of a conversation gave, without the view of where it stands now."""
    order = reply.conversation.order
    door = context.door(order.source, order.spec)
    listed = "alternatives" in reply.show
    return {
        "say": reply.say,
        "heard": reply.heard,
        "problems": [str(one) for one in reply.problems],
        "effect": _view_effect(reply, context, door) if reply.before else None,
        "commands": [
            [*one]
            for one in command_usages(reply.text, under_review=reply.conversation.under_review)
        ]
        if "help" in reply.show
        else None,
        "alternatives": [
            {
                "title": door.text(one.title),
                "lines": [[*line] for line in mapping_lines(one.mapping, door)],
            }
            for one in reply.others
        ]
        if listed
        else None,
    }


def _view_effect(reply: Reply, context: Context, door: Door) -> Facts | None:
    """What a change did to the mapping and to the records of the sample."""
    before, now = reply.before, reply.conversation
    if before is None:
        return None
    found = match_states(before.state, now.state, context)
    targets = [[*map(door.text, row)] for row in compare_targets(before.mapping, now.mapping)]
    if found is None:
        return {"targets": targets}
    counts = {kind: found.count(kind) for kind in ("changed", "lost", "gained")}
    old, new = (found.same + counts["changed"] + counts[kind] for kind in ("lost", "gained"))
    shown = next(iter(found.differences), None)
    return {
        "targets": targets,
        "before": old,
        "after": new,
        "same": found.same,
        **counts,
        "place": door.text(shown.place) if shown else "",
        "difference": [*difference_lines(shown, now.order, context)] if shown else [],
    }


# --- fields


def _field_uses(mapping: MappingDocument, paths: Sequence[PathReach]) -> Iterator[FieldUse]:
    """The fields that a mapping takes, each with its colour if its values go into records."""
    colours: dict[str, int] = {}
    for one in paths:
        path = one.path.replace(" › ", ".").replace(".[", "[")
        try:
            field = row_path(path)
        except PathSyntaxError:  # of lists that are walked in step, or of a tree
            field = path
        if mapping.get("group"):
            field = field.removeprefix("[*]").removeprefix(".")
        target = _target_name(mapping, one.pointer)
        inside = re.split(r"[. ]", target.rpartition(": ")[2])[0]
        taken = inside in _COLOURED and "/each" not in one.pointer
        number = colours.setdefault(field, len(colours)) if taken else None
        yield FieldUse(field, path, target, number)


def _target_name(mapping: MappingDocument, pointer: str) -> str:
    """The part of a mapping that a pointer leads to: `text`, `user`, `role`, `meta.language`."""
    for number, (place, layout) in enumerate(document_layouts(mapping)):
        for part in layout_parts(layout, place):
            if not f"{pointer}/".startswith(f"{part.pointer}/"):
                continue
            inside = pointer.removeprefix(part.pointer).split("/")[1:2]
            name = part.key
            if part.key == "messages" and inside == ["content"]:
                name = message_target(layout, int(part.pointer.rpartition("/")[2]))
            elif part.key == "messages" and inside:
                return _INSIDE.get(inside[0], part.key)
            return f"alternative {number}: {name}" if number else name
    return pointer.strip("/").partition("/")[0]


def _view_fields(conversation: Conversation, context: Context, uses: Sequence[FieldUse]) -> Facts:
    """The tree of the fields, and the speakers whose roles the mapping sets."""
    order, mapping = conversation.order, conversation.mapping
    door = context.door(order.source, conversation.spec)
    if door not in _READ:
        read = read_data(*context.source_and_sample(order.source, conversation.spec))
        _READ[door] = read.through(door).view.facts, read.view.facts
    facts, raw = _READ[door]
    targets, by_path = list_targets(mapping), dict[str, list[FieldUse]]()
    for use in uses:
        by_path.setdefault(use.field, []).append(use)
    known = {one.path: one for one in facts.paths[:_FIELDS] if one.path != "$"}
    held = {use.target for use in uses}
    depths: dict[str, int] = {}
    fields: list[Facts] = []
    for path, one in known.items():
        parent = one.outer.path if one.outer and one.outer.path in depths else None
        depths[path] = depths[parent] + 1 if parent else 0
        place = {"parent": parent, "depth": depths[path], "of": facts.rows}
        ways = {"uses": view_uses(one, targets, known, held)}
        fields.append({**_view_field(one, parent or "", by_path.get(path, [])), **place, **ways})
    counts = {one.path: dict(one.values) for one in raw.paths}
    roles = list(_view_roles(mapping, uses, counts, door))
    more = max(len(facts.paths) - _FIELDS, 0) + facts.cut
    return {"fields": fields, "fields_more": more, "roles": roles or None}


def _view_field(facts: PathFacts, parent: str, taken: Sequence[FieldUse]) -> Facts:
    """What a field holds, and what the mapping takes it for."""
    values = [[cut_text(text_of(value), _CELL), count] for value, count in facts.values]
    return {
        "path": facts.path,
        "label": facts.path.removeprefix(parent).lstrip("."),
        "types": [*facts.types],
        "rows": _count_filled(facts),
        "examples": [cut_text(text, _CELL) for text in facts.examples],
        "values": values,
        "colour": next((use.colour for use in taken if use.colour is not None), None),
        "targets": [*dict.fromkeys(use.target for use in taken)],
    }


def _count_filled(facts: PathFacts) -> int:
    """The rows with a value that is neither null nor blank."""
    places = zip(facts.hit_rows, facts.hits, strict=True)
    blank = (None, "")
    return len(
        {row for row, one in places if (one.strip() if isinstance(one, str) else one) not in blank}
    )


def _view_roles(
    mapping: MappingDocument,
    uses: Sequence[FieldUse],
    counts: Mapping[str, dict[Json, int]],
    door: Door,
) -> Iterator[Facts]:
    """The names of speakers with their roles; one that may not be shown has no command."""
    found: dict[str, int] = {}
    for use in uses:
        if use.target == "role":
            values = counts.get(use.field, {})
            found |= {name: count for name, count in values.items() if isinstance(name, str)}
    roles: dict[str, str | None] = {name: name for name in ROLES}  # else as they are
    stated: dict[str, str | None] = {}
    for _, layout in document_layouts(mapping):
        for message in layout.get("messages") or []:
            role = message["role"]
            stated |= role.get("map") or role.get("split") or {} if isinstance(role, dict) else {}
    for name in dict.fromkeys((*stated, *found)):
        shown = door.text(name)
        typed = name if name.isprintable() and not re.search(r"[\s\"]", name) else json.dumps(name)
        role = (stated if stated else roles).get(name)
        yield {
            "name": shown,
            "count": found.get(name),
            "role": role,
            "command": f"role {typed}" if shown == name else None,
        }


# --- rows beside records


def _view_examples(
    conversation: Conversation, context: Context, door: Door, uses: Sequence[FieldUse]
) -> Iterator[Facts]:
    """Rows beside their first record; without a mapping that gives records rows alone."""
    order, pairs = conversation.order, list[tuple[Json, Json]]()
    if conversation.state.get("check"):
        with suppress(MappingError):
            trial = try_out(
                context, order, conversation.mapping, where="the mapping", show=_EXAMPLES
            )
            pairs += shown_report(context, order, trial, show=_EXAMPLES).examples
    if not pairs:
        rows = context.sample(order.source, order.spec).rows
        pairs = [(one.value, None) for one in rows[:_EXAMPLES]]
    colours = {one.field: one for one in uses if one.colour is not None}
    layouts = [one for _, one in document_layouts(conversation.mapping)]
    has_each = any(one.get("each") for one in layouts)  # then a row may give several records
    for row, record in pairs:
        shown, made = door.value(row).json, door.value(record).json
        found = [
            (text, use)
            for use in uses
            if use.colour is not None
            for value in values_at(use.path, Node(shown))
            for text in _texts_of(value)
        ]
        records = [list(islice(_record_lines(made, found), _LINES))] if made else []
        yield {
            "row": list(islice(_row_lines(shown, (), "", colours, None), _LINES)),
            "records": records,
            "more": has_each and bool(records),
            "hidden": shown != row,
        }


def _texts_of(value: Json) -> Iterator[str]:
    if isinstance(value, list | dict):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts_of(one)
    elif value is not None:
        yield text_of(value)


def _row_lines(
    value: Json,
    place: tuple[str, ...],
    label: str,
    colours: Mapping[str, FieldUse],
    around: FieldUse | None,
) -> Iterator[Facts]:
    """A row as lines, one a value; what the mapping takes has its colour."""
    path = join_path(*place) if place else ""
    use = colours.get(path) or colours.get(path.removeprefix("[*].")) or around
    line: Facts = {"depth": max(len(place) - 1, 0), "label": label, "path": path or None}
    if not isinstance(value, list | dict):
        yield {**line, "spans": [_span(cut_text(text_of(value), _TEXT), use)]}
        return
    if place:
        yield {**line, "spans": [_span(f"{len(value):,} {_kind_of(value)}", None)]}
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _row_lines(one, (*place, key), key, colours, use)
        return
    for number, one in enumerate(value[:_ELEMENTS]):
        yield from _row_lines(one, (*place, "[*]"), str(number), colours, use)
    if len(value) > _ELEMENTS:
        more = _span(f"(+{len(value) - _ELEMENTS:,} more)", None)
        yield {"depth": len(place), "label": "", "path": None, "spans": [more]}


def _kind_of(value: Json) -> str:
    return "elements" if isinstance(value, list) else "fields"


def view_record(record: Json) -> list[Facts]:
    """A unified record as lines without colours."""
    return list(islice(_record_lines(record, ()), _LINES))


def _record_lines(record: Json, found: Iterable[tuple[str, FieldUse]]) -> Iterator[Facts]:
    """A record as lines; texts that stand in the row have the colour of their field."""
    told = [*found]
    said = [(speaker_text(one), one["role"], one["content"]) for one in record.get("messages", ())]
    for label, role, text in [*_outer_texts(record), *said]:
        values = [one for one in told if role in one[1].target or one[1].target.startswith("mess")]
        yield {"depth": 0, "label": label, "path": None, "spans": _split_text(text, values)}
    for key, value in record["meta"].items():
        if value is not None:
            values = [one for one in told if one[1].target == f"meta.{key}"]
            spans = _split_text(text_of(value), values)
            yield {"depth": 0, "label": f"meta.{key}", "path": None, "spans": spans}


def _outer_texts(record: Json) -> Iterator[tuple[str, str, str]]:
    for key in ("text", "system", "tools"):
        if record.get(key) is not None:
            yield key, key, record[key]


def _split_text(text: str, values: Iterable[tuple[str, FieldUse]]) -> list[Facts]:
    """A text as spans: each value is looked for once, the longest first, in what has no colour."""
    parts: list[tuple[str, FieldUse | None]] = [(text, None)]
    for value, use in sorted(values, key=lambda one: -len(one[0])):
        wanted = value.strip()
        for place, (part, taken) in enumerate(parts):
            if taken or not wanted:
                continue
            whole = len(wanted) < _SHORT and wanted not in (one.strip() for one in part.split("\n"))
            at = -1 if whole else part.find(wanted)
            if at >= 0:
                end = at + len(wanted)
                parts[place : place + 1] = [(part[:at], None), (wanted, use), (part[end:], None)]
                break
    return list(_cut_spans(parts))


def _cut_spans(parts: Iterable[tuple[str, FieldUse | None]]) -> Iterator[Facts]:
    left = _TEXT
    for text, use in parts:
        if text and left > 0:
            yield _span(cut_text(text, left), use)
        left -= len(text)


def _span(text: str, use: FieldUse | None) -> Facts:
    return {
        "text": text,
        "colour": use.colour if use else None,
        "field": use.field if use else None,
    }
