"""Take one data set of a lake from its files to its facts, in a process of its own."""

import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ingot.agent.context import Context, open_model, reading_of
from ingot.agent.judging.policy import dispute_reason, review_by_gates
from ingot.agent.judging.source_gates import unreadable_reason
from ingot.agent.judging.trial import shown_report, try_out
from ingot.agent.lake.lake_order import LakeOrder
from ingot.agent.lake.shared_model import LakeLedger, PostponedError, SharedModel
from ingot.agent.privacy import EMPTY_TEXT, NOT_SHOWN, Safe, joined, redact
from ingot.agent.proposing.cards import find_card
from ingot.agent.proposing.llm.mapper import AskSettings, ModelAccess
from ingot.agent.proposing.proposal import Proposal, doubts_text
from ingot.agent.reporting.proposal_folder import (
    MAPPING,
    proposal_path,
    remove_proposal,
    write_proposal,
)
from ingot.agent.reporting.report import reason_text, run_outcome
from ingot.agent.review.pinning.pin import pin_beside
from ingot.agent.session import Session, convert_mapping, open_session
from ingot.agent.state import Order, Outcome
from ingot.agent.state import State as RunState
from ingot.converters.errors import (
    DriftError,
    IngotError,
    ModelError,
    OutputError,
    ReviewNeeded,
    SourceError,
    StorageError,
    count_text,
)
from ingot.converters.json_yaml import load_json, map_leaves, shorten_text
from ingot.converters.lake.catalog import SetFacts, Status
from ingot.converters.lake.statistics import measure_records
from ingot.converters.lake.survey import DataSet
from ingot.converters.mapping.bind import load_mapping, read_tree
from ingot.converters.mapping.documents.writer import to_document
from ingot.converters.mapping.language import Mapping
from ingot.converters.output.files import output_errors
from ingot.converters.output.object_store import read_json
from ingot.converters.output.store_commit import find_result
from ingot.converters.records.schema import Record
from ingot.converters.sources.facts import LeftOut
from ingot.converters.sources.root_candidates import root_candidates

_SHOWN: Final = 20
_SAMPLES: Final = 3  # records of a data set on the page
_MESSAGES, _CHARACTERS = 12, 2_000  # of a record there, and of each of its texts
_UNUSABLE: Final = Safe("no mapper found a mapping that can be run")
_DECIDE: Final = Safe("decide it: ingot lake review DIR")
_SPENT: Final = ("calls", "chars_sent", "tokens_in", "tokens_out", "cost")


def _known_facts(data_set: DataSet) -> SetFacts:
    source = data_set.source
    card = find_card(data_set.cards) if data_set.cards else None
    return SetFacts(
        name=data_set.name,
        place=redact(data_set.place),
        status="no_training_text",
        format=source.files[0].facts.format if source.files else "",
        files=len(source.files),
        bytes=sum(file.bytes or 0 for file in source.files),
        left_out=tuple(
            {"name": redact(one.name), "why": redact(one.why)} for one in source.left_out[:_SHOWN]
        ),
        left_out_count=len(source.left_out),
        card=card.facts() if card else {},
    )


def _first_reasons(files: Sequence[LeftOut]) -> str:
    return "; ".join(f"{one.name}: {one.why}" for one in files[:3])


def _relative_name(place: Path | str, lake: Path) -> str:
    return str(place).removeprefix(f"{lake}/")


# What may be otherwise in the next run although nothing of the data changed.
_PASSING = (StorageError, ModelError, OutputError)


@dataclass(frozen=True, kw_only=True)
class SetTask:
    """One data set to work on.

    Attributes:
        key: its `data_set_key` when the task was given.
        after: the first by name of those of them that have its keys or columns, "" = itself. It
            asks first, so that who is asked for does not depend on who is faster.
        alone: whether no other data set of the lake has the same keys or columns. Only then a
            model is shown the card beside the data: an answer that serves several data sets
            must not be influenced by the card of one.
    """

    order: LakeOrder
    data_set: DataSet
    has_mapping: bool
    key: str
    pending: frozenset[str]
    after: str
    alone: bool


