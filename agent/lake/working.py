"""One data set of a lake, from its files to its facts; runs in a process of its own."""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from ingot.agent import direct
from ingot.agent.cards import card
from ingot.agent.checkpoints import home
from ingot.agent.context import Context
from ingot.agent.lake import telling
from ingot.agent.lake.ledger import LakeLedger
from ingot.agent.lake.one_call import OneCall, PutOffError
from ingot.agent.lake.order import LakeOrder
from ingot.agent.mappers.asking import Asking, AskOrder
from ingot.agent.mappers.auto import UNASKED
from ingot.agent.model.store import Store
from ingot.agent.nodes.report import outcome
from ingot.agent.nodes.review import by_gates
from ingot.agent.pinning.pin import named_values, pin, pinned_folder
from ingot.agent.redaction import redact
from ingot.agent.session import Session, session
from ingot.agent.state import Order
from ingot.agent.state import State as RunState
from ingot.agent.trial import spec_of
from ingot.agent.waiting import MAPPING, clear, proposal_folder, put_down
from ingot.converters.commit import finished, writing
from ingot.converters.errors import (
    DriftError,
    IngotError,
    ModelError,
    OutputError,
    ReviewNeeded,
    SourceError,
    StorageError,
)
from ingot.converters.json_files import load_json
from ingot.converters.lake.facts import SetFacts
from ingot.converters.lake.survey import DataSet
from ingot.converters.mapping import load
from ingot.converters.readers.roots import candidates
from ingot.converters.rows import Json

# What may be otherwise in the next run although nothing of the data changed.
_PASSING = (StorageError, ModelError, OutputError)


@dataclass(frozen=True, kw_only=True)
class Task:
    """One data set to be worked at.

    Attributes:
        order: what is ordered of the lake.
        data_set: the data set.
        has_mapping: whether it has an approved mapping.
        key: of all that its state depends on, as it was when the task was given, see `key_of`.
        pending: names of those that have not come to their end in this run yet.
        after: the first by name of those of them that have its keys or columns, "" = itself. It
            asks first, so that who was asked for does not depend on who is faster.
        alone: whether no other data set of the lake has the same keys or columns. Only then a model
            is shown what a card beside the data says: an answer that serves several data sets must
            not be talked into by the card of one.
    """

    order: LakeOrder
    data_set: DataSet
    has_mapping: bool
    key: str
    pending: frozenset[str]
    after: str
    alone: bool


@dataclass(frozen=True, kw_only=True)
class Done:
    """What became of a data set.

    Attributes:
        facts: None where another one has to come first.
        shape: what its shape is known by, where a model is asked about it; "" else.
        waits_for: the data set of the same shape that has to be settled first, "" = none.
        again: whether the next run shall try again although nothing has changed.
    """

    facts: SetFacts | None = None
    shape: str = ""
    waits_for: str = ""
    again: bool = False


def work(task: Task) -> Done:
    """Map, gate and convert one data set; what goes wrong is told in its facts."""
    done = _tried(task)
    if done.facts is None:
        return done
    return replace(done, facts=telling.with_former(task.order, done.facts).as_text())


def _tried(task: Task) -> Done:
    known = telling.known(task.data_set)
    try:
        return _worked(task, known)
    except PutOffError as error:
        return Done(shape=error.shape)
    except ModelError as error:
        return Done(facts=telling.ended(known, "resting", error), again=True)
    except (ReviewNeeded, DriftError) as error:
        return Done(facts=telling.ended(known, "waiting", error))
    except IngotError as error:
        return Done(facts=telling.ended(known, "failed", error), again=isinstance(error, _PASSING))


def _worked(task: Task, known: SetFacts) -> Done:
    data_set, source = task.data_set, task.data_set.source
    if data_set.said is not None:
        return Done(facts=telling.for_others(known, data_set, task.order.root))
    if data_set.faults:
        return Done(facts=telling.unreadable(known, data_set.faults))
    if not source.files:
        told = "; ".join(f"{one.name}: {one.why}" for one in source.left_out[:3])
        facts = replace(known, decision="irrelevant", why=redact(f"no data file: {told}"))
        return Done(facts=facts)
    order, context = _opened(task)
    file = task.order.mapping(data_set.name)
    if file.is_file():
        return Done(facts=_by_mapping(task, known, replace(order, mapper="file"), context, file))
    return _by_graph(task, known, order, context)


def _opened(task: Task) -> tuple[Order, Context]:
    """The order of the data set, and a context that has its source."""
    source = task.data_set.source
    context = Context(asking=_asking(task.order))
    context.bring(replace(source, roots=candidates(source.files)))
    if task.data_set.cards and (beside := card(task.data_set.cards)) is not None:
        context.cards = {source.location: beside}
    return task.order.of_set(task.data_set), context


def _asking(order: LakeOrder) -> Asking | None:
    asked: AskOrder | None = order.asking
    if asked is None or order.mapper == "rules":
        return None
    return Asking(
        endpoint=asked.endpoint,
        store=Store(home()),
        ledger=LakeLedger(order.state, asked.run, asked.data_set, asked.price),
        remembered=asked.remembered,
        shared=True,
    )


