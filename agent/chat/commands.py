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
from ingot.converters.rows import Json, MappingDocument

_OPENING = {"[": "]", "{": "}"}
NOTHING = ("none", "nothing", "-")


class ValueSyntaxError(ValueError):
    """A typed value cannot be parsed; the message says why."""


def parse_parts(text: str) -> list[Json]:
    """Return the parts of a value in the form of an edit; [] = none."""
    nothing = text.strip().lower() in NOTHING
    return [] if nothing else [_parse_part(one) for one in split_outside_quotes(text, ",")]


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
            escapes = len(text[:place]) - len(text[:place].rstrip("\\"))
            quote = "" if char == quote and escapes % 2 == 0 else quote
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


def _require_text(piece: str, text: str) -> str:
    if not piece.strip():
        raise ValueSyntaxError(f"{text or 'nothing'}: a part is empty")
    return piece.strip()


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


@dataclass(frozen=True, slots=True)
class Command:
    """How a command is written, and what it does.

    `edit` makes an edit of its argument, the mapping and the fields; `read` reads an argument.
    """

    usage: str
    does: str
    edit: Callable[[str, MappingDocument, tuple[str, ...]], Edit] | None = None
    read: Callable[[str], str | int] | None = None


def parse_command(line: str, mapping: MappingDocument, fields: tuple[str, ...]) -> ParsedCommand:
    """Parse a line."""
    name, _, rest = line.strip().removeprefix("/").partition(" ")
    typed, rest = name if rest else name.rstrip("!."), rest.strip()
    name = _ALIASES.get(typed.lower(), typed.lower())
    command = COMMANDS.get(name)
    if command is None:
        raise CommandSyntaxError(f"there is no command {typed!r}", begins=line.startswith("/"))
    try:
        if command.edit:
            return ParsedCommand(name=CHANGE, edits=(command.edit(rest, mapping, fields),))
        found = command.read(rest) if command.read else _refuse_arguments(rest)
    except ValueSyntaxError as error:
        raise CommandSyntaxError(f"{error} (usage: {command.usage})", begins=True) from error
    if isinstance(found, int):
        return ParsedCommand(name=name, number=found)
    return ParsedCommand(name=name, text=found)


# --- set


def _read_set(rest: str, mapping: MappingDocument, fields: tuple[str, ...]) -> Edit:
    alternative, layout = None, mapping
    if rest.startswith("alternative "):
        number, _, rest = rest.removeprefix("alternative ").strip().partition(" ")
        variants = mapping.get("any_of") or []
        alternative = _parse_number(number, len(variants))
        layout = variants[alternative - 1]
    target, _, text = rest.strip().partition(" ")
    if target == "message":
        number, _, text = text.strip().partition(" ")
        target = f"message {number}"
    text = text.strip()
    if not text:
        raise ValueSyntaxError("what is to be set?")
    key = target.removeprefix("meta.")
    if key in META_KEYS:
        edit = {"set": "meta", "key": key, "value": parse_meta_value(text, key, fields)}
    elif target == "root":
        edit = {"set": "root", "path": None if text in NOTHING else text}
    elif target == "each":
        path = None if text in NOTHING else text
        edit = {"set": "each", "path": path, "alternative": alternative}
    elif target == "group":
        edit = {"set": "group", "group": _parse_group(text)}
    elif target in ("text", "system"):
        edit = {"set": target, "parts": parse_parts(text), "alternative": alternative}
    elif target in ROLES or target.startswith("message "):
        edit = _message_edit(target, parse_parts(text), layout) | {"alternative": alternative}
    else:
        known = ", ".join(("text", *ROLES, "message N", "each", "group", "root", *META_KEYS))
        raise ValueSyntaxError(f"{target!r} cannot be set; what can be: {known}")
    _require_fields(edit, fields)
    return edit


def _require_fields(edit: Edit, fields: tuple[str, ...]) -> None:
    """Refuse plain language: a part of several words has to be a field."""
    entries = [one for one in (edit.get("message"), *edit.get("messages", ())) if one]
    named = [part for one in entries for part in one.get("content", ())]
    for part in [*named, *edit.get("parts", ()), edit.get("path"), edit.get("value")]:
        if isinstance(part, str) and " " in part and part not in fields and "['" not in part:
            raise ValueSyntaxError(f"there is no field {part!r}")


def _parse_group(text: str) -> Json:
    if text in NOTHING:
        return None
    by, _, sort = text.partition(" sort ")
    return {"by": list(split_outside_quotes(by, ",")), "sort": sort.strip() or None}


def _message_edit(target: str, parts: list[Json], layout: MappingDocument) -> Edit:
    """Set other texts for a message that is named by its number or by its role."""
    messages, number = layout.get("messages") or [], _message_number(target, layout)
    if number <= len(messages):
        if not parts:
            return {"set": "message", "number": number, "message": None}
        return {"set": "content", "number": number, "parts": parts}
    entry = {"each": [], "role": target, "content": parts, "loss_mask": None}
    if target == "user" and messages:  # a question comes before its answer
        kept = [{"current": place + 1} for place in range(len(messages))]
        return {"set": "messages", "messages": [entry, *kept]}
    return {"set": "message", "number": number, "message": entry}


def _message_number(target: str, layout: MappingDocument) -> int:
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


def _read_drop(rest: str, mapping: MappingDocument, fields: tuple[str, ...]) -> Edit:
    operators = {"under": "min_chars", "over": "max_chars", "is": "not_in"}
    return _read_condition(rest, mapping, fields, operators)


