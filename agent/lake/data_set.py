"""Take one data set of a lake from its files to its facts, in a process of its own."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ingot.agent.judging.policy import review_by_gates
from ingot.agent.judging.trial import spec_of_document
from ingot.agent.lake.lake_order import SETS, LakeOrder
from ingot.agent.lake.shared_model import LakeLedger, PostponedError, SharedModel
from ingot.agent.model.cache import Store
from ingot.agent.nodes.convert import convert_mapping
from ingot.agent.nodes.report import run_outcome
from ingot.agent.privacy import redact
from ingot.agent.proposing.cards import find_card
from ingot.agent.proposing.llm.mapper import AskSettings, ModelAccess
from ingot.agent.proposing.proposal import NOT_ASKED, Proposal
from ingot.agent.reporting.proposal_folder import (
    MAPPING,
    proposal_path,
    remove_proposal,
    write_proposal,
)
from ingot.agent.review.pinning.pin import pin_sample
from ingot.agent.review.pinning.pinned_sample import pinned_folder
from ingot.agent.review.pinning.sample_redaction import named_values
from ingot.agent.session import Session, open_session
from ingot.agent.state import Context, Order, Outcome, state_home
from ingot.agent.state import State as RunState
from ingot.converters.errors import (
    DriftError,
    IngotError,
    ModelError,
    OutputError,
    ReviewNeeded,
    SourceError,
    StorageError,
)
from ingot.converters.json_yaml import load_json
from ingot.converters.lake.catalog import SetFacts, Status
from ingot.converters.lake.statistics import measure_records
from ingot.converters.lake.survey import DataSet
from ingot.converters.mapping.bind import load_mapping
from ingot.converters.output.commit import FinishedResult, find_finished
from ingot.converters.output.files import output_errors
from ingot.converters.rows import Json
from ingot.converters.sources.facts import LeftOut
from ingot.converters.sources.readers import root_candidates

_SHOWN: Final = 20
_SPENT: Final = ("calls", "chars_sent", "tokens_in", "tokens_out", "cost")


def _known_facts(data_set: DataSet) -> SetFacts:
    """Return what is known before anything is read."""
    source = data_set.source
    beside = find_card(data_set.cards) if data_set.cards else None
    return SetFacts(
        name=data_set.name,
        place=redact(data_set.place),
        status="nothing",
        format=source.files[0].facts.format if source.files else "",
        files=len(source.files),
        bytes=sum(file.bytes or 0 for file in source.files),
        left_out=tuple(
            {"name": redact(one.name), "why": redact(one.why)} for one in source.left_out[:_SHOWN]
        ),
        left_out_count=len(source.left_out),
        card=beside.facts() if beside else {},
    )


def _unreadable_facts(facts: SetFacts, faults: Sequence[LeftOut]) -> SetFacts:
    told = "; ".join(f"{one.name}: {one.why}" for one in faults[:3])
    why = f"{len(faults)} file{'s' * (len(faults) != 1)} cannot be read: {told}"
    hint = "repair or move what cannot be read; it is tried again when its files change"
    return replace(facts, status="failed", why=redact(why), hint=hint)


def _other_command_facts(facts: SetFacts, data_set: DataSet, root: str) -> SetFacts:
    """Return the facts of what another command reads; its paths are relative to the root."""
    assert isinstance(data_set.said, Proposal)
    hint = f"{redact(data_set.said.reason)} (paths below {redact(root)})"
    why = "it is read by another command"
    return replace(facts, status="other", decision="irrelevant", why=why, hint=hint)


def _with_former_result(order: LakeOrder, facts: SetFacts) -> SetFacts:
    """Add the result of an earlier run, which stays although it is outdated."""
    if facts.result or find_finished(order.result(facts.name)) is None:
        return facts
    why = f"{facts.why} (the result of an earlier run is still there: it is not in the corpus)"
    return replace(facts, result=f"{SETS}/{facts.name}", why=why)


def _failed_facts(facts: SetFacts, status: Status, error: IngotError) -> SetFacts:
    hint = str(getattr(error, "hint", ""))
    why = str(error) if not hint else str(type(error)(*error.args[:2]))
    return replace(facts, status=status, why=redact(why), hint=redact(hint))


def _proposal_facts(facts: SetFacts, outcome: Outcome) -> SetFacts:
    check, usage = outcome.check, outcome.usage
    provenance = (outcome.mapping or {}).get("provenance") or {}
    of_file = outcome.mapper == "file" and "mapper" in provenance
    return replace(
        facts,
        decision=outcome.decision,
        mapper=provenance["mapper"] if of_file else outcome.mapper,
        model=(usage.model if usage else "") or provenance.get("model"),
        confidence=provenance.get("confidence") if of_file else outcome.confidence,
        coverage=check.coverage if check else None,
        spent={key: getattr(usage, key) for key in _SPENT} if usage else {},
        mapping=outcome.mapping,
        fingerprint=provenance.get("fingerprint"),
        why="by its approved mapping" if of_file else redact(outcome.reason or ""),
    )


def _result_facts(order: LakeOrder, facts: SetFacts, done: FinishedResult) -> SetFacts:
    """Add what the result holds; its records are measured."""
    name, manifest = facts.name, done.manifest
    tokens = manifest["tokens"] or {}
    made = replace(
        facts,
        status="nothing",
        decision=manifest["decision"],
        rows=manifest["rows"],
        records=manifest["records"],
        rejects=manifest["rejects"],
        tokens=tokens.get("tokens"),
        sequences=tokens.get("sequences"),
        figures=measure_records(done.folder, order.hashes(name), redact),
        mapping=None,
        mapping_file=None,
        result=f"{SETS}/{name}",
    )
    if manifest["decision"] == "irrelevant":
        return made
    return replace(
        made,
        status="converted",
        mapping=load_json(done.folder / MAPPING),
        mapping_file=_relative_name(order.mapping(name), order.out),
    )


def _relative_name(file: Path, lake: Path) -> str:
    return str(file.relative_to(lake)) if file.is_relative_to(lake) else str(file)


# What may be otherwise in the next run although nothing of the data changed.
_PASSING = (StorageError, ModelError, OutputError)


@dataclass(frozen=True, kw_only=True)
class SetTask:
    """One data set to work on.

    Attributes:
        key: its `data_set_key` when the task was given.
        after: the first by name of those of them that have its keys or columns, "" = itself. It
            asks first, so that who is asked for does not depend on who is faster.
        alone: whether no other data set of the lake has the same keys or columns. Only then a
            model is shown the card beside the data: an answer that serves several data sets
            must not be influenced by the card of one.
    """

    order: LakeOrder
    data_set: DataSet
    has_mapping: bool
    key: str
    pending: frozenset[str]
    after: str
    alone: bool


@dataclass(frozen=True, kw_only=True)
class SetResult:
    """What became of a data set.

    `facts` is None if another one has to come first: `waits_for`, which has the same `shape`. With
    `again` the next run tries again although nothing has changed.
    """

    facts: SetFacts | None = None
    shape: str = ""
    waits_for: str = ""
    again: bool = False


def work_on_set(task: SetTask) -> SetResult:
    """Map, gate and convert one data set; what goes wrong is in its facts."""
    done = _attempt_task(task)
    if done.facts is None:
        return done
    return replace(done, facts=_with_former_result(task.order, done.facts).as_text())


def _attempt_task(task: SetTask) -> SetResult:
    known = _known_facts(task.data_set)
    try:
        return _process_set(task, known)
    except PostponedError as error:
        return SetResult(shape=error.shape)
    except ModelError as error:
        return SetResult(facts=_failed_facts(known, "resting", error), again=True)
    except (ReviewNeeded, DriftError) as error:
        return SetResult(facts=_failed_facts(known, "waiting", error))
    except IngotError as error:
        return SetResult(
            facts=_failed_facts(known, "failed", error), again=isinstance(error, _PASSING)
        )


def _process_set(task: SetTask, known: SetFacts) -> SetResult:
    data_set, source = task.data_set, task.data_set.source
    if data_set.said is not None:
        return SetResult(facts=_other_command_facts(known, data_set, task.order.root))
    if data_set.faults:
        return SetResult(facts=_unreadable_facts(known, data_set.faults))
    if not source.files:
        told = "; ".join(f"{one.name}: {one.why}" for one in source.left_out[:3])
        facts = replace(known, decision="irrelevant", why=redact(f"no data file: {told}"))
        return SetResult(facts=facts)
    order, context = _open_data_set(task)
    file = task.order.mapping(data_set.name)
    if file.is_file():
        return SetResult(
            facts=_convert_by_mapping(task, known, replace(order, mapper="file"), context, file)
        )
    return _convert_by_graph(task, known, order, context)


def _open_data_set(task: SetTask) -> tuple[Order, Context]:
    source = task.data_set.source
    context = Context(asking=_make_asking(task.order))
    context.use_source(replace(source, roots=root_candidates(source.files)))
    if task.data_set.cards and (beside := find_card(task.data_set.cards)) is not None:
        context.cards = {source.location: beside}
    return task.order.data_set_order(task.data_set), context


def _make_asking(order: LakeOrder) -> ModelAccess | None:
    asked: AskSettings | None = order.asking
    if asked is None or order.mapper == "rules":
        return None
    return ModelAccess(
        endpoint=asked.endpoint,
        store=Store(state_home()),
        ledger=LakeLedger(order.state, asked.run, asked.data_set, asked.price),
        remembered=asked.remembered,
        shared=True,
    )


def _convert_by_mapping(
    task: SetTask, known: SetFacts, order: Order, context: Context, file: Path
) -> SetFacts:
    """Convert by the approved mapping: no model is asked, rows that do not fit it are rejected."""
    given = replace(order, mapping=load_mapping(file), mapping_file=str(file))
    facts = _settled_facts(task, known, given, convert_mapping(given, context))
    return _pin_rows(task, facts, context)


def _convert_by_graph(task: SetTask, known: SetFacts, order: Order, context: Context) -> SetResult:
    """Ask for a proposal; convert if it may be approved, else leave it for review."""
    call = _open_shared_model(task, context)
    context.turns = call.turns() if call else {}
    folder = task.order.run_folder(task.data_set.name)
    with open_session(order, context, home=folder) as current:
        try:
            state = current.begin()
        finally:
            if call:
                call.close()
        state, why = _review_by_gates(task, current, state, call)
        unasked = "turn" in state and state["turn"].fallback.startswith(NOT_ASKED)
        if unasked or not (current.is_waiting() or current.is_at_rest()):
            current.forget()
    if why or state["outcome"].status not in ("done", "already_done", "irrelevant"):
        facts = _waiting_facts(task, known, order, state, why, resting=unasked)
        return SetResult(
            facts=facts,
            shape=call.shape if call else "",
            waits_for=call.waits_for if call else "",
            again=facts.status == "resting",
        )
    shutil.rmtree(folder, ignore_errors=True)
    facts = _pin_rows(task, _settled_facts(task, known, order, state), context)
    return SetResult(facts=facts, shape=call.shape if call else "")


def _open_shared_model(task: SetTask, context: Context) -> SharedModel | None:
    if context.asking is None:
        return None

    def approved(name: str) -> dict[str, Json] | None:
        file = task.order.mapping(name)
        return load_json(file) if file.is_file() else None

    return SharedModel(
        state=task.order.state,
        name=task.data_set.name,
        asking=context.asking,
        rules=context.rules,
        card=context.cards.get(task.data_set.source.location) if task.alone else None,
        pending=task.pending,
        after=task.after,
        approved=approved,
    )


def _review_by_gates(
    task: SetTask, current: Session, state: RunState, call: SharedModel | None
) -> tuple[RunState, str]:
    """Approve what may be approved; return the state, and why it waits."""
    if current.is_at_rest():
        stopped = state.get("stopped")
        return state, f"a budget is exhausted: {stopped.why if stopped else ''}"
    if not current.is_waiting():
        return state, ""
    why = _review_reason(task, state, call)
    if why:
        return state, why
    return current.answer({"decisions": [{"type": "approve"}]}), ""


def _review_reason(task: SetTask, state: RunState, call: SharedModel | None) -> str:
    """Say why a proposal waits for a person, "" if it does not."""
    if call and call.waits_for:
        return f"{call.waits_for} has the same shape and waits for a person: settle it first"
    decided = review_by_gates(state)
    if decided.decision != "approve":
        return decided.why
    if "turn" in state and state["turn"].fallback:
        return f"the rules stand in for a model: {state['turn'].fallback}"
    return "" if task.order.yes else "no person has approved the proposal yet"


def _waiting_facts(
    task: SetTask, known: SetFacts, order: Order, state: RunState, why: str, *, resting: bool
) -> SetFacts:
    """Write the proposal for a person, and return the facts."""
    told = run_outcome(state)
    resting = resting or told.status == "budget"
    if not resting:
        write_proposal(state, order.out or "")
    folder = proposal_path(order.out or "") / MAPPING
    stopped = state.get("stopped")
    more = stopped.hint if stopped else ""
    hint = more if resting else "decide it: ingot lake review DIR"
    return replace(
        _proposal_facts(known, told),
        status="resting" if resting else "waiting",
        why=redact(why or told.why or _NO_MAPPING),
        hint=hint,
        mapping_file=None if resting else _relative_name(folder, task.order.out),
    )


_NO_MAPPING = "no mapper found a mapping that can be run"


def _settled_facts(task: SetTask, known: SetFacts, order: Order, state: RunState) -> SetFacts:
    folder = task.order.result(task.data_set.name)
    done = find_finished(folder)
    if done is None:
        raise OutputError(str(folder), "was removed meanwhile", "run again")
    remove_proposal(order)
    return _result_facts(task.order, _proposal_facts(known, run_outcome(state)), done)


def _pin_rows(task: SetTask, facts: SetFacts, context: Context) -> SetFacts:
    """Pin a sample of the rows beside the mapping; the hint says why if that fails."""
    if not task.order.pin or facts.status != "converted" or facts.mapping is None:
        return facts
    file = task.order.mapping(facts.name)
    spec = spec_of_document(facts.mapping, where=str(file))
    source, sample = context.source_and_sample(task.data_set.source.location, spec)
    share, kept = task.order.share_values, named_values(facts.mapping)
    try:
        with output_errors(file):
            file.parent.mkdir(parents=True, exist_ok=True)
        pin_sample(source, sample, pinned_folder(file), share=share, keep=kept, overwrite=True)
    except (OutputError, SourceError) as error:
        return replace(facts, hint=f"no sample is pinned: {redact(str(error))}")
    return facts