@dataclass(frozen=True, kw_only=True)
class SetResult:
    """What became of a data set.

    `facts` is None if another one has to come first: `waits_for`, which has the same `shape`. With
    `again` the next run tries again although nothing has changed.
    """

    facts: SetFacts | None = None
    shape: str = ""
    waits_for: str = ""
    again: bool = False


def work_on_set(task: SetTask) -> SetResult:
    """Map, gate and convert one data set; errors are recorded in its facts."""
    known = _known_facts(task.data_set)
    try:
        done = _process_set(task, known)
    except PostponedError as error:
        return SetResult(shape=error.shape)
    except IngotError as error:
        facts = _failed_facts(known, error)
        done = SetResult(facts=facts, again=isinstance(error, _PASSING))
    facts = done.facts or known
    result = task.order.result(facts.name)
    with suppress(OutputError):  # a store that does not answer is in the facts
        if not facts.result and find_result(result) is not None:
            kept = Safe("(the result of an earlier run is still there: it is not in the corpus)")
            why = joined([facts.why, kept], " ")
            facts = replace(facts, result=_relative_name(result, task.order.out), why=why)
    return replace(done, facts=facts.as_text())


def _failed_facts(facts: SetFacts, error: IngotError) -> SetFacts:
    status: Status = "waiting" if isinstance(error, ReviewNeeded | DriftError) else "failed"
    if isinstance(error, ModelError):
        status = "postponed"
    hint = str(getattr(error, "hint", ""))
    why = str(type(error)(*error.args[:2])) if hint else str(error)
    return replace(facts, status=status, why=redact(why), hint=redact(hint))


def _process_set(task: SetTask, known: SetFacts) -> SetResult:
    data_set, source, order = task.data_set, task.data_set.source, task.order
    if isinstance(said := data_set.said, Proposal):  # its paths are relative to the root
        hint = redact(f"{said.reason} (paths below {order.root})")
        why = Safe("it is read by another command")
        facts = replace(known, status="other_command", decision="irrelevant", why=why, hint=hint)
        return SetResult(facts=facts)
    if faults := data_set.faults:
        count = f"{count_text(len(faults), 'file')} cannot be read"
        why = redact(f"{count}: {_first_reasons(faults)}")
        hint = Safe("repair or move what cannot be read; it is tried again when its files change")
        return SetResult(facts=replace(known, status="failed", why=why, hint=hint))
    # An empty file is told, and no fault.
    filled = [one for one in source.left_out if one.bytes or one.is_unread]
    if not source.files and (wrong := unreadable_reason(filled)):
        why, hint = map(redact, wrong)
        return SetResult(facts=replace(known, status="failed", why=why, hint=hint))
    if not source.files:
        why = redact(f"no data file: {_first_reasons(source.left_out)}")
        return SetResult(facts=replace(known, decision="irrelevant", why=why))
    context = data_set_context(data_set)
    context.asking = _open_model(order)
    context.store = str(order.result(data_set.name)) if order.results else None
    if data_set.cards and (card := find_card(data_set.cards)) is not None:
        context.cards = {source.location: card}
    file = order.mapping(data_set.name)
    if file.is_file():
        return SetResult(facts=_convert_by_mapping(task, known, context, file))
    return _convert_by_graph(task, known, context)


def data_set_context(data_set: DataSet) -> Context:
    """Return the working set of one data set, with its files as they were found."""
    source = replace(data_set.source, roots=root_candidates(data_set.source.files))
    return Context(readings=reading_of(source))


def _open_model(order: LakeOrder) -> ModelAccess | None:
    asked: AskSettings | None = order.asking
    if asked is None or order.mapper == "rules":
        return None
    return open_model(
        asked,
        ledger=LakeLedger(order.state, asked.run, asked.data_set, asked.price),
        shared=True,
    )


def _convert_by_mapping(task: SetTask, known: SetFacts, context: Context, file: Path) -> SetFacts:
    """Convert by the approved mapping: no model is asked, rows that do not fit it are rejected."""
    order = task.order.data_set_order(task.data_set)
    order = replace(order, mapper="file", mapping=load_mapping(file), mapping_file=str(file))
    state = convert_mapping(order, context)
    if halted := state.get("halted"):
        facts = _proposal_facts(known, run_outcome(state))
        return replace(facts, status="waiting", why=halted.why, hint=_DECIDE)
    return _settled_facts(task, known, order, state, context)


