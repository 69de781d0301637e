"""The registry of trainers, how records fit one, and the Parquet files that it reads."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypedDict

import pyarrow as pa
import pyarrow.parquet as pq

from ingot.converters.export import axolotl, llamafactory, swift, torchtune, trl
from ingot.converters.export.chat_layout import (
    HARMLESS,
    REASONS,
    Chat,
    FittedChat,
    Trainer,
    TrainingMode,
    chat_of_record,
    take_steps,
)
from ingot.converters.output.files import output_errors
from ingot.converters.records.schema import Record
from ingot.converters.rows import group_sized

SHAPES: Final = 10_000  # that a fitter remembers


class TallyDocument(TypedDict):
    """`Tally` as the manifest has it, reasons in the order of `REASONS`."""

    read: int
    written: int
    left_out: dict[str, int]
    changed: dict[str, int]


@dataclass(kw_only=True)
class Tally:
    """What becomes of the records: read = written + left out; a row may have several changes."""

    read: int = 0
    written: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)
    chars_of_records: int = 0
    chars_of_trainer: int = 0

    @property
    def lost(self) -> dict[str, int]:
        """Return records that the trainer does not train on as they say, by reason."""
        counts = self.left_out + self.changed
        return {name: counts[name] for name in REASONS if counts[name] and name not in HARMLESS}

    def to_json(self) -> TallyDocument:
        """Return the counts as the manifest has them."""
        return {
            "read": self.read,
            "written": self.written,
            "left_out": _reason_counts(self.left_out),
            "changed": _reason_counts(self.changed),
        }


def _reason_counts(counts: Counter[str]) -> dict[str, int]:
    return {name: counts[name] for name in REASONS if counts[name]}


def fitter(trainer: Trainer) -> Callable[[Chat], FittedChat]:
    """Return a function that applies the trainer's steps to a chat.

    Chats of a shape that came out unchanged are done at once: without tools, roles and masks
    decide, and data sets have few of their combinations.
    """
    unchanged: set[tuple[tuple[str, bool], ...]] = set()

    def fit(chat: Chat) -> FittedChat:
        shape = tuple([(turn.role, turn.trained) for turn in chat.turns])
        if chat.tools is None and shape in unchanged:
            return FittedChat(chat=chat)
        fitted = take_steps(chat, trainer.steps)
        if chat.tools is None and fitted == FittedChat(chat=chat) and len(unchanged) < SHAPES:
            unchanged.add(shape)
        return fitted

    return fit


def take_mode(mode: TrainingMode, fitted: FittedChat) -> FittedChat:
    """Return what one way makes of a fitted chat."""
    chat = fitted.chat
    if chat is None:
        return fitted
    if mode.needs_prompt and chat.turns[0].trained:
        return FittedChat(chat=None, done=(*fitted.done, "no_prompt"))
    exact = mode.trains(chat) == chat.trained and not (mode.trains_tools and chat.tools)
    if exact or "masks" in fitted.done:
        return fitted
    return FittedChat(chat=chat, done=(*fitted.done, "masks"))


def survey_records(trainer: Trainer, records: Iterable[Record]) -> tuple[TrainingMode, Tally]:
    """Return the way that fits the records best, and what it makes of them.

    That is the one with the fewest records lost, then with trained characters nearest to what the
    records say, then the first.
    """
    tallies = [Tally() for _ in trainer.ways]
    fit = fitter(trainer)
    for record in records:
        chat = chat_of_record(record)
        fitted = fit(chat)
        for mode, tally in zip(trainer.ways, tallies, strict=True):
            _count_chat(tally, chat, mode, take_mode(mode, fitted))

    def distance(candidate: tuple[TrainingMode, Tally]) -> tuple[int, int]:
        tally = candidate[1]
        return sum(tally.lost.values()), abs(tally.chars_of_trainer - tally.chars_of_records)

    return min(zip(trainer.ways, tallies, strict=True), key=distance)


def _count_chat(tally: Tally, chat: Chat, mode: TrainingMode, fitted: FittedChat) -> None:
    tally.read += 1
    tally.chars_of_records += _trained_chars(chat, chat.trained)
    if fitted.chat is None:
        tally.left_out[fitted.done[-1]] += 1
        return
    tally.written += 1
    tally.changed.update(set(fitted.done))
    tally.chars_of_trainer += _trained_chars(fitted.chat, mode.trains(fitted.chat))


def _trained_chars(chat: Chat, trained: tuple[bool, ...]) -> int:
    return sum(
        [
            len(turn.content)
            for turn, is_trained in zip(chat.turns, trained, strict=True)
            if is_trained
        ]
    )


def trainer_rows(
    trainer: Trainer, mode: TrainingMode, records: Iterable[Record]
) -> Iterator[Record]:
    """Yield the rows of the records that can be written, in order."""
    fit = fitter(trainer)
    for record in records:
        fitted = take_mode(mode, fit(chat_of_record(record)))
        if fitted.chat is not None:
            yield mode.row(fitted.chat)


GROUP_ROWS: Final = 1_000
GROUP_CHARS: Final = 16 << 20  # a row group is built in memory


def write_parts(
    folder: Path, split: str, rows: Iterable[Record], schema: pa.Schema, *, part_bytes: int
) -> list[str]:
    """Write rows in order; a part ends with the row group that finds it at `part_bytes`.

    The bytes depend on rows, schema and `part_bytes` alone.
    """
    names: list[str] = []
    groups = group_sized(((row, _row_chars(row)) for row in rows), GROUP_ROWS, GROUP_CHARS)
    for first in groups:
        path = folder / f"{split}-{len(names):05d}.parquet"
        with (
            output_errors(path),
            pa.OSFile(str(path), "wb") as file,
            pq.ParquetWriter(
                file, schema, compression="zstd", compression_level=1, write_statistics=False
            ) as writer,
        ):
            for group in itertools.chain([first], groups):
                writer.write_table(pa.Table.from_pylist(group, schema))
                if file.tell() >= part_bytes:
                    break
        names.append(path.name)
    return names


def _row_chars(row: Record) -> int:
    texts = [value for value in row.values() if isinstance(value, str)]
    lists = [value for value in row.values() if isinstance(value, list)]
    return sum(map(len, texts)) + sum(
        len(message["content"]) for messages in lists for message in messages
    )


TRAINERS: Final[dict[str, Trainer]] = {
    one.TRAINER.name: one.TRAINER for one in (llamafactory, swift, axolotl, trl, torchtune)
}
