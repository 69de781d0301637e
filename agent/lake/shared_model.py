"""Budgets of a run over a lake: what all its processes spend, held together.

A request is reserved before it is sent and settled when it is answered, so that processes which ask
at the same time pass no limit together. What a run that was killed spent stays counted until a run
of the lake comes to its end.

A model for many data sets: about one shape it is asked once, by whoever comes first.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ingot.agent.lake.lake_state import LakeState
from ingot.agent.model.budget import Ledger, Limits, Price, Spent, check_request_limits, check_wait
from ingot.agent.nodes.propose import document_decision
from ingot.agent.proposing import auto
from ingot.agent.proposing.auto import fallback_turn
from ingot.agent.proposing.cards import Card
from ingot.agent.proposing.fingerprint import fingerprint
from ingot.agent.proposing.llm import mapper
from ingot.agent.proposing.llm.model_access import ModelAccess
from ingot.agent.proposing.proposal import MODEL, History, Mapper, Proposal, Request, Turn
from ingot.converters.errors import ModelError
from ingot.converters.rows import Json
from ingot.converters.sources import Source
from ingot.converters.sources.sample import Sample
from ingot.converters.typed_json import decode, encode

_NOTE: Final = "spent"
_RUN: Final = "run"


class LakeLedger(Ledger):
    """The ledger of one process of a run over a lake."""

    def __init__(
        self, state: LakeState, run: Limits, data_set: Limits, price: Price | None
    ) -> None:
        super().__init__(data_set=data_set, price=price)
        self._state, self._of_run = state, run

    @property
    def run(self) -> Spent:
        """What all processes of the run spent or have reserved."""
        return _note_total(self._state.note(_NOTE))

    def check(self, tokens_in: int, tokens_out: int) -> None:
        """See that one more request is within every limit, and reserve it."""
        super().check(tokens_in, tokens_out)

        def reserved(note: Json) -> Json:
            check_request_limits(
                _RUN, self._of_run, _note_total(note), self.price, tokens_in, tokens_out
            )
            cost = self.cost(tokens_in, tokens_out)
            wanted = Spent(calls=1, tokens_in=tokens_in, tokens_out=tokens_out, cost=cost)
            return _with_reservation(note, wanted)

        self._state.change_note(_NOTE, reserved)

    def check_wait(self, seconds: float) -> None:
        """Whether so long a wait leaves time to ask again."""
        super().check_wait(seconds)
        check_wait(_RUN, self._of_run, self.run, seconds)

    def add(self, spent: Spent) -> None:
        """Count what one request or wait spent, in place of what was reserved for it."""
        super().add(spent)
        self._state.change_note(
            _NOTE, lambda note: _with_reservation(_settle_note(note, spent), None)
        )

    def seconds_left(self) -> float | None:
        """The time that is left, never below 0; None = no limit."""
        of_set, most = super().seconds_left(), self._of_run.seconds
        left = [] if most is None else [max(0.0, most - self.run.seconds)]
        return min([*left, *([] if of_set is None else [of_set])], default=None)


def begin_run(state: LakeState) -> None:
    """See to it that what a killed run had reserved counts as spent: it may have been sent."""
    note = state.note(_NOTE)
    if note is not None:
        state.keep_note(_NOTE, {"spent": encode(_note_total(note)), "reserved": {}})


def count_spending(state: LakeState) -> Spent:
    """What the run has spent so far."""
    return _note_total(state.note(_NOTE))


def end_run(state: LakeState) -> Spent:
    """What the run spent; the next one begins with nothing spent."""
    total = count_spending(state)
    state.keep_note(_NOTE, None)
    return total


def _note_total(note: Json) -> Spent:
    if note is None:
        return Spent()
    parts = [note["spent"], *note["reserved"].values()]
    return sum((decode(Spent, one) for one in parts), Spent())


def _with_reservation(note: Json, wanted: Spent | None) -> Json:
    """The note with what this process has reserved now; None = nothing."""
    note = note or {"spent": encode(Spent()), "reserved": {}}
    others = {pid: one for pid, one in note["reserved"].items() if pid != str(os.getpid())}
    mine = {} if wanted is None else {str(os.getpid()): encode(wanted)}
    return {**note, "reserved": {**others, **mine}}


def _settle_note(note: Json, spent: Spent) -> Json:
    note = note or {"spent": encode(Spent()), "reserved": {}}
    return {**note, "spent": encode(decode(Spent, note["spent"]) + spent)}


GONE: Final = "gone"  # the note of why a model is not asked any more in this run
_GONE: Final = ("unreachable", "unauthorized", "quota", "no_such_model", "redirect", "not_openai")
_LOCKS: Final = "shapes"


class PostponedError(Exception):
    """Another data set of the same shape comes first; field: what the shape is known by."""

    def __init__(self, shape: str) -> None:
        super().__init__(shape)
        self.shape = shape


@dataclass(kw_only=True, eq=False)
class SharedModel:
    """The model as one data set of a lake may ask it.

    Attributes:
        state: where data sets meet.
        name: the data set.
        asking: how the model is asked.
        rules: the rules.
        card: what is said beside the data.
        pending: the data sets that have not come to an end in this run yet.
        after: the data set that is to ask first, "" = this one.
        approved: the approved mapping of a data set, None = there is none.
        shape: what the data set's shape is known by, once the model was to be asked about it.
        waits_for: the data set of the same shape whose answer a person has to settle first.
    """

    state: LakeState
    name: str
    asking: ModelAccess
    rules: Mapper
    card: Card | None
    pending: frozenset[str]
    after: str
    approved: Callable[[str], dict[str, Json] | None]
    waits_for: str = ""
    shape: str = ""
    _held: ExitStack = field(default_factory=ExitStack)

    def turns(self) -> dict[str, Mapper]:
        """The mappers that ask the model, by their names."""
        return {
            "auto": auto.auto_mapper(self.rules, self._turn),
            MODEL: auto.model_first_mapper(self._turn, self.rules),
        }

    def close(self) -> None:
        """Let others of this shape ask."""
        self._held.close()

    def _turn(self, source: Source, sample: Sample, request: Request, history: History) -> Turn:
        rules, shape = self.rules(source, sample, request, ()), fingerprint(source, sample)
        shape, rows = self.asking.keys(shape, sample, request, rules.proposal, self.card)
        if not self.shape:
            self.shape = shape
            self._held.enter_context(_lock_shape(self.state.folder / _LOCKS, shape))
        first = self.state.first_of_shape(shape)
        # Without what other runs were told, what this lake was told still counts.
        self.asking.remembered |= first is not None
        if not self._known(shape, rows):
            if self.after and first is None:
                raise PostponedError(shape)
            if first not in (None, self.name) and (turn := self._second(str(first), rules)):
                return turn
            if gone := self.state.note(GONE):
                raise ModelError(*gone)
            self.state.keep_shape(shape, self.name)
        return self._asked(source, sample, request, history)

    def _asked(self, source: Source, sample: Sample, request: Request, history: History) -> Turn:
        """The model's turn; where it does not answer at all, no other data set waits for it too."""
        cards = {source.location: self.card} if self.card else {}
        try:
            return mapper.llm_mapper(self.asking, self.rules, cards)(
                source, sample, request, history
            )
        except ModelError as error:
            if error.kind in _GONE:
                self.state.keep_note(GONE, list(error.args))
            raise

    def _known(self, shape: str, rows: str) -> bool:
        """Whether an answer is there for the shape, or for these rows."""
        if not self.asking.remembered:
            return False
        of_shape = self.asking.store.reply(shape) is not None and not self.asking.marked(shape)
        return of_shape or self.asking.store.reply(rows) is not None

    def _second(self, first: str, rules: Turn) -> Turn | None:
        """The turn of a data set that came second; None where the first gave up."""
        if first in self.pending:
            raise PostponedError(self.shape)
        document = self.approved(first)
        if document is not None and not _may_come_from_card(document):
            return _approved_turn(document, first, rules.proposal)
        found = self.state.sets().get(first)
        if found is None or found.facts.status not in ("waiting", "rejected"):
            return None
        self.waits_for = first
        return fallback_turn(rules, f"a model was asked about this shape for {first}, which waits")


