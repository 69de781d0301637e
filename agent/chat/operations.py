"""Work on the data of a conversation: begin it, try each change, compare records, convert.

Values that a person types are matched with the data: `0` may be the text "0" there, and a name may
be misspelled. Other mappings that could be meant are the rules' own, the other mode's, and the
runners-up.
"""

import difflib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import cast

from ingot.agent.chat.conversation import Conversation, Step
from ingot.agent.chat.edits import EDIT, WHERE, Edit, apply_edits
from ingot.agent.chat.file_choices import FILE_EDITS, name_files
from ingot.agent.chat.typed_values import (
    with_known_speakers,
    with_known_values,
)
from ingot.agent.context import Context
from ingot.agent.judging.problem_words import typed_name
from ingot.agent.judging.trial import Trial, shown_problems, try_out
from ingot.agent.privacy import EMPTY_TEXT, Redactor, Safe, SafeProblem, SafeValue
from ingot.agent.proposing.columns import values_at
from ingot.agent.proposing.llm.question import add_file_facts
from ingot.agent.proposing.proposal import (
    Proposal,
    SafeProposal,
    correct_proposal,
    value_strings,
)
from ingot.agent.proposing.readings import plain_reading
from ingot.agent.proposing.rules.metadata import find_meta, mapping_language
from ingot.agent.reporting.mapping_words import cut_text
from ingot.agent.reporting.preview import record_lines
from ingot.agent.review.diff.mapping_changes import compare_mappings
from ingot.agent.review.diff.normal_form import simplest_form
from ingot.agent.review.markdown_escaping import diff_lines, first_lines
from ingot.agent.review.replay import (
    Difference,
    RecordMatch,
    match_trials,
)
from ingot.agent.session import checked_state
from ingot.agent.state import Order, State
from ingot.agent.steps.course import Run, advance, approve, end
from ingot.converters.errors import MappingError, Problem, SourceError
from ingot.converters.mapping.bind import NO_MAPPING, read_changed
from ingot.converters.mapping.documents.writer import part_document
from ingot.converters.mapping.language import Mapping, RoleFromData, Value
from ingot.converters.mapping.lookup import Lookup
from ingot.converters.paths import Node, compile_path
from ingot.converters.rows import Provenance
from ingot.converters.sources import Source, SourceSpec
from ingot.converters.sources.sample import Sample

_SHOWN = 8
_JUDGED_ROWS = 200  # by whose texts the language is judged


def _type_edits(
    edits: Sequence[Edit], mapping: Mapping, sample: Sample, source: Source
) -> Iterator[Edit]:
    """Yield edits with values typed as in the sampled rows, and files named as in the source."""
    nodes = [Node(row.value, row.key) for row in sample.rows]
    for number, edit in enumerate(edits):
        if edit["set"] == "role" and len(edits) == 1:  # else an edit before may have changed them
            _require_speaker(edit, number, mapping, nodes)
        if edit["set"] == "messages":
            grouped = [Node([node.value for node in nodes])] if mapping.group else nodes
            yield with_known_speakers(edit, grouped)
        elif edit["set"] == "where":
            yield with_known_values(edit, mapping, nodes)
        elif edit["set"] == "files":
            yield name_files(edit, number, source)
        else:
            yield edit


def _require_speaker(edit: Edit, number: int, mapping: Mapping, nodes: Sequence[Node]) -> None:
    """Check that a sampled row, or the mapping, names the speaker; markers are not checked."""
    known = list(dict.fromkeys(_speaker_names(mapping, nodes)))
    if not known or edit["value"] in known:
        return
    speakers, typed = ", ".join(map(repr, known[:_SHOWN])), repr(edit["value"])
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    nearest = next(iter(difflib.get_close_matches(edit["value"], known, 1)), None)
    problem = Problem(
        f"/edits/{number}/value",
        EDIT,
        "a name of the data",
        f"{typed}, not one of {speakers}",
        nearest,
        words=f"No speaker of the data is called {typed}; they are {speakers}{more}.",
        command=f"role {typed_name(nearest)} {edit['role']}" if nearest else "",
    )
    raise MappingError(WHERE, (problem,))


def _speaker_names(mapping: Mapping, nodes: Sequence[Node]) -> Iterator[str]:
    around = mapping.outer.each
    if mapping.group:  # paths start at the list of its rows
        nodes = [Node([node.value for node in nodes])]
    for message in mapping.outer.messages or ():
        role, in_step = message.role, max(len(around), len(message.each)) > 1
        if not isinstance(role, RoleFromData) or in_step or isinstance(role.path, Lookup):
            continue
        path = ".".join(one.text for one in (*around, *message.each, role.path))
        yield from role.map or {}
        for node in nodes:
            yield from (value for value in values_at(path, node) if isinstance(value, str))


_NO_PROPOSAL = SafeProposal(
    Proposal(
        decision="unmappable", mapping=None, confidence=1.0, reason="agreed on in a conversation."
    )
)


