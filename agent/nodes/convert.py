"""convert: the deterministic part, into a folder that appears whole or not at all.

`try_mapping` and `convert_mapping` do without the graph what `ingot check` and `ingot convert` do.
"""

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

from ingot.agent.context import Context
from ingot.agent.judging.policy import approved_counts
from ingot.agent.judging.trial import try_out
from ingot.agent.nodes.discover import discover, sample
from ingot.agent.nodes.propose import propose
from ingot.agent.nodes.report import report
from ingot.agent.nodes.validate import validate
from ingot.agent.privacy import Door, redact
from ingot.agent.reporting.report import report_text
from ingot.agent.state import Halted, Order, Result, Review, State, Written
from ingot.converters.convert import job
from ingot.converters.convert.options import ConvertOptions
from ingot.converters.convert.result import Manifest
from ingot.converters.errors import (
    ConversionError,
    CountsReviewNeeded,
    Problem,
    SourceError,
)
from ingot.converters.json_yaml import decode, encode
from ingot.converters.output.files import is_store_url


def convert(state: State, context: Context) -> State:
    """Convert the approved proposal; an irrelevant source gives a folder that says so."""
    order = state["order"]
    if order.out is None or order.dry_run:
        return {"result": None}
    try:
        done = convert_source(state, context)
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


def convert_source(state: State, context: Context) -> job.Result:
    """The conversion of an approved proposal; what it quotes of rows has no secrets."""
    order = state["order"]
    door = context.door(order.source, order.spec)
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
        source = context.source(order.source, order.spec)
        return job.finish_irrelevant(
            source, out, proposal.reason, options, extra_files=extra_files, extra_run=extra_run
        )
    trial = try_out(context, order, proposal.mapping or {}, where="the approved mapping")
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


def try_mapping(order: Order, context: Context) -> State:
    """The state after a mapping file was run on the sample."""
    state: State = {"order": order}
    for node in (discover, sample, propose, validate):
        state = {**state, **node(state, context)}
    if not state["sample"].rows and not state["sample"].bad:
        left_out = context.source(order.source, order.spec).left_out
        hint = "; ".join(f"{one.name}: {one.why}" for one in left_out[:3])
        raise SourceError(order.source, "holds no row of data", hint)
    return state


def prepare_mapping(order: Order, context: Context) -> State:
    """The state before a conversion. Raises ConversionError if the mapping does not serve."""
    state = try_mapping(order, context)
    fatal = [one for one in state["problems"] if _is_fatal_problem(one, state)]
    if fatal:
        where = order.mapping_file or "mapping"
        said = "; ".join(map(str, fatal))
        raise ConversionError(where, said, f"ingot check {where} {order.source} shows more")
    return {**state, "review": Review(decision="dry_run" if order.dry_run else "approve")}


def convert_mapping(order: Order, context: Context) -> State:
    """The state after a conversion; rows that the mapping does not fit are rejected and listed.

    Raises PartDone where the order is a part of a conversion.
    """
    state = prepare_mapping(order, context)
    if not order.dry_run:
        state = {**state, **convert(state, context)}
    return {**state, **report(state)}


def _is_fatal_problem(problem: Problem, state: State) -> bool:
    """Whether a problem on the sample forbids to convert: optional values and rare ones do not."""
    if problem.code != "unresolved_path":
        return False
    rare = "/any_of/" in problem.pointer and not state["sample"].complete
    check = state["check"]
    needs = {one.pointer: one.need for one in check.paths} if check else {}
    return needs.get(problem.pointer) != "optional" and not rare
