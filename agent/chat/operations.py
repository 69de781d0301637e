"""Work on the data of a conversation: begin it, try each change, compare records, convert.

Values that a person types are matched with the data: `0` may be the text "0" there, and a name may
be misspelled. Other mappings that could be meant are the rules' own, the other mode's, and the
runners-up.
"""

import difflib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

from ingot.agent.chat.commands import ValueSyntaxError, split_outside_quotes
from ingot.agent.chat.conversation import Conversation, Step
from ingot.agent.chat.edits import EDIT, WHERE, Document, Edit, apply_edits
from ingot.agent.judging.trial import Trial, try_out
from ingot.agent.nodes.convert import convert
from ingot.agent.nodes.discover import spec_of_order
from ingot.agent.nodes.report import report
from ingot.agent.nodes.validate import validate
from ingot.agent.privacy import hide_secrets, named_secrets, redact_value
from ingot.agent.proposing.columns import text_of, values_at
from ingot.agent.proposing.llm.question import add_file_facts
from ingot.agent.proposing.proposal import Proposal
from ingot.agent.reporting.mapping_words import cut_text
from ingot.agent.reporting.preview import record_lines
from ingot.agent.review.markdown_escaping import diff_lines
from ingot.agent.review.replay import (
    Difference,
    RecordMatch,
    count_sampled_rows,
    match_records,
    place_records,
)
from ingot.agent.session import typed_state
from ingot.agent.state import Context, Order, Review, State
from ingot.converters.errors import MappingError, Problem, SourceError
from ingot.converters.json_yaml import encode
from ingot.converters.mapping.bind import to_document
from ingot.converters.mapping.language import META_KEYS
from ingot.converters.paths import Node, PathSyntaxError
from ingot.converters.rows import Json
from ingot.converters.sources.sample import Sample

_SHOWN = 8


def _type_edits(edits: Sequence[Edit], mapping: Document, sample: Sample) -> tuple[Edit, ...]:
    """Give values of `in` and `not_in` the type that the sampled rows have.

    A value that is spelled like one of the data is replaced by it; others stay.
    """
    nodes = [Node(row.value, row.key) for row in sample.rows]
    made = []
    for number, edit in enumerate(edits):
        if edit["set"] == "where":
            edit = {**edit, "where": [_type_condition(one, nodes) for one in edit["where"]]}
        if edit["set"] == "role" and len(edits) == 1:  # else an edit before may have changed them
            _require_speaker(edit, number, mapping, nodes)
        made.append(edit)
    return tuple(made)


def _type_condition(condition: dict[str, Json], nodes: Sequence[Node]) -> dict[str, Json]:
    if condition["op"] not in ("in", "not_in"):
        return condition
    try:
        found = [values_at(condition["path"], node)[:1] for node in nodes]
    except PathSyntaxError:  # said as a problem where the mapping is tried
        return condition
    scalars = [one for ones in found for one in ones if isinstance(one, str | bool | int | float)]
    known = {(type(value), value): value for value in scalars}
    spelt = {text_of(value): value for value in known.values()}
    values = [
        value
        if (type(value), value) in known or value is None
        else spelt.get(text_of(value), value)
        for value in condition["values"]
    ]
    return {**condition, "values": values}


# --- speakers


def _require_speaker(edit: Edit, number: int, mapping: Document, nodes: Sequence[Node]) -> None:
    """Check that a sampled row, or the mapping, names the speaker; markers are not checked."""
    known = list(dict.fromkeys(_speaker_names(mapping, nodes)))
    if not known or edit["value"] in known:
        return
    named = ", ".join(map(repr, known[:_SHOWN]))
    near = difflib.get_close_matches(edit["value"], known, 1)
    expected = f"a name of the data: {named}"
    nearest = near[0] if near else None
    problem = Problem(f"/edits/{number}/value", EDIT, expected, repr(edit["value"]), nearest)
    raise MappingError(WHERE, (problem,))


def _speaker_names(mapping: Document, nodes: Sequence[Node]) -> Iterator[str]:
    around = mapping.get("each") or ""
    for message in mapping.get("messages") or []:
        role, each = message["role"], message.get("each")
        if not isinstance(role, dict) or "split" in role or isinstance(each, list):
            continue
        path = ".".join(part for part in (around, each, role["path"]) if part)
        yield from role.get("map") or {}
        for node in _row_nodes(mapping, nodes):
            yield from (value for value in values_at(path, node) if isinstance(value, str))


def _row_nodes(mapping: Document, nodes: Sequence[Node]) -> Iterator[Node]:
    """Yield rows as paths start at them: a group is the list of its rows."""
    if mapping.get("group"):
        yield Node([node.value for node in nodes])
    else:
        yield from nodes


