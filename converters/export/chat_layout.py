"""A conversation as trainers take it, and the steps that make it fit one.

A step returns the chat with the name of what it did, or no chat where it cannot be expressed. The
names are the keys of the counts in an export's manifest; `REASONS` says what each means,
`HARMLESS` after which the trainer still trains on what the records say.

What there is to know about a trainer: its ways to express what is trained, its config files.
"""

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import PurePosixPath
from typing import Final

import orjson
import pyarrow as pa

from ingot.converters.records.schema import MESSAGES_TYPE, Record, RecordKind
from ingot.converters.rows import Json

JOIN: Final = "\n\n"  # between texts that become one message

# Why a record is not written as it is.
REASONS: Final = {
    "untrained": "no message of it is trained on: left out",
    "tail": "messages after the last trained one are cut off",
    "masks": "the trainer trains on other messages than the record says",
    "same_role": "messages of one role in a row become one, a blank line between",
    "two_systems": "two system texts become one, a blank line between",
    "opening": "it begins with the assistant: an empty user message is put in front",
    "tools": "tool definitions are written into the system text",
    "no_prompt": "nothing stands before the first trained message: left out",
    "roles": "its order of roles cannot be expressed: left out",
    "tools_text": "its tools are not a JSON list of objects: left out",
}
HARMLESS: Final = ("untrained", "tail")  # training is the same


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """One message: role (user, assistant, system, tool), content, whether it is trained on."""

    role: str
    content: str
    trained: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Chat:
    """A conversation; the record's `system` is its first turn. `tools` is JSON text or None."""

    turns: tuple[Turn, ...]
    tools: str | None = None

    @property
    def trained(self) -> tuple[bool, ...]:
        """Return for each turn whether the record trains on it."""
        return tuple([turn.trained for turn in self.turns])


@dataclass(frozen=True, kw_only=True, slots=True)
class FittedChat:
    """A chat on its way to a trainer and the steps done; None if it cannot be written."""

    chat: Chat | None
    done: tuple[str, ...] = ()


Step = Callable[[Chat], FittedChat]


def take_steps(chat: Chat, steps: Iterable[Step]) -> FittedChat:
    """Return what steps make of a chat, one after the other.

    None is taken after one that gave none.
    """
    done: tuple[str, ...] = ()
    for step in steps:
        fitted = step(chat)
        done += fitted.done
        if fitted.chat is None:
            return FittedChat(chat=None, done=done)
        chat = fitted.chat
    return FittedChat(chat=chat, done=done)


def chat_of_record(record: Record) -> Chat:
    """Return the conversation of an SFT record."""
    turns = tuple(
        Turn(role=one["role"], content=one["content"], trained=one["loss_mask"])
        for one in record["messages"]
    )
    system = record["system"]
    first = () if system is None else (Turn(role="system", content=system),)
    return Chat(turns=(*first, *turns), tools=record.get("tools"))


def keep_if(condition: object, chat: Chat, reason: str) -> FittedChat:
    """Return the chat as it is where it fits, else none."""
    return FittedChat(chat=chat) if condition else FittedChat(chat=None, done=(reason,))


def require_trained(chat: Chat, reason: str = "untrained") -> FittedChat:
    """Return only chats with something to train on."""
    return keep_if(any(chat.trained), chat, reason)


# Only chats in which the steps before left something to train on.
require_still_trained: Final[Step] = partial(require_trained, reason="masks")


def cut_tail(chat: Chat) -> FittedChat:
    """Return the chat up to its last trained turn; what follows it changes no trained token."""
    end = max(
        (number for number, trained in enumerate(chat.trained, start=1) if trained), default=0
    )
    if end == len(chat.turns):
        return FittedChat(chat=chat)
    return FittedChat(chat=replace(chat, turns=chat.turns[:end]), done=("tail",))


def end_with_assistant(chat: Chat) -> FittedChat:
    """Drop everything after the assistant's last turn."""
    roles = [turn.role for turn in chat.turns]
    if "assistant" not in roles or roles[-1] == "assistant":
        return keep_if("assistant" in roles, chat, "roles")
    end = len(roles) - roles[::-1].index("assistant")
    return FittedChat(chat=replace(chat, turns=chat.turns[:end]), done=("masks",))


def merge_system(chat: Chat) -> FittedChat:
    """Merge the system turns to at most one, at the beginning."""
    systems = [turn.role == "system" for turn in chat.turns]
    leading_count = len(list(itertools.takewhile(bool, systems)))
    if sum(systems) > leading_count or leading_count < 2:
        return keep_if(sum(systems) == leading_count, chat, "roles")
    turns = (_join_turns(chat.turns[:leading_count]), *chat.turns[leading_count:])
    return FittedChat(chat=replace(chat, turns=turns), done=("two_systems",))


def merge_neighbours(*roles: str) -> Step:
    """Return a step after which no two turns of one of `roles` follow each other."""

    def join(chat: Chat) -> FittedChat:
        runs = [tuple(run) for _, run in itertools.groupby(chat.turns, key=lambda turn: turn.role)]
        turns: list[Turn] = []
        for run in runs:
            turns += [_join_turns(run)] if run[0].role in roles and len(run) > 1 else run
        if len(turns) == len(chat.turns):
            return FittedChat(chat=chat)
        mixed = any(
            run[0].role in roles and len({turn.trained for turn in run}) > 1 for run in runs
        )
        done = ("same_role", "masks") if mixed else ("same_role",)
        return FittedChat(chat=replace(chat, turns=tuple(turns)), done=done)

    return join