def begin_conversation(
    id_: str, order: Order, context: Context, tell: Callable[[str], None]
) -> Conversation:
    """Begin a conversation about what the mapper proposes."""
    run = Run(state={"order": _trial_order(order)}, context=context, on_step=tell)
    return discuss_state(id_, order, checked_state(advance(run)))


def discuss_state(id_: str, order: Order, state: State) -> Conversation:
    """Begin a conversation about the proposal of a state."""
    proposal = state.get("proposal")
    # As a conversation keeps it: neither stopped nor reviewed.
    kept = {key: one for key, one in state.items() if key not in ("outcome", "result")}
    more = {"order": _trial_order(order), "stopped": None, "review": None}
    begun = cast("State", {**kept, **more})
    first = Step(words=EMPTY_TEXT, by=proposal.mapper if proposal else order.mapper, state=begun)
    return Conversation(id=id_, order=order, steps=(first,), usage=state.get("usage"))


def _trial_order(order: Order) -> Order:
    """Return the order of a state that is only tried: nothing is written, nothing approved."""
    return replace(order, dry_run=True, yes=False)


def change_mapping(
    state: State,
    edits: Sequence[Edit],
    context: Context,
    *,
    provenance: Provenance | None = None,
) -> State:
    """Apply edits and check them on the sample; `problems` of the state say what is wrong."""
    proposal, turn, order = state.get("proposal"), state["turn"], state["order"]
    mapping = (proposal and proposal.mapping) or NO_MAPPING
    turn = replace(turn, provenance={**turn.provenance, **(provenance or {})})
    source, sample = context.data.source, context.data.sample
    rows = (
        sample if mapping.source == SourceSpec() else context.readings.read(mapping.source).sample
    )
    typed = list(_type_edits(edits, mapping, rows, source))
    try:
        made = apply_edits(mapping, typed)
    except MappingError as error:
        if any(one.code == EDIT for one in error.problems):
            raise
        wrong = shown_problems(error.problems, mapping, context.data.redactor)
        return {**state, "turn": turn, "check": None, "problems": wrong}
    changed = read_changed(mapping, made)
    state = {**state, "turn": turn}
    if any(one["set"] in FILE_EDITS for one in edits):
        return _read_otherwise(state, changed, context)
    if any(one["set"] == "root" for one in edits):
        with suppress(SourceError):  # which the trial says
            changed = _with_own_id(changed, context.readings.read(changed.source).sample)
    changed = add_file_facts(changed, source, sample)
    if proposal and "language" in proposal.detected:
        proposal, changed = _follow_language(proposal, changed, order, context)
        state = {**state, "proposal": proposal}
    return replace_mapping(state, changed, context)


def _read_otherwise(state: State, changed: Mapping, context: Context) -> State:
    """Put a mapping of other files or another header into a state.

    Where a field that it takes is no more, the rules propose another one for what is read now.
    """
    made = replace_mapping(state, changed, context)
    if not any(one.code in ("unresolved_path", "unreadable") for one in made["problems"]):
        return made
    try:
        read = context.readings.read(changed.source)
        proposal = context.ask_rules(state["order"].request(), read).proposal
    except SourceError:  # said as a problem
        return made
    if proposal is None or proposal.mapping is None:
        return made
    facts = proposal.mapping.source.with_facts(changed.source)
    return replace_mapping(state, replace(proposal.mapping, source=facts), context)


def _with_own_id(mapping: Mapping, sample: Sample) -> Mapping:
    """Return the mapping with the id of the rows of another root in place of their number."""
    outer = mapping.outer
    if outer.meta.get("original_id") != Value(kind="path", path=compile_path("~")) or outer.each:
        return mapping
    taken = frozenset(value_strings(part_document(outer.text)))
    found, _ = find_meta(plain_reading(sample, {}, 1.0, "").view, taken)
    own = Value(kind="path", path=compile_path(found.get("original_id", "~")))
    meta = {**outer.meta, "original_id": own}
    return read_changed(mapping, replace(mapping, outer=replace(outer, meta=meta)))


def _follow_language(
    proposal: SafeProposal, changed: Mapping, order: Order, context: Context
) -> tuple[SafeProposal, Mapping]:
    """Return both with the language of the texts, where it was detected and nobody stated one."""
    stated = changed.outer.meta.get("language")
    if stated != _literal_value(proposal.detected["language"]):
        return proposal, changed
    try:
        report = try_out(context.readings, order, changed, where=WHERE, show=_JUDGED_ROWS).report
    except (MappingError, SourceError):  # said as a problem where the mapping is checked
        return proposal, changed
    _, found, _ = mapping_language([record for _, record in report.examples], None, {})
    language = _literal_value(found.get("language"))
    if language == stated:
        return proposal, changed
    own = {"language": language} if language else {}
    meta = {key: one for key, one in changed.outer.meta.items() if key != "language"} | own
    changed = read_changed(changed, replace(changed, outer=replace(changed.outer, meta=meta)))
    # None: what is detected later, when the other texts are chosen too, is stated again.
    return replace(proposal, detected={"language": None, **found}), changed


