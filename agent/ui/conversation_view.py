"""What the page shows of a conversation: fields, mapping, gates, rows beside their records.

Everything goes through the redactor of the data set. A colour is the number of a field that the
mapping takes; it is the same in the tree of fields, in the row and in the record.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from weakref import WeakKeyDictionary

from ingot.agent.chat.commands import command_usages
from ingot.agent.chat.conversation import Conversation
from ingot.agent.chat.operations import compare_targets, difference_lines, match_states
from ingot.agent.chat.responses import Reply
from ingot.agent.context import Context, OpenedSource
from ingot.agent.judging.policy import failed_gates, gates_of_state, state_person_reasons
from ingot.agent.judging.problem_words import told_problems
from ingot.agent.privacy import Redactor, SafeProblem
from ingot.agent.proposing.columns import text_of
from ingot.agent.proposing.llm.data_block import read_data
from ingot.agent.proposing.proposal import (
    confidence_text,
)
from ingot.agent.reporting.mapping_words import cut_text, mapping_lines
from ingot.agent.reporting.report import reason_text
from ingot.agent.state import Order
from ingot.agent.ui.example_rows import CELL, Facts, view_rows
from ingot.agent.ui.field_uses import (
    FieldUse,
    list_targets,
    message_target,
    row_path,
    view_choices,
    view_uses,
)
from ingot.converters.errors import MappingError, SourceError
from ingot.converters.json_yaml import encode
from ingot.converters.mapping.check import leading_paths
from ingot.converters.mapping.language import META_KEYS, ROLES, Mapping, speaker_roles
from ingot.converters.mapping.path_uses import path_uses
from ingot.converters.mapping.walk import layout_parts, mapping_layouts, select_messages
from ingot.converters.paths import PathSyntaxError
from ingot.converters.rows import Json
from ingot.converters.sources import SourceSpec
from ingot.converters.sources.profile import PathFacts, Profile

_FIELDS = 400
_INSIDE = {"role": "role", "where": "where", "loss_mask": "trained"}  # parts of a message
_GIVEN = {"text", "system", "tools", *(f"meta.{one}" for one in META_KEYS)}
# What the sample behind a redactor holds, as it may be shown and as it is: hiding takes a while.
_READ: WeakKeyDictionary[Redactor, tuple[Profile, Profile]] = WeakKeyDictionary()


def view_conversation(conversation: Conversation, context: Context) -> Facts:
    """Return everything that the page shows of a conversation, but where its files lie."""
    state = conversation.state
    proposal, check = state.get("proposal"), state.get("check")
    redactor = context.data.redactor
    uses = list_uses(conversation)
    held = failed_gates(state.get("problems", ()))
    own = proposal if proposal and proposal.mapper != "edited" else None
    asking, first = context.asking, conversation.steps[0].state.get("proposal")
    return {
        "id": conversation.id,
        "decision": conversation.decision,
        "mapper": proposal.mapper if proposal else None,
        "confidence": confidence_text(own.confidence) if own else None,
        "reason": reason_text(proposal, check) if proposal else "",
        "model": f"{asking.endpoint.model} at {asking.endpoint.host}" if asking else None,
        "step": {"at": conversation.at + 1, "of": len(conversation.steps)},
        "steps": [{"words": one.words, "by": one.by} for one in conversation.steps],
        "lines": [[*line] for line in mapping_lines(conversation.mapping, redactor)],
        "mapping": redactor.value(conversation.document).json,
        **_view_fields(conversation, context, uses),
        "targets": _view_targets(conversation.mapping, uses),
        "gates": [encode(one) for one in gates_of_state(state)],
        "problems": _view_problems(state.get("problems", ())),
        "person": state_person_reasons(state),
        "can_approve": not held and conversation.decision in ("pt", "sft", "irrelevant"),
        "evidence": [encode(one) for one in first.evidence] if first else [],
        "sample": {"rows": check.rows, "ok": check.ok_rows, "records": check.records}
        if check
        else None,
        **view_rows(conversation, context, uses),
        "said": [{"who": one.who, "text": one.text} for one in conversation.said],
    }


def _view_problems(problems: Sequence[SafeProblem]) -> list[Facts]:
    """What is wrong, the line that solves it, and the control that does so too."""
    roles = ("unmapped_value", "/role")
    return [
        {
            "words": one.words or str(one),
            "command": one.command,
            "control": "roles" if one.code == roles[0] and roles[1] in one.pointer else None,
        }
        for one in told_problems(problems)
    ]


def _view_targets(mapping: Mapping, uses: Sequence[FieldUse]) -> list[Facts]:
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
    """Return what a line of a conversation gave, without the view of where it stands now."""
    redactor = context.data.redactor
    listed = "alternatives" in reply.show
    return {
        "say": reply.say,
        "heard": reply.heard,
        "problems": _view_problems(reply.problems),
        "effect": _view_effect(reply, context, redactor) if reply.before else None,
        "commands": [
            [*one]
            for one in command_usages(reply.text, under_review=reply.conversation.under_review)
        ]
        if "help" in reply.show
        else None,
        "alternatives": [
            {
                "title": redactor.text(one.title),
                "decision": one.decision,
                "confidence": None if one.confidence is None else confidence_text(one.confidence),
                "why": redactor.text(one.why or one.title),
                "rows": one.rows,
                "lines": [[*line] for line in mapping_lines(one.mapping, redactor)],
            }
            for one in reply.others
        ]
        if listed
        else None,
    }


def _view_effect(reply: Reply, context: Context, redactor: Redactor) -> Facts | None:
    """What a change did to the mapping and to the records of the sample."""
    before, now = reply.before, reply.conversation
    if before is None:
        return None
    found = match_states(before.state, now.state, context)
    targets = [[*map(redactor.text, row)] for row in compare_targets(before.mapping, now.mapping)]
    if found is None:
        return {"targets": targets}
    counts = {kind: found.count(kind) for kind in ("changed", "lost", "gained")}
    old, new = (found.same + counts["changed"] + counts[kind] for kind in ("lost", "gained"))
    shown = next(iter(found.differences), None)
    hidden = context.data.redactors[now.order.share_values]
    return {
        "targets": targets,
        "before": old,
        "after": new,
        "same": found.same,
        **counts,
        "place": redactor.text(shown.place) if shown else "",
        "difference": [*difference_lines(shown, hidden)] if shown else [],
    }


# --- fields


def list_uses(conversation: Conversation) -> list[FieldUse]:
    """List the fields that the mapping takes, with a colour where values go into records."""
    return list(_field_uses(conversation.mapping)) if conversation.state.get("check") else []


def _field_uses(mapping: Mapping) -> Iterator[FieldUse]:
    colours: dict[str, int] = {}
    for one in path_uses(mapping):
        path = ".".join(leading_paths(one)).replace(".[", "[")
        try:
            field = row_path(path)
        except PathSyntaxError:  # of lists that are walked in step, or of a tree
            field = path
        if mapping.group:
            field = field.removeprefix("[*]").removeprefix(".")
        target, lines = _target_of(mapping, one.pointer)
        taken = lines and "/each" not in one.pointer
        number = colours.setdefault(field, len(colours)) if taken else None
        yield FieldUse(field, path, target, number, lines)


def _target_of(mapping: Mapping, pointer: str) -> tuple[str, frozenset[str]]:
    """Return the part of a mapping that a pointer leads to, and the lines of records it gives.

    Parts are `text`, `user`, `role`, `meta.language`; lines are keys of a record, and roles.
    """
    for number, (place, layout) in enumerate(mapping_layouts(mapping)):
        for part in layout_parts(layout, place):
            if not f"{pointer}/".startswith(f"{part.pointer}/"):
                continue
            inside = pointer.removeprefix(part.pointer).split("/")[1:2]
            name, lines = part.key, frozenset([part.key]) & _GIVEN
            if part.key == "messages":
                lines = frozenset(ROLES)
                if inside and inside != ["content"]:
                    name = _INSIDE.get(inside[0], part.key)
                    return name, lines if name == part.key else frozenset()
                if inside:
                    at = int(part.pointer.rpartition("/")[2])
                    name = message_target(layout.messages or (), at)
                    lines = lines & {name} or lines
            return (f"alternative {number}: {name}" if number else name), lines
    return pointer.strip("/").partition("/")[0], frozenset()


def _view_fields(conversation: Conversation, context: Context, uses: Sequence[FieldUse]) -> Facts:
    """The tree of the fields, and the speakers whose roles the mapping sets."""
    order, mapping = conversation.order, conversation.mapping
    reading = _shown_reading(order, mapping.source, context.data)
    redactor = reading.redactor
    if redactor not in _READ:
        read = read_data(reading.source, reading.sample)
        _READ[redactor] = read.through(redactor).view.facts, read.view.facts
    facts, raw = _READ[redactor]
    targets, by_path = list_targets(mapping), dict[str, list[FieldUse]]()
    for use in uses:
        by_path.setdefault(use.field, []).append(use)
    known = {one.path: one for one in facts.paths[:_FIELDS] if one.path != "$"}
    real = {one.path: one for one in raw.paths}
    held = {use.target for use in uses}
    depths: dict[str, int] = {}
    fields: list[Facts] = []
    for path, one in known.items():
        parent = one.outer.path if one.outer and one.outer.path in depths else None
        depths[path] = depths[parent] + 1 if parent else 0
        place = {"parent": parent, "depth": depths[path], "of": facts.rows}
        made = _view_field(one, parent or "", by_path.get(path, []))
        ways = {
            "uses": view_uses(one, targets, known, held),
            "choices": view_choices(one, real.get(path), mapping),
        }
        fields.append({**made, **place, **ways})
    counts = {path: dict(one.values) for path, one in real.items()}
    roles = list(_view_roles(mapping, uses, counts, redactor))
    more = max(len(facts.paths) - _FIELDS, 0) + facts.cut
    return {"fields": fields, "fields_more": more, "roles": roles or None}


def _shown_reading(order: Order, stated: SourceSpec, data: OpenedSource) -> OpenedSource:
    """How the rows are read whose fields are shown: as the mapping says, if that may be shown."""
    with suppress(MappingError, SourceError):
        if (
            stated != SourceSpec()
            and (read := data.readings.read(stated)).show_sample(order) is not None
        ):
            return read
    return data


def _view_field(facts: PathFacts, parent: str, taken: Sequence[FieldUse]) -> Facts:
    """What a field holds, and what the mapping takes it for."""
    values = [[cut_text(text_of(value), CELL), count] for value, count in facts.values]
    return {
        "path": facts.path,
        "label": facts.path.removeprefix(parent).lstrip("."),
        "types": [*facts.types],
        "rows": _count_filled(facts),
        "examples": [cut_text(text, CELL) for text in facts.examples],
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
    mapping: Mapping,
    uses: Sequence[FieldUse],
    counts: dict[str, dict[Json, int]],
    redactor: Redactor,
) -> Iterator[Facts]:
    """The names of speakers with their roles; one that may not be shown has no command."""
    found: dict[str, int] = {}
    for use in uses:
        if use.target == "role":
            values = counts.get(use.field, {})
            found |= {name: count for name, count in values.items() if isinstance(name, str)}
    roles: dict[str, str | None] = {name: name for name in ROLES}  # else as they are
    stated: dict[str, str | None] = {}
    for message in select_messages(mapping):
        stated |= speaker_roles(message.role)
    for name in dict.fromkeys((*stated, *found)):
        shown = redactor.text(name)
        typed = name if name.isprintable() and not re.search(r"[\s\"]", name) else json.dumps(name)
        role = (stated if stated else roles).get(name)
        if name in stated and role is None:
            role = "drop"  # the mapping leaves its messages out
        yield {
            "name": shown,
            "count": found.get(name),
            "role": role,
            "command": f"role {typed}" if shown == name else None,
        }
