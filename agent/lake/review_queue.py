"""List what waits in a lake for a person, and record what they decide.

Nothing is converted here. An approved mapping lies in the folder of the mappings, where the next
run finds it; a rejected proposal is left alone until the files of its data change.
"""

import shlex
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ingot.agent import session
from ingot.agent.chat.conversation import Conversation
from ingot.agent.context import Context
from ingot.agent.judging.policy import failed_gates, gates_of_state
from ingot.agent.lake.data_set import data_set_context
from ingot.agent.lake.file_scan import find_sets, list_files
from ingot.agent.lake.lake_order import MAPPINGS, SETS, LakeOrder, files_key
from ingot.agent.lake.lake_state import LakeState
from ingot.agent.privacy import EMPTY_TEXT, Safe, redact
from ingot.agent.proposing.fingerprint import shape_fingerprint, source_shape
from ingot.agent.reporting.proposal_folder import (
    MAPPING,
    delete_files,
    edited_mappings,
    proposal_path,
)
from ingot.agent.reporting.report import mapping_bytes
from ingot.agent.state import Order, State
from ingot.converters.errors import ConversionError, OutputError, SourceError
from ingot.converters.lake.catalog import SetFacts, status_text
from ingot.converters.lake.survey import DataSet
from ingot.converters.mapping.bind import load_mapping, read_tree
from ingot.converters.mapping.language import Mapping
from ingot.converters.output.files import output_errors, write_file
from ingot.converters.rows import Provenance

APPROVED: Final = Safe("its mapping is approved: the next run over the lake converts it")
REJECTED: Final = Safe("a person has rejected the proposal")


def known_order(lake: Path, mappings: Path | None = None) -> LakeOrder:
    """Restore the order of the runs that wrote a lake's folder."""
    lake = lake.absolute()
    state = LakeState(lake)
    root = state.note("root", str) if state.folder.is_dir() else None
    if root is None:
        hint = "give the DIR of: ingot lake run ROOT --out DIR"
        raise OutputError(str(lake), "is not the folder of a lake", hint)
    folder = mappings or Path(state.note("mappings", str) or lake / MAPPINGS)
    return LakeOrder(root=root, out=lake, mappings=folder.absolute())


def waiting_sets(order: LakeOrder, *, rejected: bool = False) -> list[SetFacts]:
    """List what waits for a person, the most confident first, and what was rejected if wanted."""
    statuses = ("waiting", "rejected") if rejected else ("waiting",)
    known = [one.facts for one in order.state.sets().values() if one.facts.status in statuses]
    waiting = [
        one for one in known if not (_is_approved(one) and order.mapping(one.name).is_file())
    ]
    return sorted(waiting, key=lambda one: (-(one.confidence or 0), one.name))


def _is_approved(facts: SetFacts) -> bool:
    """Whether a person approved the mapping and no run has looked at the data set since."""
    return facts.status == "waiting" and facts.approved


def name_statuses(order: LakeOrder) -> dict[str, str]:
    """Return the status of each data set in words; approved ones wait for the next run alone."""
    waiting = {one.name for one in waiting_sets(order)}
    statuses = {}
    for one in (known_set.facts for known_set in order.state.sets().values()):
        approved = one.status == "waiting" and one.name not in waiting
        statuses[one.name] = "approved" if approved else status_text(one.status)
    return statuses


def proposal_file(order: LakeOrder, name: str) -> Path:
    """Return where the proposed mapping of a data set lies, or would."""
    return proposal_path(str(order.out / SETS / name)) / MAPPING


# --- decisions


def check_gates(order: LakeOrder, data_set: DataSet, shown: "ShownProposal") -> None:
    """Raise ConversionError if a mapping fails a gate: which, and what can be done."""
    if not failed_gates(shown.state.get("problems", ())):
        return
    failing = [one for one in gates_of_state(shown.state) if one.state == "fail"]
    failures = "; ".join(f"{one.name} is {one.figure} (limit: {one.limit})" for one in failing)
    problem = f"not approved, it does not pass: {failures or 'see the problems in its report'}"
    words = ["ingot", "chat", data_set.source.location]
    if (file := proposal_file(order, data_set.name)).is_file():
        words += ["--mapping", str(file)]
    save = f"save {shlex.quote(str(order.mapping(data_set.name)))}"
    hint = f"edit it in review, or change it in conversation: {shlex.join(words)} (then: {save})"
    raise ConversionError(data_set.name, problem, hint)