def _convert_by_graph(task: SetTask, known: SetFacts, context: Context) -> SetResult:
    """Ask for a proposal; convert if it may be approved, else leave it for review."""
    order, call = task.order.data_set_order(task.data_set), _open_shared_model(task, context)
    context.turns = call.turns() if call else {}
    shape, waits_for = "", ""
    folder = task.order.run_folder(task.data_set.name)
    with open_session(order, context, home=folder) as current:
        try:
            state = current.begin()
        finally:
            if call:
                call.close()
                shape, waits_for = call.shape, call.waits_for
        state, why = _review_by_gates(task, current, state, waits_for)
        unasked = "turn" in state and state["turn"].unasked
        if unasked or not (current.is_waiting() or current.is_at_rest()):
            current.forget()
    if why or state["outcome"].status not in ("done", "already_done", "irrelevant"):
        facts = _waiting_facts(task, known, order, state, why, context, resting=unasked)
        again = facts.status == "postponed"
        return SetResult(facts=facts, shape=shape, waits_for=waits_for, again=again)
    shutil.rmtree(folder, ignore_errors=True)
    return SetResult(facts=_settled_facts(task, known, order, state, context), shape=shape)


def _open_shared_model(task: SetTask, context: Context) -> SharedModel | None:
    if context.asking is None:
        return None

    def approved(name: str) -> Mapping | None:
        file = task.order.mapping(name)
        return read_tree(load_json(file)) if file.is_file() else None

    return SharedModel(
        state=task.order.state,
        name=task.data_set.name,
        asking=context.asking,
        rules=context.rules,
        card=context.cards.get(task.data_set.source.location) if task.alone else None,
        pending=task.pending,
        after=task.after,
        approved=approved,
    )


def _review_by_gates(
    task: SetTask, current: Session, state: RunState, waits_for: str
) -> tuple[RunState, str]:
    """Approve what may be approved; return the state, and why it waits for a person."""
    if current.is_at_rest():
        stopped = state.get("stopped")
        return state, f"a budget is exhausted: {stopped.why if stopped else ''}"
    if not current.is_waiting():
        return state, ""
    decided = review_by_gates(state)
    if waits_for:
        return state, f"{waits_for} has the same shape and waits for a person: review it first"
    if "turn" in state and (fallback := state["turn"].fallback):
        more = "" if decided.decision == "approve" else f"; {decided.why}"
        return state, f"the rules' mapping, because the model gave none: {fallback}{more}"
    if decided.decision != "approve":
        return state, decided.why
    if not task.order.yes:
        return state, "no person has approved the proposal yet"
    state = current.answer({"decisions": [{"type": "approve"}]})
    halted = state.get("halted")
    return state, halted.why if halted else ""


def _waiting_facts(
    task: SetTask,
    known: SetFacts,
    order: Order,
    state: RunState,
    why: str,
    context: Context,
    *,
    resting: bool,
) -> SetFacts:
    """Write the proposal for a person, and return the facts."""
    outcome, stopped, out = run_outcome(state), state.get("stopped"), order.out or ""
    facts = _proposal_facts(known, outcome)
    unmapped = outcome.reason if outcome.decision == "unmappable" and outcome.reason else EMPTY_TEXT
    said = filter(None, (unmapped, redact(dispute_reason(state))))
    why = redact(why or outcome.why) or joined(said, "; ") or _UNUSABLE
    record = outcome.check.record if outcome.check else EMPTY_TEXT
    why = joined([why, record], "; ") if record else why
    if resting or outcome.status == "budget":
        hint = redact(stopped.hint if stopped else "")
        return replace(facts, status="postponed", why=why, hint=hint)
    write_proposal(state, out, context.open(order).redactor)
    file = _relative_name(proposal_path(out) / MAPPING, task.order.out)
    return replace(facts, status="waiting", why=why, hint=_DECIDE, mapping_file=file)


