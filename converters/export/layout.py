"""What there is to know about a trainer: its ways to express what is trained, its config files."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

import pyarrow as pa

from ingot.converters.export.chats import Chat, Fitted
from ingot.converters.record_kinds import MESSAGES_TYPE, Record, RecordKind
from ingot.converters.rows import Json

TURN_FIELDS: Final = [("role", pa.string()), ("content", pa.string())]


@dataclass(frozen=True, kw_only=True, slots=True)
class Way:
    """One way in which a trainer can be told what to train on; it holds for the whole data set.

    Attributes:
        name: as the manifest calls it.
        settings: of the trainer, beside the entry of the data set.
        schema: of the files that it reads.
        row: a chat as a row of them.
        trains: for each turn of a chat whether the trainer trains on it.
        trains_tools: whether it trains on tool definitions too.
        needs_prompt: whether something untrained must stand before the first trained turn.
    """

    name: str
    settings: dict[str, Json] = field(default_factory=dict)
    schema: pa.Schema
    row: Callable[[Chat], Record]
    trains: Callable[[Chat], tuple[bool, ...]]
    trains_tools: bool = False
    needs_prompt: bool = False

    def is_exact(self, chat: Chat) -> bool:
        """Whether the trainer trains on what the chat says."""
        return self.trains(chat) == chat.trained and not (self.trains_tools and chat.tools)


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """What a config file has to name.

    Attributes:
        name: of the data set, letters, digits, `_`, `.`, `-`.
        kind: pt or sft.
        way: None for pt.
        files: Parquet files in order, relative to the folder of the config.
        split: train, or what the data set is for otherwise.
    """

    name: str
    kind: RecordKind
    way: Way | None
    files: tuple[str, ...]
    split: str

    @property
    def folder(self) -> str:
        """The folder of the files."""
        return PurePosixPath(self.files[0]).parent.as_posix()

    @property
    def settings(self) -> dict[str, Json]:
        """Of the way, if there is one."""
        return self.way.settings if self.way else {}


@dataclass(frozen=True, kw_only=True, slots=True)
class Trainer:
    """A trainer.

    Attributes:
        name: as the command line calls it.
        version: of the trainer whose source this follows.
        fit: makes a chat fit the trainer, whichever way is taken.
        ways: of which the first that fits best is taken.
        reads_records: whether it can read the files of a result as they are.
        configs: the config files by name, each with the data set's entry.
        use: for people: how to start it, as lines of text, for the place of the export.
    """

    name: str
    version: str
    fit: Callable[[Chat], Fitted]
    ways: tuple[Way, ...]
    reads_records: bool = False
    configs: Callable[[Written], dict[str, bytes]]
    use: Callable[[Written, str], tuple[str, ...]]


# The columns of SFT records but `meta`, which stays with the records.
RECORD_ROWS: Final = pa.schema(
    [("messages", MESSAGES_TYPE), ("system", pa.string()), ("tools", pa.string())]
)
TEXT_ROWS: Final = pa.schema([("text", pa.string())])


def record_row(chat: Chat) -> Record:
    """A chat as a row of `RECORD_ROWS`; a system turn that is trained on stays a message."""
    first = chat.turns[0]
    lifted = first.role == "system" and not first.trained
    said = chat.turns[1:] if lifted else chat.turns
    return {
        "messages": [
            {"role": turn.role, "content": turn.content, "loss_mask": turn.trained} for turn in said
        ],
        "system": first.content if lifted else None,
        "tools": chat.tools,
    }


def only_assistant(chat: Chat) -> tuple[bool, ...]:
    """Every assistant turn is trained on."""
    return tuple(turn.role == "assistant" for turn in chat.turns)


def everything(chat: Chat) -> tuple[bool, ...]:
    """Every turn is trained on."""
    return (True,) * len(chat.turns)


def messages(chat: Chat) -> list[Json]:
    """The turns as role and content."""
    return [{"role": turn.role, "content": turn.content} for turn in chat.turns]