def _by_mapping(
    task: Task, known: SetFacts, order: Order, context: Context, file: Path
) -> SetFacts:
    """By the approved mapping: nobody is asked, what does not fit it is rejected."""
    given = replace(order, mapping=load(file), mapping_file=str(file))
    facts = _settled(task, known, given, direct.converted(given, context))
    return _pinned(task, facts, context)


def _by_graph(task: Task, known: SetFacts, order: Order, context: Context) -> Done:
    """By a proposal of the agent, up to its review and, where it may be approved, beyond."""
    call = _one_call(task, context)
    context.turns = call.turns() if call else {}
    folder = task.order.run_folder(task.data_set.name)
    with session(order, context, home=folder) as current:
        try:
            state = current.begin()
        finally:
            if call:
                call.close()
        state, why = _reviewed(task, current, state, call)
        unasked = _is_unasked(state)
        if unasked or not (current.waits() or current.rests()):
            current.forget()
    if why or state["outcome"]["status"] not in ("done", "already_done", "irrelevant"):
        facts = _waiting(task, known, order, state, why, resting=unasked)
        return Done(
            facts=facts,
            shape=call.shape if call else "",
            waits_for=call.waits_for if call else "",
            again=facts.status == "resting",
        )
    shutil.rmtree(folder, ignore_errors=True)
    facts = _pinned(task, _settled(task, known, order, state), context)
    return Done(facts=facts, shape=call.shape if call else "")


def _one_call(task: Task, context: Context) -> OneCall | None:
    if context.asking is None:
        return None

    def approved(name: str) -> dict[str, Json] | None:
        file = task.order.mapping(name)
        return load_json(file) if file.is_file() else None

    return OneCall(
        state=task.order.state,
        name=task.data_set.name,
        asking=context.asking,
        rules=context.rules,
        card=context.cards.get(task.data_set.source.location) if task.alone else None,
        pending=task.pending,
        after=task.after,
        approved=approved,
    )


def _reviewed(
    task: Task, current: Session, state: RunState, call: OneCall | None
) -> tuple[RunState, str]:
    """The state behind the review, or before it and why it waits there."""
    if current.rests():
        return state, f"a budget is used up: {state['stopped']['why']}"
    if not current.waits():
        return state, ""
    why = _reserved(task, state, call)
    if why:
        return state, why
    return current.answer({"decisions": [{"type": "approve"}]}), ""


def _reserved(task: Task, state: RunState, call: OneCall | None) -> str:
    """Why a proposal waits for a person, "" where it does not."""
    if call and call.waits_for:
        return f"{call.waits_for} has the same shape and waits for a person: settle it first"
    decided = by_gates(state)
    if decided["decision"] != "approve":
        return str(decided["why"])
    if state.get("turn", {}).get("fallback"):
        return f"the rules stand in for a model: {state['turn']['fallback']}"
    return "" if task.order.yes else "nobody has approved the proposal yet"


def _is_unasked(state: RunState) -> bool:
    """Whether the rules stand in for a model that could not be asked this time."""
    return str(state.get("turn", {}).get("fallback") or "").startswith(UNASKED)


def _waiting(
    task: Task, known: SetFacts, order: Order, state: RunState, why: str, *, resting: bool
) -> SetFacts:
    """The facts of a data set that waits, whose proposal is laid down for people."""
    told = outcome(state)
    resting = resting or told["status"] == "budget"
    if not resting:
        put_down(state, order.out or "")
    folder = proposal_folder(order.out or "") / MAPPING
    more = str((state.get("stopped") or {}).get("hint") or "")
    hint = more if resting else "decide it: ingot lake review DIR"
    return replace(
        telling.proposed(known, told),
        status="resting" if resting else "waiting",
        why=redact(why or told["why"] or _NO_MAPPING),
        hint=hint,
        mapping_file=None if resting else telling.beside(folder, task.order.out),
    )


_NO_MAPPING = "no mapper found a mapping that could be run"


def _settled(task: Task, known: SetFacts, order: Order, state: RunState) -> SetFacts:
    """The facts of a data set that has a result."""
    folder = task.order.result(task.data_set.name)
    done = finished(folder)
    if done is None:
        raise OutputError(str(folder), "is not there any more", "run again")
    clear(order)
    return telling.converted(task.order, telling.proposed(known, outcome(state)), done)


def _pinned(task: Task, facts: SetFacts, context: Context) -> SetFacts:
    """The facts, once a sample of the rows lies beside the mapping; or with why none does."""
    if not task.order.pin or facts.status != "converted" or facts.mapping is None:
        return facts
    file = task.order.mapping(facts.name)
    spec = spec_of(facts.mapping, where=str(file))
    source, sample = context.drawn(task.data_set.source.location, spec)
    share, kept = task.order.share_values, named_values(facts.mapping)
    try:
        with writing(file):
            file.parent.mkdir(parents=True, exist_ok=True)
        pin(source, sample, pinned_folder(file), share=share, keep=kept, overwrite=True)
    except (OutputError, SourceError) as error:
        return replace(facts, hint=f"no sample is pinned: {redact(str(error))}")
    return facts
