"""One model for many data sets: one budget over all processes, one question per shape at a time.

A request is reserved before it is sent and settled when it is answered, so that processes that ask
at the same time stay within the limits together. What an interrupted run spent stays counted until
a run of the lake ends.
"""

import os
import platform
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from ingot.agent.lake.lake_state import LakeState
from ingot.agent.model.budget import Ledger, Limits, Price, Spent, check_request_limits
from ingot.agent.proposing.cards import Card
from ingot.agent.proposing.fingerprint import fingerprint
from ingot.agent.proposing.llm import mapper
from ingot.agent.proposing.llm.mapper import ModelAccess
from ingot.agent.proposing.proposal import (
    MODEL,
    History,
    Mapper,
    Proposal,
    Request,
    Turn,
    auto_mapper,
    fallback_turn,
    model_first_mapper,
)
from ingot.converters.errors import ModelError
from ingot.converters.lake.survey import DataSet
from ingot.converters.mapping import language
from ingot.converters.mapping.bind import read_changed
from ingot.converters.mapping.language import Layout, Value
from ingot.converters.output.files import LockedError, hold_lock
from ingot.converters.sources import Source
from ingot.converters.sources.sample import Sample

_NOTE: Final = "spent"
_RUN: Final = "run"


@dataclass(frozen=True, kw_only=True)
class _SpentNote:
    """What the run has spent, and what its processes have reserved, by the process."""

    spent: Spent = field(default_factory=Spent)
    reserved: dict[str, Spent] = field(default_factory=dict)

    @property
    def total(self) -> Spent:
        return sum(self.reserved.values(), self.spent)

    def with_mine(self, request: Spent | None) -> dict[str, Spent]:
        """Return what is reserved, with what this process wants; None = nothing."""
        mine = f"{platform.node()}:{os.getpid()}"
        other_processes = {
            process: one for process, one in self.reserved.items() if process != mine
        }
        return other_processes if request is None else {**other_processes, mine: request}


class LakeLedger(Ledger):
    """The ledger of one process of a run over a lake."""

    def __init__(
        self, state: LakeState, run: Limits, data_set: Limits, price: Price | None
    ) -> None:
        super().__init__(price=price)
        self._state, self._limits = state, {"data set": data_set, _RUN: run}

    @property
    def run(self) -> Spent:
        """Return what all processes of the run spent or have reserved."""
        return count_spending(self._state)

    def check(self, tokens_in: int, tokens_out: int) -> None:
        """Check that one more request is within every limit, and reserve it."""
        super().check(tokens_in, tokens_out)
        cost = self.cost(tokens_in, tokens_out)
        request = Spent(calls=1, tokens_in=tokens_in, tokens_out=tokens_out, cost=cost)

        def reserve(note: _SpentNote | None) -> _SpentNote:
            note = note or _SpentNote()
            run = self._limits[_RUN]
            check_request_limits(_RUN, run, note.total, self.price, tokens_in, tokens_out)
            return replace(note, reserved=note.with_mine(request))

        self._state.change_note(_NOTE, _SpentNote, reserve)

    def add(self, spent: Spent) -> None:
        """Count what one request or wait spent, in place of its reservation."""
        super().add(spent)

        def settle(note: _SpentNote | None) -> _SpentNote:
            note = note or _SpentNote()
            return _SpentNote(spent=note.spent + spent, reserved=note.with_mine(None))

        self._state.change_note(_NOTE, _SpentNote, settle)


def begin_run(state: LakeState) -> None:
    """Count what a killed run had reserved as spent: it may have been sent."""
    if (note := state.note(_NOTE, _SpentNote)) is not None:
        state.keep_note(_NOTE, _SpentNote(spent=note.total), _SpentNote)


def count_spending(state: LakeState) -> Spent:
    """Return what the run has spent so far, or reserved."""
    return (state.note(_NOTE, _SpentNote) or _SpentNote()).total


def end_run(state: LakeState) -> Spent:
    """Return what the run spent; the next one begins with nothing spent."""
    total = count_spending(state)
    state.keep_note(_NOTE, None, _SpentNote)
    return total


GONE: Final = "gone"  # the note of why a model is not asked any more in this run
_GONE: Final = ("unreachable", "unauthorized", "quota", "no_such_model", "redirect", "not_openai")
_LOCKS: Final = "shapes"


class PostponedError(Exception):
    """Another data set of the same shape comes first."""

    def __init__(self, shape: str) -> None:
        super().__init__(shape)
        self.shape = shape


