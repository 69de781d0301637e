"""A model for many data sets: about one shape it is asked once, by whoever comes first.

Who comes second uses the answer that was accepted for the shape. Where there is none to be used
yet, since the first is still at it or waits for a person, the second is put off, or waits as well.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ingot.agent.cards import Card
from ingot.agent.fingerprint import fingerprint
from ingot.agent.lake.state import State
from ingot.agent.mappers import auto, llm
from ingot.agent.mappers.asking import Asking
from ingot.agent.mappers.auto import marked
from ingot.agent.mappers.proposal import Proposal, Request
from ingot.agent.mappers.turn import MODEL, History, Turn, Turner
from ingot.agent.nodes.propose import decision_of
from ingot.converters.errors import ModelError
from ingot.converters.readers import Source
from ingot.converters.rows import Json
from ingot.converters.sample import Sample

GONE: Final = "gone"  # the note of why a model is not asked any more in this run
_GONE: Final = ("unreachable", "unauthorized", "quota", "no_such_model", "redirect", "not_openai")
_LOCKS: Final = "shapes"


class PutOffError(Exception):
    """Another data set of the same shape comes first; field: what the shape is known by."""

    def __init__(self, shape: str) -> None:
        super().__init__(shape)
        self.shape = shape


@dataclass(kw_only=True, eq=False)
class OneCall:
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

    state: State
    name: str
    asking: Asking
    rules: Turner
    card: Card | None
    pending: frozenset[str]
    after: str
    approved: Callable[[str], dict[str, Json] | None]
    waits_for: str = ""
    shape: str = ""
    _held: ExitStack = field(default_factory=ExitStack)

    def turns(self) -> dict[str, Turner]:
        """The mappers that ask the model, by their names."""
        return {
            "auto": auto.auto(self.rules, self._turn),
            MODEL: auto.first(self._turn, self.rules),
        }

    def close(self) -> None:
        """Let others of this shape ask."""
        self._held.close()

    def _turn(self, source: Source, sample: Sample, request: Request, history: History) -> Turn:
        rules, shape = self.rules(source, sample, request, ()), fingerprint(source, sample)
        shape, rows = self.asking.keys(shape, sample, request, rules.proposal, self.card)
        if not self.shape:
            self.shape = shape
            self._held.enter_context(_held(self.state.folder / _LOCKS, shape))
        first = self.state.asked_for(shape)
        # Without what other runs were told, what this lake was told still counts.
        self.asking.remembered |= first is not None
        if not self._known(shape, rows):
            if self.after and first is None:
                raise PutOffError(shape)
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
            return llm.mapper(self.asking, self.rules, cards)(source, sample, request, history)
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
            raise PutOffError(self.shape)
        document = self.approved(first)
        if document is not None and not _by_card(document):
            return _as_approved(document, first, rules.proposal)
        found = self.state.sets().get(first)
        if found is None or found.facts.status not in ("waiting", "rejected"):
            return None
        self.waits_for = first
        return marked(rules, f"a model was asked about this shape for {first}, which waits")


def _by_card(document: dict[str, Json]) -> bool:
    """Whether a card beside other data may have talked a model into a mapping, unseen by people."""
    made = document.get("provenance") or {}
    return bool(made.get("card")) and not (made.get("edited") or made.get("reviewed"))


def _as_approved(document: dict[str, Json], first: str, rules: Proposal | None) -> Turn:
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
            layout["meta"] = _own(meta, language)
    proposal = Proposal(
        decision=decision_of(mapping),
        mapping=mapping,
        confidence=1.0 if persons else float(made.get("confidence") or 0.0),
        reason=f"As approved for {first}, a data set of the same shape.",
        mapper="edited" if persons else MODEL,
    )
    return Turn(proposal=proposal, mapper=proposal.mapper, provenance={"as": first})


def _own(meta: dict[str, Json], language: Json) -> dict[str, Json]:
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
def _held(folder: Path, shape: str) -> Iterator[None]:
    """Hold a shape; the operating system lets it go when the process ends.

    Raises:
        PutOffError: another process holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / shape, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise PutOffError(shape) from error
    try:
        yield
    finally:
        os.close(descriptor)
