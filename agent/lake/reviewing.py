"""What waits in a lake for a person, and what they decide: mappings are approved as files.

Nothing is converted here. An approved mapping lies in the folder of the mappings, where the next
run over the lake finds it; a rejected proposal is left alone until the files of its data change.
"""

import hashlib
import json
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, cast

from ingot.agent import direct
from ingot.agent.checkpoints import FILE, checkpoints
from ingot.agent.context import Context
from ingot.agent.fingerprint import fingerprint_of, shape
from ingot.agent.lake.order import MAPPINGS, LakeOrder
from ingot.agent.lake.state import State as LakeState
from ingot.agent.lake.workers import Workers
from ingot.agent.nodes.discover import stated_spec
from ingot.agent.report import mapping_bytes
from ingot.agent.session import Session
from ingot.agent.state import Order, State
from ingot.agent.waiting import MAPPING, OTHER, REPORT, edited, proposal_folder
from ingot.converters.commit import write_file, writing
from ingot.converters.errors import ConversionError, OutputError, SourceError
from ingot.converters.lake.facts import SetFacts
from ingot.converters.lake.survey import DataSet
from ingot.converters.manifest import stamp
from ingot.converters.mapping import load
from ingot.converters.readers.roots import candidates
from ingot.converters.rows import Json

APPROVED: Final = "its mapping is approved: the next run over the lake converts it"
REJECTED: Final = "a person has rejected the proposal"


def order_of(lake: Path, mappings: Path | None = None) -> LakeOrder:
    """What is known of the runs that made a lake's folder.

    Args:
        lake: the folder.
        mappings: folder of the approved mappings, None = that of the last run.

    Raises:
        OutputError: no run has made it.
    """
    lake = lake.absolute()
    state = LakeState(lake)
    root = state.note("root") if state.folder.is_dir() else None
    if root is None:
        hint = "give the DIR of: ingot lake run ROOT --out DIR"
        raise OutputError(str(lake), "is not the folder of a lake", hint)
    folder = mappings or Path(str(state.note("mappings") or lake / MAPPINGS))
    return LakeOrder(root=str(root), out=lake, mappings=folder.absolute())


def waiting(order: LakeOrder, *, rejected: bool = False) -> list[SetFacts]:
    """The data sets that wait for a person, by name; those rejected before as well if wanted."""
    statuses = ("waiting", "rejected") if rejected else ("waiting",)
    kept = [one.facts for one in order.state.sets().values()]
    return [one for one in kept if one.status in statuses and not _is_settled(order, one)]


def _is_settled(order: LakeOrder, facts: SetFacts) -> bool:
    return facts.why == APPROVED and order.mapping(facts.name).is_file()


def proposal_of(order: LakeOrder, name: str) -> Path:
    """Where the proposed mapping of a data set lies, or would."""
    return proposal_folder(str(order.result(name))) / MAPPING


# --- decisions


def approve(order: LakeOrder, facts: SetFacts, document: dict[str, Json] | None = None) -> Path:
    """Put an approved mapping where the next run finds it.

    Args:
        order: see `order_of`.
        facts: of a data set that waits.
        document: the mapping, also in place of one that was approved before; None = as it lies
            with the proposal, edited by hand or not.

    Returns:
        The file of the mapping.

    Raises:
        ConversionError: nothing was proposed that could be approved.
        MappingError: what lies with the proposal is no mapping.
        OutputError: there is a mapping already, or it cannot be written.
    """
    file, proposal = order.mapping(facts.name), proposal_of(order, facts.name)
    if document is None and file.exists():
        hint = f"decide on a terminal: ingot lake review {shlex.quote(str(order.out))}"
        raise OutputError(str(file), f"is approved already, and {facts.name} waits", hint)
    if document is None and not proposal.is_file():
        hint = f"write one into {file}, then run again"
        raise ConversionError(facts.name, "no mapping was proposed that could be approved", hint)
    made = document or load(proposal)
    reviewed = {**made, "provenance": {**made.get("provenance", {}), "reviewed": True}}
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, mapping_bytes(reviewed))
    order.state.keep("", replace(facts, status="waiting", why=APPROVED, hint=""))
    _clear(order, facts.name)
    _wake(order, facts)
    return file


def reject(order: LakeOrder, facts: SetFacts, data_set: DataSet) -> None:
    """Leave a data set alone until its files change; its proposal stays, and may be approved yet.

    Args:
        order: see `order_of`.
        facts: of a data set that waits.
        data_set: the same as it lies there now.

    Raises:
        OutputError: the lake's folder cannot be written.
    """
    back = shlex.join(["ingot", "lake", "review", str(order.out), "--approve", facts.name])
    hint = f"to approve it after all: {back}"
    told = replace(facts, status="rejected", why=REJECTED, hint=hint)
    order.state.keep(files_key(data_set), told)


def files_key(data_set: DataSet) -> str:
    """A hash of the files of a data set; a rejected one is left alone as long as it is the same."""
    source = data_set.source
    document: list[Json] = [
        [stamp(file) for file in source.files],
        [[one.name, one.bytes, one.mtime_ns, one.etag] for one in source.listing.entries],
        [[one.name, one.why] for one in data_set.faults],
    ]
    return hashlib.sha256(json.dumps(document).encode()).hexdigest()