_NO_PROPOSAL = Proposal(
    decision="unmappable", mapping=None, confidence=1.0, reason="settled in conversation."
)


def begin_conversation(
    id_: str, order: Order, context: Context, tell: Callable[[str], None]
) -> Conversation:
    """Begin a conversation about what the mapper proposes."""
    from ingot.agent.graph import build_graph

    channels = {"order": encode(_trial_order(order))}
    for step in build_graph().stream(channels, context=context, stream_mode="updates"):
        for node, update in step.items():
            channels |= update or {}
            tell(node)
    state = typed_state(channels)
    proposal = state.get("proposal")
    first = Step(
        words="", by=proposal.mapper if proposal else order.mapper, state=_open_state(state)
    )
    return Conversation(id=id_, order=order, steps=(first,), usage=state.get("usage"))


def _trial_order(order: Order) -> Order:
    """Return the order of a state that is only tried: nothing is written, nothing approved."""
    return replace(order, dry_run=True, yes=False)


def _open_state(state: State) -> State:
    """Return the state as a conversation keeps it: neither stopped nor reviewed."""
    kept = {key: value for key, value in state.items() if key not in ("outcome", "result", "key")}
    return cast("State", {**kept, "stopped": None, "review": None})


def change_mapping(
    state: State,
    edits: Sequence[Edit],
    context: Context,
    *,
    provenance: dict[str, Json] | None = None,
) -> State:
    """Apply edits and check them on the sample; `problems` of the state say what is wrong."""
    proposal, turn, order = state.get("proposal"), state["turn"], state["order"]
    mapping = (proposal and proposal.mapping) or {"version": 2}
    told = replace(turn, provenance={**turn.provenance, **(provenance or {})})
    source, sample = context.source_and_sample(order.source, spec_of_order(order))
    made = add_file_facts(apply_edits(mapping, _type_edits(edits, mapping, sample)), source, sample)
    return replace_mapping({**state, "turn": told}, made, context)


def refusal_problems(
    before: State, after: State, edits: Sequence[Edit] = ()
) -> tuple[Problem, ...]:
    """Say why a change is refused: it names what is nowhere, or cannot be run at all.

    What is half done (a question without its answer yet, another `each` before its texts) is
    accepted, and its problems are shown.
    """
    problems, known = after["problems"], before.get("problems", ())
    moved = any(one["set"] in _AROUND for one in edits)
    nowhere = ("unreadable",) if moved else ("unreadable", "unresolved_path")
    new = tuple(one for one in problems if one.code in nowhere and one not in known)
    return new or (() if after.get("check") else problems)


_AROUND = ("each", "group", "root")  # where all other paths start


def replace_mapping(state: State, mapping: dict[str, Json], context: Context) -> State:
    """Put another mapping, made by a person, into a state, and check it on the sample."""
    proposal = replace(
        state.get("proposal") or _NO_PROPOSAL,
        mapping=mapping,
        mapper="edited",
        reason=_NO_PROPOSAL.reason,
    )
    begun_with: State = {
        **state,
        "proposal": proposal,
        "problems": (),
        "check": None,
        "opinion": None,
        "looked": None,
    }
    return {**begun_with, **validate(begun_with, context)}


def recheck_conversation(conversation: Conversation, context: Context) -> Conversation:
    """Check the current mapping again on the data and by the order as they are now."""
    step = conversation.steps[conversation.at]
    proposal = step.state.get("proposal")
    if proposal is None or not proposal.mapping:
        return conversation
    state: State = {**step.state, "order": _trial_order(conversation.order), "problems": ()}
    now = replace(step, state={**state, **validate(state, context)})
    steps = list(conversation.steps)
    steps[conversation.at] = now
    return replace(conversation, steps=tuple(steps))


def convert_conversation(conversation: Conversation, context: Context) -> State:
    """Convert the approved mapping into the order's `out`, and return the state."""
    order = replace(conversation.order, dry_run=False, yes=False)
    review = Review(decision="approve", why="approved in conversation")
    state: State = {**conversation.state, "order": order, "review": review}
    state = {**state, "usage": conversation.usage}
    state = {**state, **convert(state, context)}
    return {**state, **report(state)}


