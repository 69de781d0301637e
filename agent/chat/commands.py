"""Parse the short commands of a conversation, and values as a person types them.

The parts of a value (`title,body`, `"You are kind."`, `{{a}}: {{b}}`, `title|headline`) are
separated by commas; `...` is what is there already; a text in double quotes is literal.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ingot.agent.chat.edits import Edit, list_conditions
from ingot.converters.mapping.bind import ISO_639_1
from ingot.converters.mapping.language import META_KEYS, ROLES
from ingot.converters.rows import Json

_OPENING = {"[": "]", "{": "}"}
NOTHING = ("none", "nothing", "-")


class ValueSyntaxError(ValueError):
    """A typed value cannot be parsed; the message says why."""


def parse_parts(text: str) -> list[Json]:
    """Return the parts of a value in the form of an edit; [] = none."""
    if text.strip().lower() in NOTHING:
        return []
    return [_parse_part(one) for one in split_outside_quotes(text, ",")]


def _parse_part(text: str) -> Json:
    if text == "...":
        return {"current": 0}
    if text.startswith('"'):
        return {"literal": _parse_literal(text)}
    if "{{" in text:
        return {"template": text, "each": []}
    choices = list(split_outside_quotes(text, "|"))
    return {"first_of": choices} if len(choices) > 1 else text


def _parse_literal(text: str) -> str:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ValueSyntaxError(
            f'{text} is not a text in double quotes (inside it, \\" and \\n)'
        ) from error
    if not isinstance(found, str):
        raise ValueSyntaxError(f"{text} is not a text in double quotes")
    return found


def parse_meta_value(text: str, key: str, fields: tuple[str, ...]) -> Json:
    """Return the value of a meta key: a path, a literal, None = none.

    A language code that is not a field is a literal, as in version 1 of the mapping format.
    """
    found = parse_parts(text)
    if len(found) > 1:
        raise ValueSyntaxError(f"{key} is one field or one text in double quotes")
    one = found[0] if found else None
    if key == "language" and isinstance(one, str) and one not in fields:
        return {"literal": one} if one in ISO_639_1 or one == "mix" else one
    if isinstance(one, dict) and "literal" not in one:
        raise ValueSyntaxError(f"{key} is one field or one text in double quotes")
    return one


def parse_scalar(text: str) -> Json:
    """Return a value as data has it: a number, true, false, null, or the text without quotes."""
    if text.startswith('"'):
        return _parse_literal(text)
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return text if isinstance(found, dict | list) else found


def split_outside_quotes(text: str, separator: str) -> Iterator[str]:
    """Yield the pieces between separators that are outside of quotes and brackets, stripped."""
    piece, closing, quote = "", [""], ""
    for place, char in enumerate(text):
        if quote:
            quote = "" if char == quote and not _is_escaped(text, place) else quote
        elif char == '"' or (char == "'" and closing[-1] == "]"):
            quote = char
        elif char in _OPENING:
            closing.append(_OPENING[char])
        elif char == closing[-1]:
            closing.pop()
        elif char == separator and len(closing) == 1:
            yield _require_text(piece, text)
            piece = ""
            continue
        piece += char
    if quote or len(closing) > 1:
        raise ValueSyntaxError(f"{text}: {quote or closing[-1]} is missing")
    yield _require_text(piece, text)


def _is_escaped(text: str, place: int) -> bool:
    before = text[:place]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def _require_text(piece: str, text: str) -> str:
    if not piece.strip():
        raise ValueSyntaxError(f"{text or 'nothing'}: a part is empty")
    return piece.strip()


Document = dict[str, Json]

CHANGE = "change"


@dataclass(frozen=True, kw_only=True, slots=True)
class ParsedCommand:
    """What a command means: its name (`change` for edits), its edits or its argument."""

    name: str
    edits: tuple[Edit, ...] = ()
    number: int | None = None
    text: str = ""


class CommandSyntaxError(ValueError):
    """A line is not a command: why, and whether it begins as one."""

    def __init__(self, why: str, *, begins: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.begins = begins


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """How a command is written, what it does, and how its arguments are read (None = none)."""

    usage: str
    does: str
    read: Callable[[str, Document, tuple[str, ...]], ParsedCommand] | None = None


def parse_command(line: str, mapping: Document, fields: tuple[str, ...]) -> ParsedCommand:
    """Parse a line."""
    slash, words = line.startswith("/"), line.strip().removeprefix("/")
    name, _, rest = words.partition(" ")
    typed = name if rest else name.rstrip("!.")
    name = _ALIASES.get(typed.lower(), typed.lower())
    command = COMMANDS.get(name)
    if command is None:
        raise CommandSyntaxError(f"there is no command {typed!r}", begins=slash)
    try:
        if command.read is not None:
            return command.read(rest.strip(), mapping, fields)
        _refuse_arguments(rest.strip())
        return ParsedCommand(name=name)
    except ValueSyntaxError as error:
        raise CommandSyntaxError(f"{error} (usage: {command.usage})", begins=True) from error


def _edit_command(*edits: Edit) -> ParsedCommand:
    return ParsedCommand(name=CHANGE, edits=edits)


# --- set


def _read_set(rest: str, mapping: Document, fields: tuple[str, ...]) -> ParsedCommand:
    alternative, rest = _split_alternative(rest, mapping)
    target, _, text = rest.partition(" ")
    if target == "message":
        number, _, text = text.strip().partition(" ")
        target = f"message {number}"
    if not text.strip():
        raise ValueSyntaxError("what is to be set?")
    edit = _target_edit(target, text.strip(), alternative, mapping, fields)
    _require_fields(edit, fields)
    return _edit_command(edit)


def _require_fields(edit: Edit, fields: tuple[str, ...]) -> None:
    """Refuse plain language: a part of several words has to be a field."""
    entries = [one for one in (edit.get("message"), *edit.get("messages", ())) if one]
    named = [part for one in entries for part in one.get("content", ())]
    for part in [*named, *edit.get("parts", ()), edit.get("path"), edit.get("value")]:
        if isinstance(part, str) and " " in part and part not in fields and "['" not in part:
            raise ValueSyntaxError(f"there is no field {part!r}")


def _split_alternative(rest: str, mapping: Document) -> tuple[int | None, str]:
    if not rest.startswith("alternative "):
        return None, rest
    number, _, following = rest.removeprefix("alternative ").strip().partition(" ")
    return _parse_number(number, len(mapping.get("any_of") or [])), following.strip()


def _target_edit(
    target: str, text: str, alternative: int | None, mapping: Document, fields: tuple[str, ...]
) -> Edit:
    key = target.removeprefix("meta.")
    layout: Document = mapping if alternative is None else mapping["any_of"][alternative - 1]
    if key in META_KEYS:
        return {"set": "meta", "key": key, "value": parse_meta_value(text, key, fields)}
    if target in ("each", "root"):
        path = None if text in NOTHING else text
        edit: Edit = {"set": target, "path": path}
        return edit if target == "root" else edit | {"alternative": alternative}
    if target == "group":
        return {"set": "group", "group": _parse_group(text)}
    if target in ("text", "system"):
        return {"set": target, "parts": parse_parts(text), "alternative": alternative}
    if target in ROLES or target.startswith("message "):
        return _message_edit(target, text, alternative, layout)
    known = ", ".join(("text", *ROLES, "message N", "each", "group", "root", *META_KEYS))
    raise ValueSyntaxError(f"{target!r} cannot be set; what can be: {known}")


def _parse_group(text: str) -> Json:
    """Parse `conversation_id sort turn`, or nothing."""
    if text in NOTHING:
        return None
    by, _, sort = text.partition(" sort ")
    return {"by": list(split_outside_quotes(by, ",")), "sort": sort.strip() or None}


def _message_edit(target: str, text: str, alternative: int | None, layout: Document) -> Edit:
    """Set other texts for a message that is named by its number or by its role."""
    found = parse_parts(text)
    number = _message_number(target, layout)
    messages = layout.get("messages") or []
    if number <= len(messages):
        if not found:
            target_message = {"number": number, "message": None, "alternative": alternative}
            return {"set": "message", **target_message}
        return {"set": "content", "number": number, "parts": found, "alternative": alternative}
    entry = {"each": [], "role": target, "content": found, "loss_mask": None}
    if target == "user" and messages:  # a question comes before its answer
        kept = [{"current": place + 1} for place in range(len(messages))]
        return {"set": "messages", "messages": [entry, *kept], "alternative": alternative}
    return {"set": "message", "number": number, "message": entry, "alternative": alternative}


def _message_number(target: str, layout: Document) -> int:
    """Return the number of a message; one more than the last if no message has the role."""
    messages = layout.get("messages") or []
    if target.startswith("message "):
        return _parse_number(target.removeprefix("message "), len(messages))
    places = [place for place, one in enumerate(messages, start=1) if target == one["role"]]
    if len(places) > 1:
        which = " or ".join(f"message {place}" for place in places)
        raise ValueSyntaxError(f"there are several: say {which}")
    read = [place for place, one in enumerate(messages, start=1) if isinstance(one["role"], dict)]
    if not places and read and target != "system":
        raise ValueSyntaxError(f"roles are read from the data: say message {read[0]}")
    return places[0] if places else len(messages) + 1


def _parse_number(text: str, most: int) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= most:
        raise ValueSyntaxError(f"{text!r} is no number from 1 to {most}")
    return int(text)


# --- conditions


def _read_drop(rest: str, mapping: Document, fields: tuple[str, ...]) -> ParsedCommand:
    words = {"under": "min_chars", "over": "max_chars", "is": "not_in"}
    return _read_condition(rest, mapping, fields, words)


def _read_keep(rest: str, mapping: Document, fields: tuple[str, ...]) -> ParsedCommand:
    if rest == "all":
        return _edit_command({"set": "where", "where": [], "alternative": None})
    return _read_condition(rest, mapping, fields, {"is": "in"})


def _read_condition(
    rest: str, mapping: Document, fields: tuple[str, ...], operators: dict[str, str]
) -> ParsedCommand:
    """Add a condition to those that there are."""
    for word, operator in operators.items():
        path, found, stated = rest.partition(f" {word} ")
        if found and (" " not in path.strip() or path.strip() in fields):
            one = {
                "path": path.strip(),
                "op": operator,
                "values": _parse_condition_values(stated, operator),
            }
            known = list(list_conditions(mapping))
            where = known if one in known else [*known, one]
            return _edit_command({"set": "where", "where": where, "alternative": None})
    raise ValueSyntaxError(f"one of the words {', '.join(operators)} is missing")


def _parse_condition_values(text: str, operator: str) -> list[Json]:
    if operator in ("in", "not_in"):
        return [parse_scalar(one) for one in split_outside_quotes(text, ",")]
    if not text.strip().isascii() or not text.strip().isdigit():
        raise ValueSyntaxError(f"{text.strip()!r} is no number of characters")
    return [int(text)]


# --- roles


def _read_swap(rest: str, mapping: Document, fields: tuple[str, ...]) -> ParsedCommand:
    _refuse_arguments(rest)
    return _edit_command({"set": "swap", "alternative": None})


def _read_role(rest: str, mapping: Document, fields: tuple[str, ...]) -> ParsedCommand:
    value, _, role = rest.rpartition(" ")
    value = value.strip()
    if not value or (" " in value and not value.startswith('"')) or role not in (*ROLES, "drop"):
        wanted = f"then one of {', '.join((*ROLES, 'drop'))}"
        raise ValueSyntaxError(
            f"a name from the data (in double quotes if it has blanks), {wanted}"
        )
    named = parse_scalar(value) if value.startswith('"') else value
    return _edit_command(
        {"set": "role", "number": None, "value": named, "role": role, "alternative": None}
    )


_MASKS: dict[str, Json] = {"on": True, "off": False, "usual": None}


def _read_train(rest: str, mapping: Document, fields: tuple[str, ...]) -> ParsedCommand:
    target, _, mask = rest.rpartition(" ")
    number = _message_number(target.strip(), mapping)
    if number > len(mapping.get("messages") or []):
        raise ValueSyntaxError(f"there is no {target.strip() or 'such'} message")
    read: Json = _MASKS.get(mask, {"path": mask})
    return _edit_command({"set": "train", "number": number, "mask": read, "alternative": None})


# --- what changes nothing


def _number_reader(name: str, usual: int | None) -> Callable[..., ParsedCommand]:
    """Read a command with a number; it is required if `usual` is None."""

    def read(rest: str, mapping: Document, fields: tuple[str, ...]) -> ParsedCommand:
        if not rest and usual is not None:
            return ParsedCommand(name=name, number=usual)
        return ParsedCommand(name=name, number=_parse_number(rest, 99))

    return read


# What people say of a mapping, and no file or folder is called.
_POINTING = ("it", "that", "this", "there", "here", "them")


def _file_reader(name: str, what: str) -> Callable[..., ParsedCommand]:

    def read(rest: str, mapping: Document, fields: tuple[str, ...]) -> ParsedCommand:
        quoted = len(rest) > 2 and rest[0] == rest[-1] == '"'
        if not rest or rest.lower() in _POINTING or (len(rest.split()) > 1 and not quoted):
            raise ValueSyntaxError(f"{what} is wanted, in double quotes if it has blanks")
        return ParsedCommand(name=name, text=rest.strip('"'))

    return read


def _read_why(rest: str, mapping: Document, fields: tuple[str, ...]) -> ParsedCommand:
    if len(rest.split()) > 1 and not rest.startswith("message "):
        raise ValueSyntaxError("a target or a field, or nothing")
    return ParsedCommand(name="why", text=rest)


def _refuse_arguments(rest: str) -> None:
    if rest:
        raise ValueSyntaxError("nothing follows it")


COMMANDS: dict[str, Command] = {
    "set": Command(
        usage="set TARGET VALUE",
        does="texts: set text title,body; set user question; set message 2 answer; set system "
        '"You are kind."; set language en; set each qas[*]. "..." is what is there, none = nothing',
        read=_read_set,
    ),
    "drop": Command(
        usage="drop FIELD under|over N, drop FIELD is A,B",
        does="leave rows out by the length of a field, or by its value",
        read=_read_drop,
    ),
    "keep": Command(
        usage="keep FIELD is A,B, keep all",
        does="keep only such rows; keep all takes every condition away",
        read=_read_keep,
    ),
    "swap": Command(usage="swap", does="exchange user and assistant", read=_read_swap),
    "role": Command(
        usage="role NAME user|assistant|system|tool|drop",
        does="who a speaker of the data is",
        read=_read_role,
    ),
    "train": Command(
        usage="train user|assistant|message N on|off|usual|FIELD",
        does="whether a message is trained on",
        read=_read_train,
    ),
    "alternatives": Command(usage="alternatives", does="other mappings that could be meant"),
    "take": Command(usage="take N", does="take one of them", read=_number_reader("take", None)),
    "mapping": Command(usage="mapping", does="the mapping as a tree"),
    "show": Command(
        usage="show [N]", does="rows and the records made of them", read=_number_reader("show", 3)
    ),
    "fields": Command(usage="fields", does="what the data holds"),
    "gates": Command(usage="gates", does="what is checked, with figures"),
    "why": Command(usage="why [TARGET]", does="why the mapper chose as it did", read=_read_why),
    "undo": Command(usage="undo", does="back to the mapping before"),
    "redo": Command(usage="redo", does="forward again"),
    "edit": Command(usage="edit", does="the mapping in $EDITOR"),
    "save": Command(
        usage="save FILE",
        does="write the mapping to a file",
        read=_file_reader("save", "the name of a file"),
    ),
    "out": Command(
        usage="out DIR",
        does="where the result is to go",
        read=_file_reader("out", "the name of a folder"),
    ),
    "ok": Command(usage="ok", does="approve the mapping and convert"),
    "help": Command(usage="help", does="this list"),
    "quit": Command(usage="quit", does="leave; the conversation is kept"),
}
_ALIASES = {"approve": "ok", "exit": "quit", "?": "help", "tree": "mapping"}


def command_usages() -> Iterator[tuple[str, str]]:
    """Yield how every command is written, and what it does."""
    return ((one.usage, one.does) for one in COMMANDS.values())
