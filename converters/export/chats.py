"""A conversation as trainers take it, and the steps that make it fit one.

A step returns the chat with the name of what it did, or no chat where it cannot be expressed. The
names are the keys of the counts in an export's manifest; `REASONS` says what each means and
whether the trainer then still trains on what the records say.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

import orjson

from ingot.converters.record_kinds import Record

JOIN: Final = "\n\n"  # between texts that become one message


@dataclass(frozen=True, kw_only=True, slots=True)
class Reason:
    """Why a record is not written as it is.

    Attributes:
        text: what is so, for people.
        harmless: the trainer still trains on exactly what the records say.
    """

    text: str
    harmless: bool = False


REASONS: Final[dict[str, Reason]] = {
    "untrained": Reason(text="no message of it is trained on: left out", harmless=True),
    "tail": Reason(text="messages after the last trained one are cut off", harmless=True),
    "masks": Reason(text="the trainer trains on other messages than the record says"),
    "same_role": Reason(text="messages of one role in a row become one, a blank line between"),
    "two_systems": Reason(text="two system texts become one, a blank line between"),
    "opening": Reason(text="it begins with the assistant: an empty user message is put in front"),
    "tools": Reason(text="tool definitions are written into the system text"),
    "no_prompt": Reason(text="nothing stands before the first trained message: left out"),
    "roles": Reason(text="its order of roles cannot be expressed: left out"),
    "tools_text": Reason(text="its tools are no JSON list of objects: left out"),
}


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
        """For each turn whether the record trains on it."""
        return tuple([turn.trained for turn in self.turns])


@dataclass(frozen=True, kw_only=True, slots=True)
class Fitted:
    """A chat on its way to a trainer.

    Attributes:
        chat: None where it cannot be written; the last of `done` says why.
        done: names in `REASONS`, in the order of the steps.
    """

    chat: Chat | None
    done: tuple[str, ...] = field(default=())

    def then(self, *steps: "Step") -> "Fitted":
        """Take further steps; none after one that gave no chat."""
        fitted = self
        for step in steps:
            if fitted.chat is not None:
                taken = step(fitted.chat)
                fitted = Fitted(chat=taken.chat, done=(*fitted.done, *taken.done))
        return fitted


Step = Callable[[Chat], Fitted]


def chat_of(record: Record) -> Chat:
    """The conversation of an SFT record."""
    said = tuple(
        Turn(role=one["role"], content=one["content"], trained=one["loss_mask"])
        for one in record["messages"]
    )
    system = record["system"]
    first = () if system is None else (Turn(role="system", content=system),)
    return Chat(turns=(*first, *said), tools=record.get("tools"))


def _refused(reason: str) -> Fitted:
    return Fitted(chat=None, done=(reason,))


def some_trained(chat: Chat) -> Fitted:
    """Only chats with something to train on."""
    return Fitted(chat=chat) if any(chat.trained) else _refused("untrained")


def still_trained(chat: Chat) -> Fitted:
    """Only chats in which the steps before left something to train on."""
    return Fitted(chat=chat) if any(chat.trained) else _refused("masks")


def cut_tail(chat: Chat) -> Fitted:
    """The chat up to its last trained turn; what follows it changes no trained token."""
    end = max((at for at, trained in enumerate(chat.trained, start=1) if trained), default=0)
    if end == len(chat.turns):
        return Fitted(chat=chat)
    return Fitted(chat=replace(chat, turns=chat.turns[:end]), done=("tail",))


def assistant_last(chat: Chat) -> Fitted:
    """Nothing after the assistant's last turn."""
    roles = [turn.role for turn in chat.turns]
    if "assistant" not in roles:
        return _refused("roles")
    end = len(roles) - roles[::-1].index("assistant")
    if end == len(roles):
        return Fitted(chat=chat)
    return Fitted(chat=replace(chat, turns=chat.turns[:end]), done=("masks",))


def one_system(chat: Chat) -> Fitted:
    """At most one system turn, in front."""
    systems = [turn.role == "system" for turn in chat.turns]
    leading = len(list(itertools.takewhile(bool, systems)))
    if sum(systems) > leading:
        return _refused("roles")
    if leading < 2:
        return Fitted(chat=chat)
    turns = (_joined(chat.turns[:leading]), *chat.turns[leading:])
    return Fitted(chat=replace(chat, turns=turns), done=("two_systems",))


def no_neighbours(*roles: str) -> Step:
    """A step after which no two turns of one of `roles` follow each other."""

    def join(chat: Chat) -> Fitted:
        runs = [tuple(run) for _, run in itertools.groupby(chat.turns, key=lambda turn: turn.role)]
        turns: list[Turn] = []
        for run in runs:
            turns += [_joined(run)] if run[0].role in roles and len(run) > 1 else run
        if len(turns) == len(chat.turns):
            return Fitted(chat=chat)
        mixed = any(
            run[0].role in roles and len({turn.trained for turn in run}) > 1 for run in runs
        )
        done = ("same_role", "masks") if mixed else ("same_role",)
        return Fitted(chat=replace(chat, turns=tuple(turns)), done=done)

    return join


def _joined(turns: tuple[Turn, ...]) -> Turn:
    """Turns of one role as one; trained only if each of them is."""
    return Turn(
        role=turns[0].role,
        content=JOIN.join(turn.content for turn in turns),
        trained=all(turn.trained for turn in turns),
    )


def user_first(chat: Chat) -> Fitted:
    """No assistant before anybody else has spoken."""
    start = 1 if chat.turns[0].role == "system" else 0
    if start == len(chat.turns):
        return _refused("roles")
    if chat.turns[start].role != "assistant":
        return Fitted(chat=chat)
    turns = (*chat.turns[:start], Turn(role="user", content=""), *chat.turns[start:])
    return Fitted(chat=replace(chat, turns=turns), done=("opening",))


def alternating(*others: str) -> Step:
    """A step that takes only chats in which one of `others` and the assistant take turns."""

    def check(chat: Chat) -> Fitted:
        roles = [turn.role for turn in chat.turns if turn.role != "system"]
        fits = all(role in others for role in roles[::2]) and set(roles[1::2]) <= {"assistant"}
        return Fitted(chat=chat) if fits else _refused("roles")

    return check


def listed_tools(chat: Chat) -> Fitted:
    """Only tools that are a JSON list of objects."""
    if chat.tools is None or is_tool_list(chat.tools):
        return Fitted(chat=chat)
    return _refused("tools_text")


def is_tool_list(text: str) -> bool:
    """Whether a text is a JSON list of objects."""
    try:
        tools = orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools)


def tools_in_system(chat: Chat) -> Fitted:
    """Tool definitions in the system turn, as docs/tokens.md renders them."""
    if chat.tools is None:
        return Fitted(chat=chat)
    systems = [turn for turn in chat.turns[:1] if turn.role == "system"]
    content = JOIN.join([*(turn.content for turn in systems), f"# Tools\n{chat.tools}"])
    trained = any(turn.trained for turn in systems)
    system = Turn(role="system", content=content, trained=trained)
    return Fitted(chat=Chat(turns=(system, *chat.turns[len(systems) :])), done=("tools",))