_OTHER_MODE = {"pt": "sft", "sft": "pt"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Alternative:
    """Another mapping, bound, and what it is in one line."""

    title: str
    mapping: dict[str, Json]


def find_alternatives(conversation: Conversation, context: Context) -> tuple[Alternative, ...]:
    """Find other mappings that pass on the sample, each once."""
    seen = [_without_provenance(conversation.mapping)]
    found = []
    for title, document in _candidate_mappings(conversation, context):
        passed = _bind_if_valid(document, conversation, context)
        if passed is not None and _without_provenance(passed) not in seen:
            seen.append(_without_provenance(passed))
            found.append(Alternative(title=title, mapping=passed))
    return tuple(found)


def _without_provenance(document: dict[str, Json]) -> dict[str, Json]:
    return {key: value for key, value in document.items() if key != "provenance"}


def _bind_if_valid(
    document: dict[str, Json], conversation: Conversation, context: Context
) -> dict[str, Json] | None:
    try:
        trial = try_out(context, conversation.order, document, where="an alternative")
    except (MappingError, SourceError):  # it reads the files otherwise, and they cannot be read so
        return None
    return None if trial.report.problems else to_document(trial.mapping)


def _candidate_mappings(
    conversation: Conversation, context: Context
) -> Iterator[tuple[str, dict[str, Json]]]:
    state = conversation.steps[0].state
    opinion, first = state.get("opinion"), state.get("proposal")
    proposals = [opinion.proposal] if opinion else []
    for mode in ("auto", _OTHER_MODE.get(conversation.decision, "sft")):
        if proposal := _rules_proposal(conversation, context, mode):
            proposals.append(proposal)
    for one in proposals:
        if one.mapping:
            sure = f"{one.decision}, confidence {one.confidence:.2f}"
            yield f"the rules' {sure}: {one.reason}", one.mapping
    if first:
        yield from _runners_up(conversation, first)


def _rules_proposal(conversation: Conversation, context: Context, mode: str) -> Proposal | None:
    order = conversation.order
    source, sample = context.source_and_sample(order.source, spec_of_order(order))
    request = replace(order.request(), mode=mode)
    return context.mapper_named("rules")(source, sample, request, ()).proposal


def _runners_up(
    conversation: Conversation, proposal: Proposal
) -> Iterator[tuple[str, dict[str, Json]]]:
    """Yield the second-best fields of the mapper's choices, each in the current mapping."""
    for one in proposal.evidence:
        edit = _runner_up_edit(one.target, one.runner_up or "")
        if edit is None:
            continue
        try:
            made = apply_edits(conversation.mapping, [edit])
        except MappingError:
            continue
        yield f"{one.target} from {one.runner_up} (runner-up of {one.choice})", made


def _runner_up_edit(target: str, runner_up: str) -> Edit | None:
    try:
        fields = list(split_outside_quotes(runner_up, ","))
    except ValueSyntaxError:
        return None
    if target == "text":
        return {"set": "text", "parts": fields, "alternative": None}
    key = target.removeprefix("meta.")
    if key in META_KEYS and len(fields) == 1:
        return {"set": "meta", "key": key, "value": fields[0]}
    return None


_TEXT, _LINE, _MOST = 20_000, 160, 14


def match_states(before: State, after: State, context: Context) -> RecordMatch | None:
    """Match the records of two states' mappings; None if one of them makes none."""
    old, new = _try_state(before, context), _try_state(after, context)
    if old is None or new is None:
        return None
    name = after["order"].source_name or new.source.name
    sides = (place_records(one, source_name=name) for one in (old, new))
    return match_records(*sides, rows=(count_sampled_rows(old), count_sampled_rows(new)))


def _try_state(state: State, context: Context) -> Trial | None:
    proposal = state.get("proposal")
    if proposal is None or not proposal.mapping or not state.get("check"):
        return None
    try:
        return try_out(context, state["order"], proposal.mapping, where="the mapping", show=0)
    except MappingError:
        return None


def difference_lines(one: Difference, order: Order, context: Context) -> list[str]:
    """Show what differs between two records, as lines that begin with `- `, `+ ` or blanks."""
    if order.share_values == "raw":
        old, new = one.old, one.new
    else:
        _, sample = context.source_and_sample(order.source, spec_of_order(order))
        secrets = named_secrets([row.value for row in sample.rows])
        old, new = (redact_value(hide_secrets(side, secrets)) for side in (one.old, one.new))
    found = list(diff_lines(list(_record_texts(old)), list(_record_texts(new))))
    left = len(found) - _MOST
    return found if left <= 0 else [*found[:_MOST], f"  ...(+{left} lines)"]


def _record_texts(record: dict[str, Json] | None) -> Iterator[str]:
    for name, text in record_lines(record, most=_TEXT) if record else ():
        first, *more = text.split("\n")
        yield f"{name}: {cut_text(first, _LINE)}"
        yield from (f"  {cut_text(line, _LINE)}" for line in more)
