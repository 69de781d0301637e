"""propose: one turn of the mapper, or the mapping that the user gave.

validate: the proposal run on the whole sample; deterministic, no model.
repair: what was wrong goes into the history, and the mapper is asked again.
look: an answer that converts is put to the model once more, with the records that it makes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace

from ingot.agent.context import Context, list_fields
from ingot.agent.judging import drift, model_gates
from ingot.agent.judging.policy import DOUBTED_CONFIDENCE, closed_attempt
from ingot.agent.judging.source_gates import html_gates, list_gates, summarize_source
from ingot.agent.judging.text_coverage import ROWS, find_signals
from ingot.agent.judging.trial import (
    Trial,
    report_facts,
    shown_problems,
    shown_report,
    try_out,
)
from ingot.agent.model.budget import Spent, Usage
from ingot.agent.privacy import Redactor, redact
from ingot.agent.proposing.cards import card_evidence
from ingot.agent.proposing.fingerprint import shape_fingerprint, source_shape
from ingot.agent.proposing.proposal import (
    Proposal,
    Turn,
    fallback_turn,
    redacted_proposal,
)
from ingot.agent.reporting.mapping_words import record_words
from ingot.agent.state import Answer, Change, Order, State, Stopped
from ingot.converters.errors import (
    BudgetReached,
    DriftError,
    MappingError,
    ModelError,
    Problem,
    SourceError,
    StorageError,
)
from ingot.converters.mapping.language import Mapping
from ingot.converters.rows import Provenance
from ingot.converters.sources import Source, SourceSpec

RENDERED_RECORDS = 2  # records that a model is shown at a second look


def propose(state: State, context: Context) -> State:
    """Ask the mapper, with everything that was wrong before.

    A budget that is used up, or a model that cannot be asked, is kept as `stopped`: what was spent
    stays counted, and the run goes on from here.
    """
    order, before = state["order"], state.get("usage")
    if context.asking:
        context.asking.ledger.open_set(before.spent if before else Spent())
    turn, stopped = _next_turn(order, context, state)
    proposal = _with_card_evidence(turn.proposal, order, context)
    redactor = context.data.redactor
    provenance = {**turn.provenance, **_turn_cost(turn, context), "mapper": turn.mapper}
    return {
        "proposal": redacted_proposal(proposal, redactor) if proposal else None,
        "problems": tuple(map(redactor.problem, turn.problems)),
        "turn": replace(turn, proposal=None, problems=(), notes=None, provenance=provenance),
        "usage": _total_usage(before, turn, context),
        "stopped": stopped,
    }


def _next_turn(order: Order, context: Context, state: State) -> tuple[Turn, Stopped | None]:
    """The turn, and why the run stops with it; None = it goes on."""
    if order.mapping is not None:
        return given_turn(order), None
    try:
        return _ask_mapper(order, context, state), None
    except (BudgetReached, ModelError) as error:
        no_answer = Turn(mapper=order.mapper, notes=tuple(error.notes))
        if state.get("looked"):  # there is an answer that passes: it stands
            return no_answer, None
        why = redact(error.problem)  # servers repeat what they were sent
        if isinstance(error, ModelError):
            return no_answer, Stopped(
                kind="model", where=error.where, why=why, hint=error.hint, fault=error.kind
            )
        rules = fallback_turn(
            context.ask_rules(order.request()), f"a budget is used up: {error.problem}"
        )
        stopped = Stopped(kind="budget", where=error.where, why=why, hint=error.hint)
        return replace(rules, notes=no_answer.notes), stopped


def _with_card_evidence(
    proposal: Proposal | None, order: Order, context: Context
) -> Proposal | None:
    """The proposal with what a card beside the data says of it among its evidence, nothing else."""
    card = context.cards.get(order.source)
    if proposal is None or card is None:
        return proposal
    fields = list_fields(context.data) if card.fields else ()
    return replace(proposal, evidence=(*proposal.evidence, *card_evidence(card, proposal, fields)))


def _total_usage(before: Usage | None, turn: Turn, context: Context) -> Usage | None:
    if context.asking is None:
        return before
    spent = context.asking.ledger.data_set
    if not spent.calls and not turn.remembered and turn.notes is None:
        return before
    new = map(redact, turn.notes or ())  # servers repeat what was said
    return Usage(
        host=context.asking.endpoint.host,
        model=context.asking.endpoint.model,
        **asdict(spent),
        remembered=turn.remembered and not spent.calls,
        shared=bool(context.asking.shared),
        notes=(*(before.notes if before else ()), *new),
    )


def _turn_cost(turn: Turn, context: Context) -> Provenance:
    """What a model's answer took with those before it; of a remembered one it stands with it."""
    if context.asking is None or context.asking.shared or not turn.level:
        return {}
    spent = context.asking.ledger.data_set
    return {
        "cost": {
            "calls": spent.calls,
            "tokens_in": spent.tokens_in,
            "tokens_out": spent.tokens_out,
            "usd": spent.cost,
        }
    }


def _ask_mapper(order: Order, context: Context, state: State) -> Turn:
    """One answer of the mapper; a model that looks at its records is shown them again each time."""
    history = [*state.get("attempts", ())]
    if looked := state.get("looked"):
        trial = try_out(
            context.readings, order, looked.proposal.mapping, where="the model's mapping"
        )
        shown = shown_report(order, trial, share=order.share_values)
        records = shown.examples[:RENDERED_RECORDS]
        history = [one if one.signals is None else replace(one, records=records) for one in history]
    data, mapper = context.data, context.mapper_named(order.mapper)
    return mapper(data.source, data.sample, order.request(), history)


