"""discover: what lies at the location, and whether any of it is data."""

from pathlib import Path
from tempfile import TemporaryDirectory

from ingot.agent.context import Context
from ingot.agent.criteo_data import raw_criteo
from ingot.agent.ctr_data import raw_aliccp
from ingot.agent.mappers.proposal import Proposal
from ingot.agent.monolith_data import raw_monolith
from ingot.agent.redaction import redact
from ingot.agent.state import Order, State
from ingot.agent.trial import spec_of
from ingot.converters.commit import check_usable, writing
from ingot.converters.readers import Source
from ingot.converters.readers.spec import SourceSpec
from ingot.converters.rows import Json

_SHOWN = 20


def discover(state: State, context: Context) -> State:
    """Open the source; a folder with side files only is irrelevant, and says which.

    So are logs of clicks, which `ingot ctr` and `ingot criteo` read, and streams that `ingot
    monolith` reads: no model is asked about them.

    A destination that cannot be written and a tokenizer that does not serve are found out here,
    before a model or a person is asked.
    """
    order = Order(**state["order"])
    if order.out and not order.dry_run:
        _check_written(Path(order.out))
        if order.tokenizer:
            context.check_tokenizer(order.tokenizer)
    source = context.source(order.source, stated_spec(order))
    found: State = {"source": facts(source), "attempts": [], "problems": [], "usage": {}}
    told = None if order.mapping else raw_data(source)
    if source.files and told is None:
        return found
    return {**found, "proposal": (told or _nothing(source)).to_json()}


def raw_data(source: Source) -> Proposal | None:
    """What another command reads; None for all else."""
    return raw_aliccp(source) or raw_criteo(source) or raw_monolith(source)


def _check_written(out: Path) -> None:
    """See that a result could be laid there; a file system may refuse what the rights allow.

    Raises:
        OutputError: it could not.
    """
    check_usable(out)
    with writing(out):
        parent = next(one for one in out.resolve().parents if one.exists())
        with TemporaryDirectory(prefix=".ingot-", dir=parent):
            pass


def stated_spec(order: Order) -> SourceSpec:
    """The facts about the files that the user's mapping file states; none without one."""
    if order.mapping is None:
        return SourceSpec()
    return spec_of(order.mapping, where=order.mapping_file or "mapping")


def facts(source: Source) -> dict[str, Json]:
    """What people want to know about a source, as plain JSON."""
    return {
        "name": redact(source.name),
        "files": len(source.files),
        "bytes": sum(file.bytes or 0 for file in source.files),
        "left_out": [
            {"name": redact(one.name), "why": redact(one.why)} for one in source.left_out[:_SHOWN]
        ],
        "left_out_count": len(source.left_out),
    }


def _nothing(source: Source) -> Proposal:
    names = ", ".join(redact(one.name) for one in source.left_out[:5])
    more = len(source.left_out) - 5
    seen = names + (f" and {more} more" if more > 0 else "")
    return Proposal(
        decision="irrelevant",
        mapping=None,
        confidence=1.0,
        reason=f"There is no data file, only side files: {seen}.",
    )