@dataclass(kw_only=True, eq=False)
class SharedModel:
    """The model as one data set of a lake may ask it.

    Attributes:
        pending: the data sets that are not done in this run yet.
        after: the one that asks first, "" = this one.
        approved: looks up the approved mapping of another one.
        shape: set if the model was to be asked.
        waits_for: the data set of the same shape that a person has to settle first.
    """

    state: LakeState
    name: str
    asking: ModelAccess
    rules: Mapper
    card: Card | None
    pending: frozenset[str]
    after: str
    approved: Callable[[str], language.Mapping | None]
    waits_for: str = ""
    shape: str = ""
    _held: ExitStack = field(default_factory=ExitStack)

    def turns(self) -> dict[str, Mapper]:
        """Return the mappers that ask the model, by name."""
        return {
            "auto": auto_mapper(self.rules, self._turn),
            MODEL: model_first_mapper(self._turn, self.rules),
        }

    def close(self) -> None:
        """Let others of this shape ask."""
        self._held.close()

    def _turn(self, source: Source, sample: Sample, request: Request, history: History) -> Turn:
        rules, shape = self.rules(source, sample, request, ()), fingerprint(source, sample)
        shape, rows = self.asking.keys(shape, sample, request, rules.proposal, self.card)
        if not self.shape:
            self.shape = shape
            locks = self.state.folder / _LOCKS
            locks.mkdir(parents=True, exist_ok=True)
            try:
                self._held.enter_context(hold_lock(locks / shape))
            except LockedError as error:
                raise PostponedError(shape) from error
        first = self.state.first_of_shape(shape)
        # Without what other runs were told, what this lake was told still counts.
        self.asking.remembered |= first is not None
        if not self._known(shape, rows):
            if self.after and first is None:
                raise PostponedError(shape)
            if first not in (None, self.name) and (turn := self._second(str(first), rules)):
                return turn
            if failure := self.state.note(GONE, list[str]):
                raise ModelError(*failure)
            self.state.keep_shape(shape, self.name)
        cards = {source.location: self.card} if self.card else {}
        mapper_call = mapper.llm_mapper(self.asking, self.rules, cards)
        try:
            return mapper_call(source, sample, request, history)
        except ModelError as error:
            if error.kind in _GONE:  # it does not answer at all: no other data set tries now
                self.state.keep_note(GONE, list(error.args), list[str])
            raise

    def _known(self, shape: str, rows: str) -> bool:
        if not self.asking.remembered:
            return False
        reply, marked = self.asking.store.reply, self.asking.marked
        return (reply(shape) is not None and not marked(shape)) or reply(rows) is not None

    def _second(self, first: str, rules: Turn) -> Turn | None:
        """Take the turn of a data set that came second; None if the first gave up."""
        if first in self.pending:
            raise PostponedError(self.shape)
        mapping = self.approved(first)
        if mapping is not None and _is_persons(mapping):
            return _approved_turn(mapping, first, rules.proposal)
        first_set = self.state.sets(first).get(first)
        if first_set is None or first_set.facts.status not in ("waiting", "rejected"):
            return None
        self.waits_for = first
        return fallback_turn(rules, f"a model was asked about this shape for {first}, which waits")


def _is_persons(mapping: language.Mapping) -> bool:
    """Whether no model alone wrote a mapping: what talked one into it may not stand elsewhere."""
    provenance = mapping.provenance or {}
    return (
        bool(provenance.get("edited") or provenance.get("reviewed"))
        or provenance.get("mapper") != MODEL
    )


def _approved_turn(mapping: language.Mapping, first: str, rules: Proposal | None) -> Turn:
    """Propose a mapping approved for another data set, with its own language and source."""
    if mapping.draft is None:  # version 1 says neither
        language = (rules.detected if rules else {}).get("language")
        stated = {"language": Value(kind="literal", literal=language)} if language else {}

        def restate(layout: Layout) -> Layout:
            own = {
                key: value
                for key, value in layout.meta.items()
                if key not in ("source", "language") or value.kind != "literal"
            }
            return replace(layout, meta={**stated, **own} if layout.meta else {})

        outer, variants = restate(mapping.outer), tuple(map(restate, mapping.any_of))
        made = replace(mapping, outer=outer, any_of=variants, provenance=None)
        mapping = read_changed(mapping, made)
    proposal = Proposal(
        decision=mapping.kind,
        mapping=mapping,
        confidence=1.0,
        reason=f"As approved for {first}, a data set of the same shape.",
        mapper="edited",
    )
    return Turn(proposal=proposal, mapper=proposal.mapper, provenance={"as": first})


# --- the order of data sets, so that one answer serves all of a shape


class QueuedSet(NamedTuple):
    """A data set whose turn it is, with `after`, which asks first, and all that are not done."""

    data_set: DataSet
    after: str
    pending: frozenset[str]


class TurnQueue:
    """Data sets that wait for their turn."""

    def __init__(self, sets: Iterable[DataSet]) -> None:
        self._waiting = {one.name: one for one in sets}
        self._shapes: dict[str, str] = {}
        self._led: set[str] = set()  # shapes of which one has come to its end
        self._stuck = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def runs_alone(self) -> bool:
        """Return whether sets run alone: all blocked each other when several ran at a time."""
        return self._stuck == 1

    def next(self) -> list[QueuedSet]:
        """Return whose turn it is now; all of them if working one by one did not help either."""
        if self._stuck > 1:
            return [QueuedSet(one, "", frozenset()) for one in self._waiting.values()]
        pending, firsts = frozenset(self._waiting), dict[object, str]()
        for name in sorted(self._waiting, reverse=True):  # of those that are, or may be, alike
            firsts[self._likeness(self._waiting[name])] = name
        turns = []
        for one in self._waiting.values():
            first, shape = firsts[self._likeness(one)], self._shapes.get(one.name)
            if first == one.name or shape in self._led:
                turns.append(QueuedSet(one, "", pending))
            elif shape is None:
                turns.append(QueuedSet(one, first, pending))
        return turns

    def _likeness(self, data_set: DataSet) -> object:
        return self._shapes.get(data_set.name) or shape_keys(data_set)

    def settle(self, finished: Mapping[str, str], put_off: Mapping[str, str]) -> None:
        """Record a round, each with its shape ("" = unknown): who is done, who was put off."""
        for name in finished:
            del self._waiting[name]
        self._led.update(finished.values())
        self._shapes |= {name: shape for name, shape in put_off.items() if shape}
        self._stuck = 0 if finished else self._stuck + 1


def shape_keys(data_set: DataSet) -> frozenset[str]:
    """Return what is known of the shape of a data set's rows before they are sampled."""
    return frozenset(name for file in data_set.source.files for name in file.facts.shape)