def approve(order: LakeOrder, facts: SetFacts, mapping: Mapping | None = None) -> Path:
    """Put an approved mapping where the next run finds it."""
    file, proposal = order.mapping(facts.name), proposal_file(order, facts.name)
    if mapping is None and file.exists():
        hint = f"decide on a terminal: ingot lake review {shlex.quote(str(order.out))}"
        raise OutputError(str(file), f"is approved already, and {facts.name} waits", hint)
    if mapping is None and not proposal.is_file():
        hint = f"write one into {file}, then run again"
        raise ConversionError(facts.name, "no mapping was proposed that could be approved", hint)
    mapping = mapping or load_mapping(proposal)
    waits = (facts.mapping or {}).get("provenance") or {}  # counts of all rows that stopped it
    counted = {"counted": waits["counted"]} if "counted" in waits else {}
    provenance = {**(mapping.provenance or {}), **counted, "reviewed": True}
    if mapping.draft is None:  # version 1 has no place for it
        mapping = replace(mapping, provenance=provenance)
    with output_errors(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, mapping_bytes(mapping))
    order.state.keep(
        "", replace(facts, status="waiting", approved=True, why=APPROVED, hint=EMPTY_TEXT)
    )
    shutil.rmtree(order.run_folder(facts.name), ignore_errors=True)
    delete_files(proposal.parent)
    # The next run looks again at those of the same shape.
    for known_set in order.state.sets().values():
        same = known_set.facts.fingerprint == facts.fingerprint is not None
        if same and known_set.facts.status == "waiting" and known_set.facts.name != facts.name:
            order.state.keep("", known_set.facts)
    return file


def reject(order: LakeOrder, facts: SetFacts, data_set: DataSet) -> None:
    """Leave a data set alone until its files change; its proposal may still be approved."""
    command = shlex.join(["ingot", "lake", "review", str(order.out), "--approve", facts.name])
    hint = redact(f"to approve it after all: {command}")
    rejected = replace(facts, status="rejected", why=REJECTED, hint=hint)
    order.state.keep(files_key(data_set), rejected)


# --- to look at


def find_data_sets(order: LakeOrder) -> dict[str, DataSet]:
    """Find the data sets as they are now, by name."""
    with order.open_workers() as workers:
        survey = find_sets(order, list_files(order), workers, lambda *_: None)
    return {one.name: one for one in survey.sets}


@dataclass(frozen=True, kw_only=True)
class ShownProposal:
    """A proposal as a person is shown it.

    `mapping` would be approved, None = there is none; `moved` says that it was approved before, and
    the data has another shape since.
    """

    state: State
    context: Context
    mapping: Mapping | None
    moved: bool = False


def load_proposal(order: LakeOrder, data_set: DataSet) -> ShownProposal:
    """Load what waits: the proposal, made or edited, or an approved mapping on changed data."""
    approved = order.mapping(data_set.name)
    if approved.is_file():
        mapping = load_mapping(approved)
        provenance = mapping.provenance or {}
        return replace(try_mapping(order, data_set, mapping, provenance=provenance), moved=True)
    folder = proposal_file(order, data_set.name).parent
    file = folder / MAPPING
    state = _waiting_state(order, data_set)
    if file.is_file() and (state is None or file in edited_mappings(folder)):
        return try_mapping(order, data_set, load_mapping(file))
    if state is None:
        raise SourceError(str(folder), "holds no proposal", "run again: ingot lake run")
    proposed = state["proposal"].mapping if state["proposal"] else None
    context = data_set_context(data_set)
    context.open(state["order"])
    return ShownProposal(state=state, context=context, mapping=proposed)


def try_mapping(
    order: LakeOrder,
    data_set: DataSet,
    mapping: Mapping,
    *,
    provenance: Provenance | None = None,
) -> ShownProposal:
    """Try a mapping on the sample; one with a new provenance is stored with the shape as it is."""
    context = data_set_context(data_set)
    trial_order = Order(
        source=data_set.source.location,
        mapper="file",
        mapping=mapping,
        mapping_file=str(proposal_file(order, data_set.name)),
        allow_drift=True,
    )
    state = session.try_mapping(trial_order, context).state
    bound = state["proposal"].mapping if state["proposal"] else None
    new_provenance = mapping.provenance
    if provenance is not None:
        shape = source_shape(context.data.source, context.data.sample)
        new_provenance = {**provenance, "fingerprint": shape_fingerprint(shape), "shape": shape}
    if bound and new_provenance:
        bound = replace(bound, provenance=new_provenance)
    return ShownProposal(state=state, context=context, mapping=bound)


def talked_mapping(shown: ShownProposal, talk: Conversation) -> tuple[Mapping, Provenance]:
    """Return the mapping that a conversation about a proposal ended with, and its provenance."""
    former, provenance = shown.mapping, talk.state["turn"].provenance
    edited = {"edited": True, **{k: provenance[k] for k in ("edited_with",) if k in provenance}}
    return read_tree(talk.document), {**((former and former.provenance) or {}), **edited}


def _waiting_state(order: LakeOrder, data_set: DataSet) -> State | None:
    """Return the state of the run that waits; None if it does not wait any more."""
    of_set = Order(source="", out=str(order.out / SETS / data_set.name))
    state = session.kept_state(of_set, order.run_folder(data_set.name))
    if state is None or not state.get("proposal"):
        return None
    # The run may have named its root relative to another folder.
    return {**state, "order": replace(state["order"], source=data_set.source.location)}