def _join_turns(turns: tuple[Turn, ...]) -> Turn:
    """Turns of one role as one; trained only if each of them is."""
    return Turn(
        role=turns[0].role,
        content=JOIN.join(turn.content for turn in turns),
        trained=all(turn.trained for turn in turns),
    )


def begin_with_user(chat: Chat) -> FittedChat:
    """Drop turns of the assistant before anybody else has spoken."""
    start = 1 if chat.turns[0].role == "system" else 0
    opening = chat.turns[start : start + 1]
    if not opening or opening[0].role != "assistant":
        return keep_if(opening, chat, "roles")
    turns = (*chat.turns[:start], Turn(role="user", content=""), *chat.turns[start:])
    return FittedChat(chat=replace(chat, turns=turns), done=("opening",))


def require_alternating(*partners: str) -> Step:
    """Return a step for chats in which one of `partners` and the assistant take turns."""

    def check(chat: Chat) -> FittedChat:
        roles = [turn.role for turn in chat.turns if turn.role != "system"]
        alternates = all(role in partners for role in roles[::2]) and set(roles[1::2]) <= {
            "assistant"
        }
        return keep_if(alternates, chat, "roles")

    return check


def require_tool_list(chat: Chat) -> FittedChat:
    """Return only tools that are a JSON list of objects."""
    return keep_if(chat.tools is None or is_tool_list(chat.tools), chat, "tools_text")


def is_tool_list(text: str) -> bool:
    """Return whether a text is a JSON list of objects."""
    try:
        tools = orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools)


def move_tools_to_system(chat: Chat) -> FittedChat:
    """Put tool definitions in the system turn, as docs/tokens.md renders them."""
    if chat.tools is None:
        return FittedChat(chat=chat)
    systems = [turn for turn in chat.turns[:1] if turn.role == "system"]
    content = JOIN.join([*(turn.content for turn in systems), f"# Tools\n{chat.tools}"])
    trained = any(turn.trained for turn in systems)
    system = Turn(role="system", content=content, trained=trained)
    return FittedChat(chat=Chat(turns=(system, *chat.turns[len(systems) :])), done=("tools",))


TURN_FIELDS: Final = [("role", pa.string()), ("content", pa.string())]

# The columns of SFT records but `meta`, which stays with the records.
RECORD_ROWS: Final = pa.schema(
    [("messages", MESSAGES_TYPE), ("system", pa.string()), ("tools", pa.string())]
)
TEXT_ROWS: Final = pa.schema([("text", pa.string())])


def marked_rows(mark: str) -> pa.Schema:
    """Return rows whose messages have a mark, such as whether each is trained on."""
    message = pa.struct([*TURN_FIELDS, (mark, pa.bool_())])
    return pa.schema([("messages", pa.list_(pa.field("element", message))), ("tools", pa.string())])


def record_row(chat: Chat) -> Record:
    """Return a chat as a row of `RECORD_ROWS`; a system turn that is trained on stays a message."""
    first = chat.turns[0]
    lifted = first.role == "system" and not first.trained
    messages = chat.turns[1:] if lifted else chat.turns
    return {
        "messages": [
            {"role": turn.role, "content": turn.content, "loss_mask": turn.trained}
            for turn in messages
        ],
        "system": first.content if lifted else None,
        "tools": chat.tools,
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingMode:
    """One way in which a trainer can be told what to train on; it holds for the whole data set."""

    name: str
    settings: dict[str, Json] = field(default_factory=dict)
    schema: pa.Schema = RECORD_ROWS
    row: Callable[[Chat], Record] = record_row
    trains: Callable[[Chat], tuple[bool, ...]]
    trains_tools: bool = False
    # whether something untrained must stand before the first trained turn
    needs_prompt: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenFiles:
    """What a config file names; the files are relative to its folder, `way` is None for pt."""

    name: str
    kind: RecordKind
    way: TrainingMode | None
    files: tuple[str, ...]
    split: str

    @property
    def folder(self) -> str:
        """Return the folder of the files."""
        return PurePosixPath(self.files[0]).parent.as_posix()

    @property
    def settings(self) -> dict[str, Json]:
        """Return the settings of the layout, if there are any."""
        return self.way.settings if self.way else {}


@dataclass(frozen=True, kw_only=True, slots=True)
class Trainer:
    """A trainer."""

    name: str
    version: str
    steps: tuple[Step, ...]  # what makes a chat fit it, in order
    ways: tuple[TrainingMode, ...]
    reads_records: bool = False
    configs: Callable[[WrittenFiles], dict[str, bytes]]
    # for people: how to start it, as lines of text, for the place of the export
    use: Callable[[WrittenFiles, str], tuple[str, ...]]


def record_mask(chat: Chat) -> tuple[bool, ...]:
    """Return what the record says is trained on."""
    return chat.trained


def assistant_mask(chat: Chat) -> tuple[bool, ...]:
    """Return True for every turn of an assistant."""
    return tuple(turn.role == "assistant" for turn in chat.turns)


def full_mask(chat: Chat) -> tuple[bool, ...]:
    """Return True for every turn."""
    return (True,) * len(chat.turns)


def message_rows(chat: Chat) -> list[Json]:
    """Return the turns as role and content."""
    return [{"role": turn.role, "content": turn.content} for turn in chat.turns]
