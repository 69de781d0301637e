"""The short commands of a conversation: how they are written, and what they mean.

A line is a command if it is one to the letter; everything else is plain language. With a leading
`/` it is always meant as a command.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ingot.agent.chat import values
from ingot.agent.chat.edits import Edit, conditions
from ingot.agent.chat.values import BadValue
from ingot.converters.language import META_KEYS, ROLES
from ingot.converters.rows import Json

Document = dict[str, Json]

CHANGE = "change"


@dataclass(frozen=True, kw_only=True, slots=True)
class Understood:
    """What a command means.

    Attributes:
        name: of the command, `change` where it is edits.
        edits: what is to be changed.
        number, text: its argument, where it has one.
    """

    name: str
    edits: tuple[Edit, ...] = ()
    number: int | None = None
    text: str = ""


class NotUnderstood(ValueError):  # noqa: N818 - a state of a line
    """A line that is no command. Fields: why, for people; whether it begins as one."""

    def __init__(self, why: str, *, begins: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.begins = begins


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """One command: how it is written, what it does, and how its arguments are read."""

    usage: str
    does: str
    read: Callable[[str, Document, tuple[str, ...]], Understood]


def understood(line: str, mapping: Document, fields: tuple[str, ...]) -> Understood:
    """What a line means.

    Args:
        line: as it was typed.
        mapping: the current mapping, provenance aside.
        fields: the paths of the data.

    Raises:
        NotUnderstood: it is no command, or is not written as it should be.
    """
    slash, words = line.startswith("/"), line.strip().removeprefix("/")
    name, _, rest = words.partition(" ")
    name = name if rest else name.rstrip("!.")
    command = COMMANDS.get(_ALIASES.get(name.lower(), name.lower()))
    if command is None:
        raise NotUnderstood(f"there is no command {name!r}", begins=slash)
    try:
        return command.read(rest.strip(), mapping, fields)
    except BadValue as error:
        raise NotUnderstood(f"{error} (usage: {command.usage})", begins=True) from error


def _change(*edits: Edit) -> Understood:
    return Understood(name=CHANGE, edits=edits)


# --- set


def _set(rest: str, mapping: Document, fields: tuple[str, ...]) -> Understood:
    alternative, rest = _alternative(rest, mapping)
    target, _, text = rest.partition(" ")
    if target == "message":
        number, _, text = text.strip().partition(" ")
        target = f"message {number}"
    if not text.strip():
        raise BadValue("what is to be set?")
    edit = _edit(target, text.strip(), alternative, mapping, fields)
    _see_fields(edit, fields)
    return _change(edit)


def _see_fields(edit: Edit, fields: tuple[str, ...]) -> None:
    """Plain language is no list of fields: a part of several words has to be a field.

    Raises:
        BadValue: one is not.
    """
    entries = [one for one in (edit.get("message"), *edit.get("messages", ())) if one]
    named = [part for one in entries for part in one.get("content", ())]
    for part in [*named, *edit.get("parts", ()), edit.get("path"), edit.get("value")]:
        if isinstance(part, str) and " " in part and part not in fields and "['" not in part:
            raise BadValue(f"there is no field {part!r}")


def _alternative(rest: str, mapping: Document) -> tuple[int | None, str]:
    """The alternative that a line names, and what follows."""
    if not rest.startswith("alternative "):
        return None, rest
    number, _, following = rest.removeprefix("alternative ").strip().partition(" ")
    return _number(number, len(mapping.get("any_of") or [])), following.strip()


def _layout(mapping: Document, alternative: int | None) -> Document:
    """The alternative, or the mapping itself."""
    found: Document = mapping if alternative is None else mapping["any_of"][alternative - 1]
    return found


def _edit(
    target: str, text: str, alternative: int | None, mapping: Document, fields: tuple[str, ...]
) -> Edit:
    key = target.removeprefix("meta.")
    layout = _layout(mapping, alternative)
    if key in META_KEYS:
        return {"set": "meta", "key": key, "value": values.meta_value(text, key, fields)}
    if target in ("each", "root"):
        path = None if text in values.NOTHING else text
        return {"set": target, "path": path} | _which(target, alternative)
    if target == "group":
        return {"set": "group", "group": _group(text)}
    if target in ("text", "system"):
        return {"set": target, "parts": values.parts(text), "alternative": alternative}
    if target in ROLES or target.startswith("message "):
        return _message(target, text, alternative, layout)
    known = ", ".join(("text", *ROLES, "message N", "each", "group", "root", *META_KEYS))
    raise BadValue(f"{target!r} cannot be set; what can be: {known}")


def _which(target: str, alternative: int | None) -> Document:
    return {} if target == "root" else {"alternative": alternative}


def _group(text: str) -> Json:
    """`conversation_id sort turn`, or nothing."""
    if text in values.NOTHING:
        return None
    by, _, sort = text.partition(" sort ")
    return {"by": list(values.split(by, ",")), "sort": sort.strip() or None}


def _message(target: str, text: str, alternative: int | None, layout: Document) -> Edit:
    """Other texts for a message that is named by its number or by its role."""
    found = values.parts(text)
    number = _place(target, layout)
    messages = layout.get("messages") or []
    if number <= len(messages):
        if not found:
            return _taken_away(number, alternative)
        return {"set": "content", "number": number, "parts": found, "alternative": alternative}
    entry = {"each": [], "role": target, "content": found, "loss_mask": None}
    if target == "user" and messages:  # a question comes before its answer
        kept = [{"current": place + 1} for place in range(len(messages))]
        return {"set": "messages", "messages": [entry, *kept], "alternative": alternative}
    return {"set": "message", "number": number, "message": entry, "alternative": alternative}


def _taken_away(number: int, alternative: int | None) -> Edit:
    return {"set": "message", "number": number, "message": None, "alternative": alternative}


def _place(target: str, layout: Document) -> int:
    """The number of a message; that behind the last where no message has the role."""
    messages = layout.get("messages") or []
    if target.startswith("message "):
        return _number(target.removeprefix("message "), len(messages))
    places = [place for place, one in enumerate(messages, start=1) if target == one["role"]]
    if len(places) > 1:
        which = " or ".join(f"message {place}" for place in places)
        raise BadValue(f"there are several: say {which}")
    read = [place for place, one in enumerate(messages, start=1) if isinstance(one["role"], dict)]
    if not places and read and target != "system":
        raise BadValue(f"roles are read from the data: say message {read[0]}")
    return places[0] if places else len(messages) + 1


def _number(text: str, most: int) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= most:
        raise BadValue(f"{text!r} is no number from 1 to {most}")
    return int(text)


# --- conditions


def _drop(rest: str, mapping: Document, fields: tuple[str, ...]) -> Understood:
    words = {"under": "min_chars", "over": "max_chars", "is": "not_in"}
    return _condition(rest, mapping, fields, words)


def _keep(rest: str, mapping: Document, fields: tuple[str, ...]) -> Understood:
    if rest == "all":
        return _change({"set": "where", "where": [], "alternative": None})
    return _condition(rest, mapping, fields, {"is": "in"})


def _condition(
    rest: str, mapping: Document, fields: tuple[str, ...], operators: dict[str, str]
) -> Understood:
    """The conditions that there are and one more."""
    for word, operator in operators.items():
        path, found, stated = rest.partition(f" {word} ")
        if found and (" " not in path.strip() or path.strip() in fields):
            one = {"path": path.strip(), "op": operator, "values": _stated(stated, operator)}
            known = list(conditions(mapping))
            where = known if one in known else [*known, one]
            return _change({"set": "where", "where": where, "alternative": None})
    raise BadValue(f"one of the words {', '.join(operators)} is missing")


def _stated(text: str, operator: str) -> list[Json]:
    if operator in ("in", "not_in"):
        return [values.scalar(one) for one in values.split(text, ",")]
    if not text.strip().isascii() or not text.strip().isdigit():
        raise BadValue(f"{text.strip()!r} is no number of characters")
    return [int(text)]


# --- roles


def _swap(rest: str, mapping: Document, fields: tuple[str, ...]) -> Understood:
    _alone(rest)
    return _change({"set": "swap", "alternative": None})


def _role(rest: str, mapping: Document, fields: tuple[str, ...]) -> Understood:
    value, _, role = rest.rpartition(" ")
    value = value.strip()
    if not value or (" " in value and not value.startswith('"')) or role not in (*ROLES, "drop"):
        wanted = f"then one of {', '.join((*ROLES, 'drop'))}"
        raise BadValue(f"a name from the data (in double quotes if it has blanks), {wanted}")
    named = values.scalar(value) if value.startswith('"') else value
    return _change(
        {"set": "role", "number": None, "value": named, "role": role, "alternative": None}
    )


_MASKS: dict[str, Json] = {"on": True, "off": False, "usual": None}


def _train(rest: str, mapping: Document, fields: tuple[str, ...]) -> Understood:
    target, _, mask = rest.rpartition(" ")
    number = _place(target.strip(), mapping)
    if number > len(mapping.get("messages") or []):
        raise BadValue(f"there is no {target.strip() or 'such'} message")
    read: Json = _MASKS.get(mask, {"path": mask})
    return _change({"set": "train", "number": number, "mask": read, "alternative": None})


# --- what changes nothing


def _plain(name: str) -> Callable[[str, Document, tuple[str, ...]], Understood]:
    """A command of one word."""

    def read(rest: str, mapping: Document, fields: tuple[str, ...]) -> Understood:
        _alone(rest)
        return Understood(name=name)

    return read


def _counted(name: str, usual: int | None) -> Callable[..., Understood]:
    """A command with a number; `usual` None = it has to be said."""

    def read(rest: str, mapping: Document, fields: tuple[str, ...]) -> Understood:
        if not rest and usual is not None:
            return Understood(name=name, number=usual)
        return Understood(name=name, number=_number(rest, 99))

    return read


# What people say of a mapping, and no file or folder is called.
_POINTING = ("it", "that", "this", "there", "here", "them")


def _naming(name: str, what: str) -> Callable[..., Understood]:
    """A command with the name of a file or folder behind it."""

    def read(rest: str, mapping: Document, fields: tuple[str, ...]) -> Understood:
        quoted = len(rest) > 2 and rest[0] == rest[-1] == '"'
        if not rest or rest.lower() in _POINTING or (len(rest.split()) > 1 and not quoted):
            raise BadValue(f"{what} is wanted, in double quotes if it has blanks")
        return Understood(name=name, text=rest.strip('"'))

    return read


def _why(rest: str, mapping: Document, fields: tuple[str, ...]) -> Understood:
    if len(rest.split()) > 1 and not rest.startswith("message "):
        raise BadValue("a target or a field, or nothing")
    return Understood(name="why", text=rest)


def _alone(rest: str) -> None:
    if rest:
        raise BadValue("nothing follows it")


COMMANDS: dict[str, Command] = {
    "set": Command(
        usage="set TARGET VALUE",
        does="texts: set text title,body; set user question; set message 2 answer; set system "
        '"You are kind."; set language en; set each qas[*]. "..." is what is there, none = nothing',
        read=_set,
    ),
    "drop": Command(
        usage="drop FIELD under|over N, drop FIELD is A,B",
        does="leave rows out by the length of a field, or by its value",
        read=_drop,
    ),
    "keep": Command(
        usage="keep FIELD is A,B, keep all",
        does="keep only such rows; keep all takes every condition away",
        read=_keep,
    ),
    "swap": Command(usage="swap", does="exchange user and assistant", read=_swap),
    "role": Command(
        usage="role NAME user|assistant|system|tool|drop",
        does="who a speaker of the data is",
        read=_role,
    ),
    "train": Command(
        usage="train user|assistant|message N on|off|usual|FIELD",
        does="whether a message is trained on",
        read=_train,
    ),
    "alternatives": Command(
        usage="alternatives", does="other mappings that could be meant", read=_plain("alternatives")
    ),
    "take": Command(usage="take N", does="take one of them", read=_counted("take", None)),
    "mapping": Command(usage="mapping", does="the mapping as a tree", read=_plain("mapping")),
    "show": Command(
        usage="show [N]", does="rows and the records made of them", read=_counted("show", 3)
    ),
    "fields": Command(usage="fields", does="what the data holds", read=_plain("fields")),
    "gates": Command(usage="gates", does="what is checked, with figures", read=_plain("gates")),
    "why": Command(usage="why [TARGET]", does="why the mapper chose as it did", read=_why),
    "undo": Command(usage="undo", does="back to the mapping before", read=_plain("undo")),
    "redo": Command(usage="redo", does="forward again", read=_plain("redo")),
    "edit": Command(usage="edit", does="the mapping in $EDITOR", read=_plain("edit")),
    "save": Command(
        usage="save FILE",
        does="write the mapping to a file",
        read=_naming("save", "the name of a file"),
    ),
    "out": Command(
        usage="out DIR",
        does="where the result is to go",
        read=_naming("out", "the name of a folder"),
    ),
    "ok": Command(usage="ok", does="approve the mapping and convert", read=_plain("ok")),
    "help": Command(usage="help", does="this list", read=_plain("help")),
    "quit": Command(usage="quit", does="leave; the conversation is kept", read=_plain("quit")),
}
_ALIASES = {"approve": "ok", "exit": "quit", "?": "help", "tree": "mapping"}


def usages() -> Iterator[tuple[str, str]]:
    """How every command is written, and what it does."""
    return ((one.usage, one.does) for one in COMMANDS.values())
