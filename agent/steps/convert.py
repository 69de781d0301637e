"""convert: the deterministic part, into a folder that appears whole or not at all.

report: the outcome of a run as one JSON object, which the doors print.
"""

from contextlib import AbstractContextManager
from dataclasses import fields, replace
from pathlib import Path

from ingot.agent.context import Context
from ingot.agent.judging.policy import approved_counts
from ingot.agent.judging.trial import try_out
from ingot.agent.privacy import Redactor, redact
from ingot.agent.proposing.proposal import SafeProposal
from ingot.agent.reporting.report import outcome_state, report_text, run_outcome
from ingot.agent.state import (
    Halted,
    Result,
    Review,
    State,
    Written,
)
from ingot.converters.convert import job
from ingot.converters.convert.options import ConvertOptions
from ingot.converters.errors import ConversionError, CountsReviewNeeded
from ingot.converters.json_yaml import decode, encode
from ingot.converters.output.files import is_store_url


def convert(state: State, context: Context) -> State:
    """Convert the approved proposal; an irrelevant source gives a folder that says so."""
    order, hide = state["order"], context.data.redactor.text
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
        first_rejects=tuple(redact(hide(one)) for one in done.first_rejects),
    )
    return {"result": result, "halted": None}


def _halted_state(state: State, error: CountsReviewNeeded) -> State:
    """The state of a run that waits for the approval of counts, which its mapping names."""
    why, proposal = redact(error.problem), state["proposal"]
    if proposal and proposal.mapping:
        provenance = {**(proposal.mapping.provenance or {}), "counted": error.counts}
        mapping = replace(proposal.mapping, provenance=provenance)
        proposal = replace(proposal, mapping=mapping)
    halted = Halted(counts=error.counts, why=why)
    review = Review(decision="person", why=why)
    return {"result": None, "halted": halted, "review": review, "proposal": proposal}


def _convert_source(state: State, context: Context) -> job.Result:
    """The conversion of an approved proposal; what an error quotes of rows has no secrets."""
    order, proposal, redactor = state["order"], state["proposal"], context.data.redactor
    if proposal is None:
        raise ConversionError(order.source, "the run has no proposal to convert with")
    try:
        with _stage_proposal(proposal, state, context) as staged:
            if staged.done is None:
                _commit(staged, state, redactor)
    except ConversionError as error:  # quotes the first rejected rows
        error.hide(redactor.text)
        raise
    return staged.result


def _stage_proposal(
    proposal: SafeProposal, state: State, context: Context
) -> AbstractContextManager[job.StagedConversion]:
    order, data = state["order"], context.data
    place = context.store or order.out or ""
    out = place if is_store_url(place) else Path(place)
    options = ConvertOptions(
        **{one.name: getattr(order, one.name) for one in fields(ConvertOptions)}
    )
    if proposal.decision == "irrelevant":
        return job.stage_irrelevant(data.source, out, proposal.reason, options)
    trial = try_out(context.readings, order, proposal.mapping, where="the approved mapping")
    return job.stage_conversion(
        trial.source,
        trial.mapping,
        out,
        options,
        progress=context.progress,
        approved=approved_counts(state),
    )


def _commit(staged: job.StagedConversion, state: State, redactor: Redactor) -> None:
    """Commit a conversion with its report, and with what was asked of a model in run.json."""
    usage, rejects = state.get("usage"), [*map(redactor.text, staged.first_rejects)]
    report = report_text(state, staged.manifest, rejects, redactor)
    content = report.encode(errors="backslashreplace")  # names of files are bytes
    staged.commit({"report.md": content}, {"model": encode(usage) if usage else None})


def report(state: State, _: Context) -> State:
    """Sum the run up; a person who typed the order is told in words."""
    return outcome_state(state, run_outcome(state))