def _read_keep(rest: str, mapping: MappingDocument, fields: tuple[str, ...]) -> Edit:
    if rest == "all":
        return {"set": "where", "where": [], "alternative": None}
    return _read_condition(rest, mapping, fields, {"is": "in"})


def _read_condition(
    rest: str, mapping: MappingDocument, fields: tuple[str, ...], operators: dict[str, str]
) -> Edit:
    for word, operator in operators.items():
        path, found, stated = (one.strip() for one in rest.partition(f" {word} "))
        if found and (" " not in path or path in fields):
            one = {"path": path, "op": operator, "values": _condition_values(stated, operator)}
            known = list(list_conditions(mapping))
            where = known if one in known else [*known, one]
            return {"set": "where", "where": where, "alternative": None}
    raise ValueSyntaxError(f"one of the words {', '.join(operators)} is missing")


def _condition_values(text: str, operator: str) -> list[Json]:
    if operator in ("in", "not_in"):
        return [parse_scalar(one) for one in split_outside_quotes(text, ",")]
    if not text.isascii() or not text.isdigit():
        raise ValueSyntaxError(f"{text!r} is no number of characters")
    return [int(text)]


# --- roles


def _read_swap(rest: str, mapping: MappingDocument, fields: tuple[str, ...]) -> Edit:
    _refuse_arguments(rest)
    return {"set": "swap", "alternative": None}


def _read_role(rest: str, mapping: MappingDocument, fields: tuple[str, ...]) -> Edit:
    value, _, role = rest.rpartition(" ")
    value, quoted = value.strip(), value.startswith('"')
    if not value or (" " in value and not quoted) or role not in (*ROLES, "drop"):
        wanted = f"then one of {', '.join((*ROLES, 'drop'))}"
        what = "a name from the data (in double quotes if it has blanks)"
        raise ValueSyntaxError(f"{what}, {wanted}")
    named = parse_scalar(value) if quoted else value
    return {"set": "role", "number": None, "value": named, "role": role, "alternative": None}


_MASKS: dict[str, Json] = {"on": True, "off": False, "usual": None}


def _read_train(rest: str, mapping: MappingDocument, fields: tuple[str, ...]) -> Edit:
    target, _, mask = rest.rpartition(" ")
    number = _message_number(target.strip(), mapping)
    if number > len(mapping.get("messages") or []):
        raise ValueSyntaxError(f"there is no {target.strip() or 'such'} message")
    read: Json = _MASKS.get(mask, {"path": mask})
    return {"set": "train", "number": number, "mask": read, "alternative": None}


# --- what changes nothing

# What people say of a mapping, and no file or folder is called.
_POINTING = ("it", "that", "this", "there", "here", "them")


def _read_name(rest: str, what: str) -> str:
    quoted = len(rest) > 2 and rest[0] == rest[-1] == '"'
    if not rest or rest.lower() in _POINTING or (len(rest.split()) > 1 and not quoted):
        raise ValueSyntaxError(f"the name of a {what} is wanted, in double quotes if it has blanks")
    return rest.strip('"')


def _read_why(rest: str) -> str:
    if len(rest.split()) > 1 and not rest.startswith("message "):
        raise ValueSyntaxError("a target or a field, or nothing")
    return rest


def _refuse_arguments(rest: str) -> str:
    if rest:
        raise ValueSyntaxError("nothing follows it")
    return ""


COMMANDS: dict[str, Command] = {
    "set": Command(
        "set TARGET VALUE",
        "texts: set text title,body; set user question; set message 2 answer; set system "
        '"You are kind."; set language en; set each qas[*]. "..." is what is there, none = nothing',
        edit=_read_set,
    ),
    "drop": Command(
        "drop FIELD under|over N, drop FIELD is A,B",
        "leave rows out by the length of a field, or by its value",
        edit=_read_drop,
    ),
    "keep": Command(
        "keep FIELD is A,B, keep all",
        "keep only such rows; keep all takes every condition away",
        edit=_read_keep,
    ),
    "swap": Command("swap", "exchange user and assistant", edit=_read_swap),
    "role": Command(
        "role NAME user|assistant|system|tool|drop",
        "who a speaker of the data is",
        edit=_read_role,
    ),
    "train": Command(
        "train user|assistant|message N on|off|usual|FIELD",
        "whether a message is trained on",
        edit=_read_train,
    ),
    "alternatives": Command("alternatives", "other mappings that could be meant"),
    "take": Command("take N", "take one of them", read=lambda rest: _parse_number(rest, 99)),
    "mapping": Command("mapping", "the mapping as a tree"),
    "show": Command(
        "show [N]",
        "rows and the records made of them",
        read=lambda rest: _parse_number(rest or "3", 99),
    ),
    "fields": Command("fields", "what the data holds"),
    "gates": Command("gates", "what is checked, with figures"),
    "why": Command("why [TARGET]", "why the mapper chose as it did", read=_read_why),
    "undo": Command("undo", "back to the mapping before"),
    "redo": Command("redo", "forward again"),
    "edit": Command("edit", "the mapping in $EDITOR"),
    "save": Command(
        "save FILE", "write the mapping to a file", read=lambda rest: _read_name(rest, "file")
    ),
    "out": Command(
        "out DIR", "where the result is to go", read=lambda rest: _read_name(rest, "folder")
    ),
    "ok": Command("ok", "approve the mapping and convert"),
    "help": Command("help", "this list"),
    "quit": Command("quit", "leave; the conversation is kept"),
}
_ALIASES = {"approve": "ok", "exit": "quit", "?": "help", "tree": "mapping"}


def command_usages() -> Iterator[tuple[str, str]]:
    """Yield how every command is written, and what it does."""
    return ((one.usage, one.does) for one in COMMANDS.values())