def given_turn(order: Order) -> Turn:
    """The turn of a user who brought a mapping file."""
    return Turn(
        mapper="file",
        proposal=Proposal(
            decision=order.mapping.kind if order.mapping else "irrelevant",
            mapping=order.mapping,
            confidence=1.0,
            reason="The mapping was given.",  # without its path, which must not change the report
            mapper="file",
        ),
    )


MOST_PROBLEMS = 5


def repair(state: State, _: Context) -> State:
    """Close the turn as a failed attempt, with at most five of its problems."""
    attempt = closed_attempt(state, state["problems"][:MOST_PROBLEMS])
    return {"attempts": (*state["attempts"], attempt), "problems": ()}


def look(state: State, context: Context) -> State:
    """Have the model look at its records where it is unsure or they look odd; else nothing."""
    proposal = state["proposal"]
    if proposal is None:
        return {"looked": None}
    trial = try_out(
        context.readings, state["order"], proposal.mapping, where="the model's mapping", show=ROWS
    )
    signals = find_signals(trial.mapping, trial.report)
    if not signals and proposal.confidence >= DOUBTED_CONFIDENCE:
        return {"looked": None}
    attempt = closed_attempt(state, signals=signals)
    looked = Answer(proposal=proposal, check=state["check"], turn=state["turn"])
    return {"attempts": (*state["attempts"], attempt), "looked": looked}


# --- the trial of a proposal


def validate(state: State, context: Context) -> State:
    """Bind and check the proposed mapping; its problems go into the state, as does the bound form.

    Problems may quote values: they are redacted before the state, a report or a model sees them.
    """
    proposal, order = state.get("proposal"), state["order"]
    if not proposal or proposal.mapping is None:
        return {"check": None}
    where = order.mapping_file or f"the mapping by {proposal.mapper}"
    # A mapper may have said how the files are to be read; a person gets the reader's own error.
    redactor = context.data.redactor
    states_facts = proposal.mapper != "file" and proposal.mapping.source != SourceSpec()
    try:
        trial = try_out(context.readings, order, proposal.mapping, where=where)
    except MappingError as error:
        if proposal.mapper == "file":
            raise
        return _failed_check(error.problems, proposal.mapping, redactor)
    except SourceError as error:
        if not states_facts or isinstance(error, StorageError):
            raise
        unread = _unreadable_problem(proposal.mapping, error.problem)
        return _failed_check([unread], proposal.mapping, redactor)
    if not trial.report.rows and states_facts:
        unread = _unreadable_problem(proposal.mapping, "no row")
        return _failed_check([unread], proposal.mapping, redactor)
    mapping = _with_provenance(trial, proposal, state)
    faults = model_gates.meta_faults(trial.mapping) if proposal.mapper == "llm" else []
    edited = proposal.mapper == "edited"  # a person who edits a mapping may decide otherwise
    decision = trial.mapping.kind if edited else proposal.decision
    shown = shown_report(order, trial)
    gates = (*list_gates(trial), *html_gates(trial))
    record = redactor.text(record_words(trial))
    checked: State = {
        "check": replace(report_facts(shown, redactor), gates=gates, record=record),
        "problems": shown_problems([*shown.problems, *faults], mapping, redactor),
        "proposal": replace(proposal, mapping=mapping, decision=decision),
        "halted": None,
    }
    if proposal.mapping.source != SourceSpec():
        # What is not read is told of the files as the mapping reads them.
        found = context.data.source
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


def _failed_check(problems: Iterable[Problem], mapping: Mapping, redactor: Redactor) -> State:
    return {"check": None, "problems": shown_problems(problems, mapping, redactor)}


def _unreadable_problem(mapping: Mapping, got: str) -> Problem:
    pointer = "/source" if mapping.source.root is None else "/source/root"
    return Problem(pointer, "unreadable", "facts that the files can be read by", got)


def _with_provenance(trial: Trial, proposal: Proposal, state: State) -> Mapping:
    """The bound mapping with its provenance; that of a file that the user gave is left alone."""
    if proposal.mapper == "file":
        return replace(trial.mapping, warnings=())  # which the check holds
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
    return replace(trial.mapping, provenance=provenance, warnings=())


def _add_drift(checked: State, trial: Trial, order: Order, context: Context) -> State:
    """The state with what has changed since the mapping was made, where it says for what data."""
    shape, check = drift.stored_shape(order.mapping), checked["check"]
    if shape is None or check is None:
        return checked
    now = source_shape(trial.source, trial.sample)
    changes = drift.mapping_changes(drift.find_drift(shape, now), trial.mapping)
    redactor = context.data.redactor
    if trial.reading.show_sample(order) is None:
        changes = drift.hide_changes(changes)
    stopping = [one for one in changes if one.stops and not order.allow_drift]
    if stopping and order.out is not None:
        raise _drift_error(order, changes, redactor)
    problems = (drift.drift_problem(stopping),) if stopping else ()
    return {
        **checked,
        "check": replace(
            check, drift=drift.redacted_changes(changes, redactor), changes=len(changes)
        ),
        "problems": (*checked["problems"], *shown_problems(problems, trial.mapping, redactor)),
    }


def _drift_error(order: Order, changes: Sequence[Change], redactor: Redactor) -> DriftError:
    where = order.mapping_file or "mapping"
    said = f"the schema of {order.source} differs from the one that the mapping was made for"
    lines = [redactor.text(line) for line in drift.change_lines(changes)]
    hint = "to convert it anyway: --allow-drift; for a new mapping: ingot map"
    return DriftError(where, said, "\n".join([*lines, hint]))
