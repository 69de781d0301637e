"""convert: the deterministic part, into a folder that appears whole or not at all.

report: the outcome of a run as one JSON object, which the doors print.

tell: what became of an answer that did not end the review.
"""

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

from ingot.agent.context import Context
from ingot.agent.judging.policy import approved_counts
from ingot.agent.judging.trial import try_out
from ingot.agent.privacy import Door, redact
from ingot.agent.reporting.report import edited_reply, outcome_state, report_text, run_outcome
from ingot.agent.state import (
    Halted,
    Order,
    Result,
    Review,
    State,
    Written,
    answer_message,
)
from ingot.converters.convert import job
from ingot.converters.convert.options import ConvertOptions
from ingot.converters.convert.result import Manifest
from ingot.converters.errors import ConversionError, CountsReviewNeeded
from ingot.converters.json_yaml import decode, encode
from ingot.converters.output.files import is_store_url


def convert(state: State, context: Context) -> State:
    """Convert the approved proposal; an irrelevant source gives a folder that says so."""
    order = state["order"]
    if order.out is None or order.dry_run:
        return {"result": None}
    try:
        done = _convert_source(state, context)
    except CountsReviewNeeded as error:
        return _halted_state(state, error)
    result = Result(
        out=str(done.out),
        already_done=done.already_done,
        manifest=decode(Written, done.manifest),
        notes=done.notes,
        first_rejects=tuple(map(redact, done.first_rejects)),  # already without secrets
    )
    return {"result": result, "halted": None}


def _halted_state(state: State, error: CountsReviewNeeded) -> State:
    """The state of a run that waits for the approval of counts, which its mapping names."""
    why, proposal = redact(error.problem), state["proposal"]
    if proposal and proposal.mapping:
        provenance = {**proposal.mapping.get("provenance", {}), "counted": error.counts}
        mapping = {**proposal.mapping, "provenance": provenance}
        proposal = replace(proposal, mapping=mapping)
    halted = Halted(counts=error.counts, why=why)
    review = Review(decision="person", why=why)
    return {"result": None, "halted": halted, "review": review, "proposal": proposal}


def _convert_source(state: State, context: Context) -> job.Result:
    """The conversion of an approved proposal; what it quotes of rows has no secrets."""
    order = state["order"]
    door = context.data.redactor()
    done = _convert_rows(state, order, context, door)
    return replace(done, first_rejects=tuple(map(door.text, done.first_rejects)))


def _convert_rows(state: State, order: Order, context: Context, door: Door) -> job.Result:
    def extra_files(manifest: Manifest, rejects: Sequence[str]) -> dict[str, bytes]:
        report = report_text(state, manifest, [*map(door.text, rejects)], door)
        return {"report.md": report.encode(errors="backslashreplace")}  # names of files are bytes

    place = context.store or order.out or ""
    out = place if is_store_url(place) else Path(place)
    options = ConvertOptions(
        **{one.name: getattr(order, one.name) for one in fields(ConvertOptions)}
    )
    usage, proposal = state.get("usage"), state["proposal"]
    extra_run = {"model": encode(usage) if usage else None}
    if proposal is None:
        raise ConversionError(order.source, "the run has no proposal to convert with")
    if proposal.decision == "irrelevant":
        source = context.data.source
        return job.finish_irrelevant(
            source, out, proposal.reason, options, extra_files=extra_files, extra_run=extra_run
        )
    trial = try_out(context.data, order, proposal.mapping or {}, where="the approved mapping")
    try:
        return job.convert(
            trial.source,
            trial.mapping,
            out,
            options,
            progress=context.progress,
            extra_files=extra_files,
            extra_run=extra_run,
            approved=approved_counts(state),
        )
    except ConversionError as error:  # quotes the first rejected rows
        raise ConversionError(error.where, door.text(error.problem), error.hint) from error


def report(state: State, _: Context) -> State:
    """Sum the run up; a person who typed the order is told in words."""
    return outcome_state(state, run_outcome(state))


def tell(state: State, _: Context) -> State:
    """Answer a person who typed the order; others read it in the next question."""
    review = state.get("review")
    if not state.get("messages") or review is None:
        return {}
    text = review.why if review.decision == "again" else edited_reply(state)
    return {"messages": [answer_message(text)]}
