"""How the records of a result fit a trainer: counted before anything is written."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from ingot.converters.export.chats import REASONS, Chat, Fitted, chat_of
from ingot.converters.export.layout import Trainer, Way
from ingot.converters.record_kinds import Record
from ingot.converters.rows import Json

SHAPES: Final = 10_000  # that a fitter remembers


@dataclass(kw_only=True)
class Tally:
    """What becomes of the records: read is written plus left out.

    Attributes:
        read: records of the result.
        written: rows for the trainer.
        left_out: records that are no row, by reason.
        changed: rows that are not what their record is, by reason; a row may have several.
        chars_of_records: characters of messages that the records train on.
        chars_of_trainer: characters of messages that the trainer will train on.
    """

    read: int = 0
    written: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)
    chars_of_records: int = 0
    chars_of_trainer: int = 0

    @property
    def lost(self) -> dict[str, int]:
        """Records that the trainer does not train on as they say, by reason."""
        found = self.left_out + self.changed
        return {name: found[name] for name in REASONS if found[name] and not _harmless(name)}

    @property
    def is_unchanged(self) -> bool:
        """Whether every record is a row as it is."""
        return not self.left_out and not self.changed

    def to_json(self) -> dict[str, Json]:
        """The counts as the manifest has them, reasons in the order of `REASONS`."""
        return {
            "read": self.read,
            "written": self.written,
            "left_out": _ordered(self.left_out),
            "changed": _ordered(self.changed),
        }


def _harmless(reason: str) -> bool:
    return REASONS[reason].harmless


def _ordered(counts: Counter[str]) -> dict[str, Json]:
    return {name: counts[name] for name in REASONS if counts[name]}


def fitter(trainer: Trainer) -> Callable[[Chat], Fitted]:
    """The trainer's `fit`, quick for chats of a shape that went through it unchanged before.

    Without tools, roles and masks decide; data sets have few of their combinations.
    """
    unchanged: set[tuple[tuple[str, bool], ...]] = set()

    def fit(chat: Chat) -> Fitted:
        shape = tuple([(turn.role, turn.trained) for turn in chat.turns])
        if chat.tools is None and shape in unchanged:
            return Fitted(chat=chat)
        fitted = trainer.fit(chat)
        if chat.tools is None and fitted == Fitted(chat=chat) and len(unchanged) < SHAPES:
            unchanged.add(shape)
        return fitted

    return fit


def take(way: Way, fitted: Fitted) -> Fitted:
    """What one way makes of a fitted chat."""
    chat = fitted.chat
    if chat is None:
        return fitted
    if way.needs_prompt and chat.turns[0].trained:
        return Fitted(chat=None, done=(*fitted.done, "no_prompt"))
    if way.is_exact(chat) or "masks" in fitted.done:
        return fitted
    return Fitted(chat=chat, done=(*fitted.done, "masks"))


def survey(trainer: Trainer, records: Iterable[Record]) -> tuple[Way, Tally]:
    """The way that fits the records best, and what it makes of them.

    That is the one with the fewest records lost, then with trained characters nearest to what the
    records say, then the first.
    """
    tallies = [Tally() for _ in trainer.ways]
    fit = fitter(trainer)
    for record in records:
        chat = chat_of(record)
        fitted = fit(chat)
        for way, tally in zip(trainer.ways, tallies, strict=True):
            _count(tally, chat, way, take(way, fitted))
    fits = zip(trainer.ways, tallies, strict=True)
    return min(fits, key=lambda fit: _distance(fit[1]))


def _distance(tally: Tally) -> tuple[int, int]:
    return sum(tally.lost.values()), abs(tally.chars_of_trainer - tally.chars_of_records)


def _count(tally: Tally, chat: Chat, way: Way, taken: Fitted) -> None:
    tally.read += 1
    tally.chars_of_records += _chars(chat, chat.trained)
    if taken.chat is None:
        tally.left_out[taken.done[-1]] += 1
        return
    tally.written += 1
    tally.changed.update(set(taken.done))
    tally.chars_of_trainer += _chars(taken.chat, way.trains(taken.chat))


def _chars(chat: Chat, trained: tuple[bool, ...]) -> int:
    return sum([len(turn.content) for turn, on in zip(chat.turns, trained, strict=True) if on])


def rows(trainer: Trainer, way: Way, records: Iterable[Record]) -> Iterator[Record]:
    """The rows of the records that can be written, in order."""
    fit = fitter(trainer)
    for record in records:
        taken = take(way, fit(chat_of(record)))
        if taken.chat is not None:
            yield way.row(taken.chat)
