"""validate: the proposal run on the whole sample; deterministic, no model."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ingot.agent.context import Context
from ingot.agent.judging import drift, model_gates
from ingot.agent.judging.problem_words import explain_problem
from ingot.agent.judging.source_gates import html_gates, list_gates
from ingot.agent.judging.trial import Trial, report_facts, shown_report, try_out
from ingot.agent.nodes.discover import summarize_source
from ingot.agent.nodes.propose import document_decision
from ingot.agent.privacy import Door, SafeProblem
from ingot.agent.proposing.fingerprint import shape_fingerprint, source_shape
from ingot.agent.proposing.proposal import Proposal
from ingot.agent.reporting.mapping_words import record_words
from ingot.agent.state import Change, Order, State
from ingot.converters.errors import DriftError, MappingError, Problem, SourceError, StorageError
from ingot.converters.mapping.bind import read_tree, to_document
from ingot.converters.rows import MappingDocument
from ingot.converters.sources import Source


def validate(state: State, context: Context) -> State:
    """Bind and check the proposed mapping; its problems go into the state, as does the bound form.

    Problems may quote values: they are redacted before the state, a report or a model sees them.
    """
    proposal, order = state.get("proposal"), state["order"]
    if not proposal or not proposal.mapping:
        return {"check": None}
    where = order.mapping_file or f"the mapping by {proposal.mapper}"
    # A mapper may have said how the files are to be read; a person gets the reader's own error.
    door = context.door(order.source, order.spec)
    states_facts = proposal.mapper != "file" and bool(proposal.mapping.get("source"))
    try:
        trial = try_out(context, order, proposal.mapping, where=where)
    except MappingError as error:
        if proposal.mapper == "file":
            raise
        return _failed_check(error.problems, proposal.mapping, door)
    except SourceError as error:
        if not states_facts or isinstance(error, StorageError):
            raise
        unread = _unreadable_problem(proposal.mapping, error.problem)
        return _failed_check([unread], proposal.mapping, door)
    if not trial.report.rows and states_facts:
        unread = _unreadable_problem(proposal.mapping, "no row")
        return _failed_check([unread], proposal.mapping, door)
    document = _with_provenance(trial, proposal, state)
    faults = model_gates.meta_faults(trial.mapping) if proposal.mapper == "llm" else []
    edited = proposal.mapper == "edited"  # a person who edits a mapping may decide otherwise
    decision = document_decision(document) if edited else proposal.decision
    shown = shown_report(context, order, trial)
    gates = (*list_gates(trial), *html_gates(trial))
    record = door.text(record_words(trial))
    checked: State = {
        "check": replace(report_facts(shown, door), gates=gates, record=record),
        "problems": _shown_problems([*shown.problems, *faults], document, door),
        "proposal": replace(proposal, mapping=document, decision=decision),
        "halted": None,
    }
    if proposal.mapping.get("source"):
        # What is not read is told of the files as the mapping reads them.
        found = context.source(order.source, order.spec)
        checked["source"] = summarize_source(
            _tell_reasons(trial.source, found), state["source"].gates
        )
    return _add_drift(checked, trial, order, context) if proposal.mapper == "file" else checked


def _tell_reasons(source: Source, found: Source) -> Source:
    """The source with why files were left out that a mapping now leaves out for their shape."""
    told = {one.name: one for one in found.left_out if one.kind == "shape"}
    named = [
        told.get(one.name, one) if one.kind == "unselected" else one for one in source.left_out
    ]
    return replace(source, left_out=tuple(named))


def _failed_check(problems: Iterable[Problem], document: MappingDocument, door: Door) -> State:
    return {"check": None, "problems": _shown_problems(problems, document, door)}


def _shown_problems(
    problems: Iterable[Problem], document: MappingDocument, door: Door
) -> tuple[SafeProblem, ...]:
    return tuple(door.problem(explain_problem(one, read_tree(document))) for one in problems)


def _unreadable_problem(document: MappingDocument, got: str) -> Problem:
    pointer = "/source/root" if "root" in document["source"] else "/source"
    return Problem(pointer, "unreadable", "facts that the files can be read by", got)


def _with_provenance(trial: Trial, proposal: Proposal, state: State) -> MappingDocument:
    """The bound document with its provenance; that of a file that the user gave is left alone."""
    document = to_document(trial.mapping)
    if proposal.mapper == "file":
        return document
    made_by = dict(sorted(state["turn"].provenance.items()))  # the same from any memory
    edited = {"edited": True} if proposal.mapper == "edited" else {}
    made_for = source_shape(trial.source, trial.sample)
    provenance = {
        **made_by,
        **edited,
        "confidence": proposal.confidence,
        "coverage": trial.report.coverage,
        "detected": proposal.detected,
        "fingerprint": shape_fingerprint(made_for),
        "shape": made_for,
    }
    return {**document, "provenance": provenance}


# --- drift


def _add_drift(checked: State, trial: Trial, order: Order, context: Context) -> State:
    """The state with what has changed since the mapping was made, where it says for what data."""
    shape, check = drift.stored_shape(order.mapping or {}), checked["check"]
    if shape is None or check is None:
        return checked
    now = source_shape(trial.source, trial.sample)
    changes = drift.mapping_changes(drift.find_drift(shape, now), trial.mapping)
    door = context.door(order.source, order.spec)
    if context.shown_sample(order, trial.source.spec) is None:
        changes = drift.hide_changes(changes)
    stopping = [one for one in changes if one.stops and not order.allow_drift]
    if stopping and order.out is not None:
        raise _drift_error(order, changes, door)
    problems = (drift.drift_problem(stopping),) if stopping else ()
    return {
        **checked,
        "check": replace(check, drift=drift.redacted_changes(changes, door), changes=len(changes)),
        "problems": (*checked["problems"], *_shown_problems(problems, {}, door)),
    }


def _drift_error(order: Order, changes: Sequence[Change], door: Door) -> DriftError:
    where = order.mapping_file or "mapping"
    said = f"the schema of {order.source} differs from the one that the mapping was made for"
    lines = [door.text(line) for line in drift.change_lines(changes)]
    hint = "to convert it anyway: --allow-drift; for a new mapping: ingot map"
    return DriftError(where, said, "\n".join([*lines, hint]))