def _literal_value(text: str | None) -> Value | None:
    return Value(kind="literal", literal=text) if text else None


def refusal_problems(
    before: State, after: State, edits: Sequence[Edit] = ()
) -> tuple[SafeProblem, ...]:
    """Say why a change is refused: it names what is nowhere, or cannot be run at all.

    What is half done (a question without its answer yet, another `each` before its texts) is
    accepted, and its problems are shown.
    """
    problems, known = after["problems"], before.get("problems", ())
    moved = any(one["set"] in _AROUND for one in edits)
    nowhere = ("unreadable",) if moved else ("unreadable", "unresolved_path")
    new = tuple(one for one in problems if one.code in nowhere and one not in known)
    return new or (() if after.get("check") else problems)


_AROUND = ("each", "group", "root", *FILE_EDITS)  # where all other paths start


def replace_mapping(state: State, mapping: Mapping | None, context: Context) -> State:
    """Put another mapping, made by a person, into a state, and check it on the sample."""
    proposal = correct_proposal(state.get("proposal") or _NO_PROPOSAL, mapping)
    proposal = replace(proposal, reason=_NO_PROPOSAL.reason)
    state = {**state, "proposal": proposal, "problems": (), "check": None}
    state = {**state, "opinion": None, "looked": None}
    return _validated(state, context)


def _validated(state: State, context: Context) -> State:
    """The state with its mapping checked on the sample."""
    return advance(Run(state=state, context=context, step="validate"), until="repair")


def recheck_conversation(conversation: Conversation, context: Context) -> Conversation:
    """Check the current mapping again on the data and by the order as they are now."""
    context.open(conversation.order)
    at, steps = conversation.at, list(conversation.steps)
    proposal = steps[at].state.get("proposal")
    if proposal is None or proposal.mapping is None:
        return conversation
    state: State = {**steps[at].state, "order": _trial_order(conversation.order), "problems": ()}
    steps[at] = replace(steps[at], state=_validated(state, context))
    return replace(conversation, steps=tuple(steps))


def convert_conversation(conversation: Conversation, context: Context) -> State:
    """Convert the approved mapping into the order's `out`, and return the state."""
    order = replace(conversation.order, dry_run=False, yes=False)
    state: State = {**conversation.state, "order": order, "seen": True}
    if halted := state.get("halted"):
        state = {**state, "approved": halted.counts}
    run = Run(state={**state, "usage": conversation.usage}, context=context)
    approve(run, Safe("approved in conversation"))
    advance(run, until="report")
    return end(run)


def conclude_conversation(conversation: Conversation, state: State) -> Conversation:
    """Return the conversation after a conversion: done, or with what has to be approved."""
    if result := state.get("result"):
        return replace(conversation, done=result.out)
    steps, at = list(conversation.steps), conversation.at
    now: State = {"halted": state.get("halted"), "proposal": state["proposal"]}
    steps[at] = replace(steps[at], state={**steps[at].state, **now})
    return replace(conversation, steps=tuple(steps), done="")


_TEXT, _LINE, _MOST = 20_000, 160, 14


def match_states(before: State, after: State, context: Context) -> RecordMatch | None:
    """Match the records of two states' mappings; None if one of them makes none."""
    old, new = _try_state(before, context), _try_state(after, context)
    if old is None or new is None:
        return None
    order = after["order"]
    return match_trials(order, old, new, order.seen_share)


def _try_state(state: State, context: Context) -> Trial | None:
    proposal = state.get("proposal")
    if proposal is None or proposal.mapping is None or not state.get("check"):
        return None
    try:
        return try_out(
            context.readings, state["order"], proposal.mapping, where="the mapping", show=0
        )
    except MappingError:
        return None


def compare_targets(old: Mapping, new: Mapping) -> Iterator[tuple[str, str]]:
    """Yield what differs between two mappings of one kind in words: (target, was -> is)."""
    for one in compare_mappings(simplest_form(old), simplest_form(new)):
        yield one.target, f"{one.old or 'nothing'} -> {one.new or 'nothing'}"


def difference_lines(one: Difference, redactor: Redactor) -> list[Safe]:
    """Show what differs between two records, as lines that begin with `- `, `+ ` or blanks."""
    return _marked_lines(redactor.value(one.old), redactor.value(one.new))


def _marked_lines(old: SafeValue, new: SafeValue) -> list[Safe]:
    found = [*diff_lines([*_record_texts(old)], [*_record_texts(new)])]
    return [Safe(line) for line in first_lines(found, _MOST)]


def _record_texts(record: SafeValue) -> Iterator[str]:
    for name, text in record_lines(record, most=_TEXT) if record.json else ():
        first, *more = text.split("\n")
        yield f"{name}: {cut_text(first, _LINE)}"
        yield from (f"  {cut_text(line, _LINE)}" for line in more)