def _clear(order: LakeOrder, name: str) -> None:
    """Remove what waited: it is decided, and stands in the mapping's file."""
    shutil.rmtree(order.run_folder(name), ignore_errors=True)
    folder = proposal_of(order, name).parent
    with writing(folder):
        for one in (MAPPING, OTHER, REPORT):
            (folder / one).unlink(missing_ok=True)
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def _wake(order: LakeOrder, facts: SetFacts) -> None:
    """See to it that the next run looks again at what waits and has the same shape."""
    for kept in order.state.sets().values():
        same = kept.facts.fingerprint == facts.fingerprint is not None
        if same and kept.facts.status == "waiting" and kept.facts.name != facts.name:
            order.state.keep("", kept.facts)


# --- to look at


class _Nobody:
    """Listens to what nobody wants to know."""

    def looking(self, done: int, files: int) -> None:
        """Files were looked at."""

    def found(self, sets: int, todo: int) -> None:
        """Data sets were found."""

    def settled(self, facts: SetFacts, done: int, todo: int) -> None:
        """A data set has come to its end."""

    def finishing(self, what: str) -> None:
        """Something is done at the end."""


def data_sets(order: LakeOrder) -> dict[str, DataSet]:
    """The data sets as they lie there now, by name.

    Raises:
        SourceError: the lake cannot be listed.
        OutputError: its folder cannot be used.
    """
    from ingot.agent.lake.run import find_sets  # brings catalog and page along

    with Workers(order.jobs) as workers:
        found, _ = find_sets(order, workers, _Nobody())
    return {one.name: one for one in found.sets}


@dataclass(frozen=True, kw_only=True)
class Laid:
    """A proposal as a person is shown it.

    Attributes:
        state: the graph's, as far as it is known; its mapping is the one that would be approved.
        context: has the source.
        document: that mapping, None = there is none.
        moved: whether it was approved before, and the data has another shape since.
    """

    state: State
    context: Context
    document: dict[str, Json] | None
    moved: bool = False


def laid(order: LakeOrder, data_set: DataSet) -> Laid:
    """What waits for a data set: the proposal as it was made, or as a person has edited it since.

    Of a data set that waits since its shape has moved it is the approved mapping on the new data.

    Raises:
        MappingError: an edited mapping is none.
        SourceError: the data cannot be read.
    """
    context, approved = _context(data_set), order.mapping(data_set.name)
    if approved.is_file():
        document = load(approved)
        made = document.get("provenance") or {}
        return replace(tried(order, data_set, document, context, provenance=made), moved=True)
    folder = proposal_of(order, data_set.name).parent
    file = folder / MAPPING
    held = _held(order, data_set)
    if file.is_file() and (held is None or file in edited(folder)):
        return tried(order, data_set, load(file), context)
    if held is None:
        raise SourceError(str(folder), "holds no proposal", "run again: ingot lake run")
    return Laid(state=held, context=context, document=(held.get("proposal") or {}).get("mapping"))


def tried(
    order: LakeOrder,
    data_set: DataSet,
    document: dict[str, Json],
    context: Context | None = None,
    *,
    provenance: Mapping[str, Json] | None = None,
) -> Laid:
    """A mapping run on the sample.

    Args:
        order: see `order_of`.
        data_set: whose rows are read.
        document: the mapping.
        context: has the source, None = it is opened.
        provenance: what the mapping is to say of how it came to be, with the data's present
            shape; None = what the document says.

    Raises:
        MappingError: it is none.
        SourceError: the data cannot be read as it says.
    """
    context = context or _context(data_set)
    file = str(proposal_of(order, data_set.name))
    wanted = Order(
        source=data_set.source.location,
        mapper="file",
        mapping=document,
        mapping_file=file,
        allow_drift=True,
    )
    state = direct.tried(wanted, context)
    bound = cast("dict[str, Json]", (state["proposal"] or {})["mapping"])
    told = document.get("provenance")
    if provenance is not None:
        now = shape(*context.drawn(wanted.source, stated_spec(wanted)))
        told = {**provenance, "fingerprint": fingerprint_of(now), "shape": now}
    if told:
        bound = {**bound, "provenance": told}
    return Laid(state=state, context=context, document=bound)


def _context(data_set: DataSet) -> Context:
    context, source = Context(), data_set.source
    context.bring(replace(source, roots=candidates(source.files)))
    return context


def _held(order: LakeOrder, data_set: DataSet) -> State | None:
    """The state of the run that waits; None where it waits no more."""
    from ingot.agent.graph import build_graph

    folder = order.run_folder(data_set.name)
    if not (folder / FILE).is_file():
        return None
    with checkpoints(folder) as saver:
        of_set = Order(source="", out=str(order.result(data_set.name)))
        held = Session(graph=build_graph(saver), order=of_set, context=Context(), key="")
        values = held.graph.get_state(held.config).values
    if not values.get("proposal"):
        return None
    # The run may have named its root relative to another folder.
    ordered = {**values["order"], "source": data_set.source.location}
    return cast("State", {**values, "order": ordered})