def _proposal_facts(facts: SetFacts, outcome: Outcome) -> SetFacts:
    check, usage = outcome.check, outcome.usage
    provenance = (outcome.mapping and outcome.mapping.provenance) or {}
    of_file = outcome.mapper == "file" and "mapper" in provenance
    return replace(
        facts,
        decision=outcome.decision,
        mapper=provenance["mapper"] if of_file else outcome.mapper,
        model=(usage.model if usage else "") or provenance.get("model"),
        confidence=provenance.get("confidence") if of_file else outcome.confidence,
        coverage=check.coverage if check else None,
        spent={key: getattr(usage, key) for key in _SPENT} if usage else {},
        mapping=to_document(outcome.mapping) if outcome.mapping else None,
        fingerprint=provenance.get("fingerprint"),
        why=Safe("by its approved mapping") if of_file else _proposal_words(outcome),
    )


def _proposal_words(outcome: Outcome) -> Safe:
    """What a record is made of, why the rows are read so, and what speaks against it."""
    doubts = doubts_text(outcome.evidence)
    words = [reason_text(outcome, outcome.check), f"doubts: {doubts}" if doubts else ""]
    return Safe(" ".join(filter(None, words)))


def _settled_facts(
    task: SetTask, known: SetFacts, order: Order, state: RunState, context: Context
) -> SetFacts:
    """Return the facts of a result, whose records are measured, and pin rows beside its mapping."""
    lake, name = task.order, known.name
    done = find_result(place := lake.result(name))
    if done is None:
        raise OutputError(str(place), "was removed meanwhile", "run again")
    remove_proposal(order)
    manifest = done.manifest
    tokens = manifest["tokens"] or {}
    redactor = context.open(order).redactor
    facts = replace(
        _proposal_facts(known, run_outcome(state)),
        card=redactor.value(known.card).json,
        status="no_training_text",
        decision=manifest["decision"],
        rows=manifest["rows"],
        records=manifest["records"],
        rejects=manifest["rejects"],
        tokens=tokens.get("tokens"),
        sequences=tokens.get("sequences"),
        figures=measure_records(place, lake.hashes(name)),
        mapping=None,
        mapping_file=None,
        result=_relative_name(place, lake.out),
    )
    if manifest["decision"] == "irrelevant":
        return facts
    local, file = isinstance(place, Path), _relative_name(lake.mapping(name), lake.out)
    mapping = read_tree(
        load_json(done.folder / MAPPING) if local else read_json(f"{place}/{MAPPING}") or {}
    )
    figures = replace(facts.figures, samples=_shown_records(order, mapping, context))
    facts = replace(
        facts,
        status="converted",
        mapping=to_document(mapping),
        mapping_file=file,
        figures=figures,
    )
    return _pin_rows(task, facts, mapping, context) if lake.pin else facts


def _shown_records(order: Order, mapping: Mapping, context: Context) -> tuple[Record, ...]:
    """The first records for the page, made of redacted rows, without most of what is long."""
    trial = try_out(context.readings, order, mapping, where=f"the mapping of {order.source_name}")
    shown = shown_report(order, trial, show=_SAMPLES, share=order.share_values)
    redactor = trial.reading.redactors[order.share_values]
    return tuple(_begin_record(redactor.value(record).json) for _, record in shown.examples)


def _begin_record(record: Record) -> Record:
    """A record with its first messages and the beginnings of its texts."""
    begun = {name: value for name, value in record.items() if value}
    more = len(record.get("messages", ())) - _MESSAGES
    if more > 0:
        begun |= {"messages": record["messages"][:_MESSAGES], "messages_left_out": more}
    shown: Record = map_leaves(begun, _begin_text)
    return shown


def _begin_text(text: object) -> object:
    return shorten_text(text, _CHARACTERS) if isinstance(text, str) else text


def _pin_rows(task: SetTask, facts: SetFacts, mapping: Mapping, context: Context) -> SetFacts:
    """Pin a sample of the rows beside the mapping; the hint says why if that fails."""
    file = task.order.mapping(facts.name)
    order = Order(source=task.data_set.source.location, share_values=task.order.share_values)
    try:
        with output_errors(file):
            file.parent.mkdir(parents=True, exist_ok=True)
        pinned = pin_beside(file, mapping, context.readings, order, overwrite=True)
    except (OutputError, SourceError) as error:
        return replace(facts, hint=redact(f"no sample is pinned: {error}"))
    return facts if pinned else replace(facts, hint=redact(f"no sample is pinned {NOT_SHOWN}"))
