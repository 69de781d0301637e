"""convert: the deterministic part, into a folder that appears whole or not at all."""

from collections.abc import Sequence
from pathlib import Path

from ingot.agent.context import Context
from ingot.agent.judging.trial import try_out
from ingot.agent.nodes.discover import spec_of_order
from ingot.agent.privacy import redact
from ingot.agent.reporting.report import report_text
from ingot.agent.state import Order, Result, State, Written
from ingot.converters.convert import job
from ingot.converters.convert.options import ConvertOptions
from ingot.converters.errors import ConversionError
from ingot.converters.json_yaml import decode, encode
from ingot.converters.rows import Json


def convert(state: State, context: Context) -> State:
    """Convert the approved proposal; an irrelevant source gives a folder that says so."""
    order = state["order"]
    if order.out is None or order.dry_run:
        return {"result": None}
    done = _convert_source(state, order, context)
    result = Result(
        out=str(done.out),
        already_done=done.already_done,
        manifest=decode(Written, done.manifest),
        notes=done.notes,
        first_rejects=tuple(map(redact, done.first_rejects)),
    )
    return {"result": result}


def _convert_source(state: State, order: Order, context: Context) -> job.Result:
    def extra_files(manifest: dict[str, Json], rejects: Sequence[str]) -> dict[str, bytes]:
        return {"report.md": report_text(state, manifest, [*map(redact, rejects)]).encode()}

    out, options = Path(order.out or ""), conversion_options(order)
    usage, proposal = state.get("usage"), state["proposal"]
    extra_run = {"model": encode(usage) if usage else None}
    if proposal is None:
        raise ConversionError(order.source, "there is no proposal to convert by")
    if proposal.decision == "irrelevant":
        source = context.source(order.source, spec_of_order(order))
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
        )
    except ConversionError as error:  # quotes the first rejected rows
        raise ConversionError(error.where, redact(error.problem), error.hint) from error


def conversion_options(order: Order) -> ConvertOptions:
    """The part of an order that a conversion knows."""
    return ConvertOptions(
        records=order.records,
        language=order.language,
        source_name=order.source_name,
        limit=order.limit,
        tokenizer=order.tokenizer,
        overwrite=order.overwrite,
    )