def _may_come_from_card(document: dict[str, Json]) -> bool:
    """Whether a card beside other data may have talked a model into a mapping, unseen by people."""
    made = document.get("provenance") or {}
    return bool(made.get("card")) and not (made.get("edited") or made.get("reviewed"))


def _approved_turn(document: dict[str, Json], first: str, rules: Proposal | None) -> Turn:
    """The mapping that was approved for another data set of the shape, as this one's.

    What was read in the other's texts, and its name, is said anew. It passes the gates as what it
    was: a person's, or a model's.
    """
    made = document.get("provenance") or {}
    persons = bool(made.get("edited") or made.get("reviewed")) or made.get("mapper") != MODEL
    language = (rules.detected if rules else {}).get("language")
    mapping = {key: value for key, value in document.items() if key != "provenance"}
    for layout in [mapping, *mapping.get("any_of", [])]:
        if isinstance(meta := layout.get("meta"), dict):
            layout["meta"] = _own_meta(meta, language)
    proposal = Proposal(
        decision=document_decision(mapping),
        mapping=mapping,
        confidence=1.0 if persons else float(made.get("confidence") or 0.0),
        reason=f"As approved for {first}, a data set of the same shape.",
        mapper="edited" if persons else MODEL,
    )
    return Turn(proposal=proposal, mapper=proposal.mapper, provenance={"as": first})


def _own_meta(meta: dict[str, Json], language: Json) -> dict[str, Json]:
    kept = {
        key: value
        for key, value in meta.items()
        if key not in ("source", "language") or not _is_literal(value)
    }
    said = {"language": {"literal": language}} if language and "language" not in kept else {}
    return kept | said


def _is_literal(value: Json) -> bool:
    return isinstance(value, dict) and "literal" in value


@contextmanager
def _lock_shape(folder: Path, shape: str) -> Iterator[None]:
    """Hold a shape; the operating system lets it go when the process ends."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / shape, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise PostponedError(shape) from error
    try:
        yield
    finally:
        os.close(descriptor)
