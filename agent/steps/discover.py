"""begin: whether a run may do what is ordered.

discover: what lies at the location, and whether any of it is data.

sample: rows spread over the source; the state keeps only their number.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from ingot.agent.context import Context
from ingot.agent.judging.source_gates import row_gates, summarize_source, unreadable_reason
from ingot.agent.privacy import Redactor, redact
from ingot.agent.proposing.proposal import Proposal, redacted_proposal
from ingot.agent.proposing.recsys_data import raw_data_proposal
from ingot.agent.state import SampleSummary, State
from ingot.agent.steps.order_schema import check_order
from ingot.converters.convert.options import check_store_options
from ingot.converters.errors import SourceError
from ingot.converters.json_yaml import encode
from ingot.converters.output.commit import check_destination
from ingot.converters.output.files import is_store_url, output_errors
from ingot.converters.sources import Source


def begin(state: State, context: Context) -> State:
    """Check the order; there must be a mapper of the name that it gives."""
    order = check_order(encode(state["order"]), served=False)
    context.check_mapper(order)
    return {"order": order, "served": context.served}


def discover(state: State, context: Context) -> State:
    """Open the source; a folder with auxiliary files only is irrelevant, and says which.

    So are logs of clicks, which `ingot ctr` and `ingot criteo` read, and streams that `ingot
    monolith` reads: no model is asked about them.

    A destination that cannot be written and a tokenizer that does not serve are found out here,
    before a model or a person is asked.
    """
    order = state["order"]
    if (out := context.store or order.out) and not order.dry_run:
        if is_store_url(out):
            from ingot.converters.output.store_commit import check_store

            check_store_options(out, order.records, order.tokenizer)
            check_store(out)
        else:
            _check_destination(Path(out))
        if order.tokenizer:
            from ingot.converters.megatron.tokenizer import find_eod, load_tokenizer

            find_eod(load_tokenizer(order.tokenizer))
    source = context.locate(order).find_files(order.spec)
    raw_data = None if order.mapping else raw_data_proposal(source)
    found: State = {
        "source": summarize_source(source, () if raw_data else None),
        "attempts": (),
        "problems": (),
        "usage": None,
    }
    if source.files and raw_data is None:
        return found
    if raw_data is None and (found_bad := unreadable_reason(source.left_out)):
        raise SourceError(source.location, *found_bad)
    proposal = raw_data or _no_data_proposal(source)
    return {**found, "proposal": redacted_proposal(proposal, Redactor("redacted"))}


def _check_destination(out: Path) -> None:
    """See that a result could be laid there; a file system may refuse what the rights allow."""
    check_destination(out)
    with output_errors(out):
        parent = next(one for one in out.resolve().parents if one.exists())
        with TemporaryDirectory(prefix=".ingot-", dir=parent):
            pass


def _no_data_proposal(source: Source) -> Proposal:
    names = ", ".join(one.name for one in source.left_out[:5])
    more = len(source.left_out) - 5
    seen = names + (f" and {more} more" if more > 0 else "")
    only = f", only auxiliary files: {seen}" if seen else ": the table or archive is empty"
    return Proposal(
        decision="irrelevant",
        mapping=None,
        confidence=1.0,
        reason=f"There is no data file{only}.",
    )


def sample(state: State, context: Context) -> State:
    """Draw the sample, so that a source that cannot be read fails before anything is proposed."""
    order = state["order"]
    drawn = context.data.sample
    if drawn.bad and not drawn.rows:
        first = drawn.bad[0]
        problem = f"none of {len(drawn.bad)} sampled rows can be read"
        hint = f"{first.file} row {first.bad.row}: {redact(first.bad.detail)}"
        raise SourceError(order.source, problem, hint)
    summary = SampleSummary(
        rows=len(drawn.rows),
        bad=len(drawn.bad),
        complete=drawn.complete,
        total_rows=drawn.total_rows,
        gates=row_gates(drawn),
    )
    return {"sample": summary}
