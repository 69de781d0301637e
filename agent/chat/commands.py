"""Parse the short commands of a conversation; how a value is typed is in `typed_values`."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ingot.agent.chat.edits import Edit
from ingot.agent.chat.file_choices import read_chosen, read_header, read_left_out
from ingot.agent.chat.typed_values import (
    DROPPING,
    KEEPING,
    NOTHING,
    ValueSyntaxError,
    parse_conditions,
    parse_message_list,
    parse_meta_value,
    parse_number,
    parse_parts,
    parse_removal,
    parse_scalar,
    split_outside_quotes,
)
from ingot.converters.mapping.language import (
    FLAGS,
    META_KEYS,
    ROLES,
    Layout,
    Mapping,
    RoleFromData,
    RoleSplit,
)
from ingot.converters.rows import Json

CHANGE = "change"
_READ = (RoleFromData, RoleSplit)  # roles that the rows say


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

    `edit` makes edits of its argument, the mapping and the fields; `read` reads an argument. `more`
    holds what `help` says of it beyond that: how each of its forms is written, and what it does.
    """

    usage: str
    does: str
    edit: Callable[[str, Mapping, tuple[str, ...]], Edit | tuple[Edit, ...]] | None = None
    read: Callable[[str], str | int] | None = None
    more: tuple[tuple[str, str], ...] = ()


def parse_command(line: str, mapping: Mapping, fields: tuple[str, ...]) -> ParsedCommand:
    """Parse a line."""
    name, _, rest = line.strip().removeprefix("/").partition(" ")
    typed, rest = name if rest else name.rstrip("!."), rest.strip()
    name = _ALIASES.get(typed.lower(), typed.lower())
    command = COMMANDS.get(name)
    if command is None:
        raise CommandSyntaxError(f"there is no command {typed!r}", begins=line.startswith("/"))
    try:
        if command.edit:
            edits = command.edit(rest, mapping, fields)
            return ParsedCommand(name=CHANGE, edits=edits if isinstance(edits, tuple) else (edits,))
        argument = command.read(rest) if command.read else _refuse_arguments(rest)
    except ValueSyntaxError as error:
        raise CommandSyntaxError(f"{error} (usage: {command.usage})", begins=True) from error
    if isinstance(argument, int):
        return ParsedCommand(name=name, number=argument)
    return ParsedCommand(name=name, text=argument)


# --- set


def _read_set(rest: str, mapping: Mapping, fields: tuple[str, ...]) -> Edit | tuple[Edit, ...]:
    alternative, layout, rest = _chosen_layout(rest, mapping)
    target, _, text = rest.strip().partition(" ")
    if target == "message":
        number, _, text = text.strip().partition(" ")
        target = f"message {number}"
    text = text.strip()
    if not text:
        raise ValueSyntaxError("name what to set, as in: set text FIELD")
    if target == "messages":
        return parse_message_list(text, layout, fields, alternative)
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
    elif target in ("text", "system", "tools"):
        edit = {"set": target, "parts": parse_parts(text), "alternative": alternative}
    elif target in ROLES or target.startswith("message "):
        edit = _message_edit(target, parse_parts(text), layout) | {"alternative": alternative}
    else:
        known = ", ".join(("text", *ROLES, "tools", "message N", *_LISTS, "root", *META_KEYS))
        raise ValueSyntaxError(f"{target!r} cannot be set; what can be: {known}")
    _require_fields(edit, fields)
    return edit


def _chosen_layout(rest: str, mapping: Mapping) -> tuple[int | None, Layout, str]:
    """Return the alternative that is named (None: the mapping itself), and what follows."""
    if not rest.startswith("alternative "):
        return None, mapping.outer, rest
    number, _, rest = rest.removeprefix("alternative ").strip().partition(" ")
    alternative = parse_number(number, len(mapping.any_of))
    return alternative, mapping.any_of[alternative - 1], rest


_LISTS = ("messages LIST text=FIELD", "each", "group")


def _require_fields(edit: Edit, fields: tuple[str, ...]) -> None:
    """Refuse plain language: a part of several words has to be a field."""
    entries = [one for one in (edit.get("message"), *edit.get("messages", ())) if one]
    contents = [part for one in entries for part in one.get("content", ())]
    for one in [*contents, *edit.get("parts", ()), edit.get("path"), edit.get("value")]:
        part = one.get("path") if isinstance(one, dict) else one
        if isinstance(part, str) and " " in part and part not in fields and "['" not in part:
            raise ValueSyntaxError(f"there is no field {part!r}")


def _parse_group(text: str) -> Json:
    if text in NOTHING:
        return None
    keys_text, _, sort = text.partition(" sort ")
    return {"by": list(split_outside_quotes(keys_text, ",")), "sort": sort.strip() or None}


def _message_edit(target: str, parts: list[Json], layout: Layout) -> Edit:
    """Set other texts for a message that is named by its number or by its role."""
    messages, number = layout.messages or (), _message_number(target, layout)
    if number <= len(messages):
        if not parts:
            return {"set": "message", "number": number, "message": None}
        return {"set": "content", "number": number, "parts": parts}
    entry = {"each": [], "where": [], "role": target, "content": parts, "loss_mask": None}
    if target == "user" and messages:  # a question comes before its answer
        current = [{"current": index + 1} for index in range(len(messages))]
        return {"set": "messages", "messages": [entry, *current]}
    return {"set": "message", "number": number, "message": entry}


def _message_number(target: str, layout: Layout) -> int:
    """Return the number of a message; one more than the last if no message has the role."""
    messages = layout.messages or ()
    if target.startswith("message "):
        return parse_number(target.removeprefix("message "), len(messages))
    numbers = [number for number, one in enumerate(messages, start=1) if target == one.role]
    if len(numbers) > 1:
        which = " or ".join(f"message {number}" for number in numbers)
        raise ValueSyntaxError(f"there are several: say {which}")
    read = [number for number, one in enumerate(messages, start=1) if isinstance(one.role, _READ)]
    if not numbers and read and target != "system":
        raise ValueSyntaxError(f"roles are read from the data: say message {read[0]}")
    return numbers[0] if numbers else len(messages) + 1


# --- conditions


def _read_drop(rest: str, mapping: Mapping, fields: tuple[str, ...]) -> Edit | tuple[Edit, ...]:
    return parse_conditions(rest, mapping, fields, DROPPING)


def _read_keep(rest: str, mapping: Mapping, fields: tuple[str, ...]) -> Edit | tuple[Edit, ...]:
    return parse_removal(rest, mapping) or parse_conditions(rest, mapping, fields, KEEPING)


# --- roles


def _read_swap(rest: str, mapping: Mapping, fields: tuple[str, ...]) -> Edit:
    _refuse_arguments(rest)
    return {"set": "swap", "alternative": None}


def _read_role(rest: str, mapping: Mapping, fields: tuple[str, ...]) -> Edit:
    value, _, role = rest.rpartition(" ")
    value, quoted = value.strip(), value.startswith('"')
    if not value or (" " in value and not quoted) or role not in (*ROLES, "drop"):
        roles_hint = f"then one of {', '.join((*ROLES, 'drop'))}"
        name_hint = "a name from the data (in double quotes if it has blanks)"
        raise ValueSyntaxError(f"{name_hint}, {roles_hint}")
    speaker = parse_scalar(value) if quoted else value
    return {"set": "role", "number": None, "value": speaker, "role": role, "alternative": None}


_MASKS: dict[str, Json] = {"on": True, "off": False, "usual": None}


def _read_train(rest: str, mapping: Mapping, fields: tuple[str, ...]) -> Edit:
    target, _, mask = rest.rpartition(" ")
    number = _message_number(target.strip(), mapping.outer)
    if number > len(mapping.outer.messages or ()):
        raise ValueSyntaxError(f"the mapping has no {target.strip() or 'such'} message")
    read: Json = _MASKS.get(mask, {"path": mask})
    return {"set": "train", "number": number, "mask": read, "alternative": None}


# --- what changes nothing

# What people say of a mapping, and no file or folder is called.
_POINTING = ("it", "that", "this", "there", "here", "them")


def _read_name(rest: str, noun: str) -> str:
    quoted = len(rest) > 2 and rest[0] == rest[-1] == '"'
    if not rest or rest.lower() in _POINTING or (len(rest.split()) > 1 and not quoted):
        raise ValueSyntaxError(f"type the name of a {noun}, in double quotes if it has blanks")
    return rest.strip('"')


def _read_why(rest: str) -> str:
    if len(rest.split()) > 1 and not rest.startswith("message "):
        raise ValueSyntaxError("a target or a field, or nothing")
    return rest


def _read_help(rest: str) -> str:
    if rest and rest not in COMMANDS:
        raise ValueSyntaxError(f"there is no command {rest!r}")
    return rest


def _refuse_arguments(rest: str) -> str:
    if rest:
        raise ValueSyntaxError("this command takes no words after it")
    return ""


COMMANDS: dict[str, Command] = {
    "set": Command(
        "set TARGET VALUE",
        "use other fields: set text title,body; set user question; set message 2 answer; "
        'set system "You are kind."; set language en; set each qas[*]; all forms: help set',
        edit=_read_set,
        more=(
            ("set text A,B", "the text of a pt record: fields joined by line breaks"),
            ("set user|assistant|system|tool A", "the text of the message of that role"),
            ("set message N A", "the text of message N"),
            ("set tools A as json", "the definitions of tools that a conversation may call"),
            (
                "set messages LIST speaker=F text=F",
                "one message per element of LIST; F is a field of an element. If the name of a "
                "speaker is uncommon, set the role with: role NAME user",
            ),
            (
                "set messages LIST speaker=F text=F roles=NAME:user,OTHER:assistant",
                "the same, with the role of each speaker; roles=user,assistant: in the order in "
                "which the speakers first appear",
            ),
            ("set messages LIST text=F", "messages without speakers: user and assistant alternate"),
            ("set each LIST", "one record per element of LIST; paths then start there"),
            (
                "set group KEY,KEY sort FIELD",
                "rows of one file with equal keys become one record; the fields of the mapping are "
                "rewritten; set group @file: all rows of a file",
            ),
            ("set root PATH", "the path of the rows in a JSON file"),
            (f"set {'|'.join(META_KEYS)} A", "a field, or a text in double quotes"),
            ("set alternative N TARGET VALUE", "the same in one alternative of the mapping"),
            (
                "values",
                'A,B joins fields; A|B is the first that is not blank; "..." is a fixed text; '
                "{{a}}: {{b}} is a template; "
                + "".join(f"A {one.typed} is {one.gives}; " for one in FLAGS)
                + "... is the current value; none = nothing",
            ),
        ),
    ),
    "drop": Command(
        "drop FIELD under|over N, drop FIELD is A,B, drop message where FIELD is A",
        "leave out rows, or single messages, by the length of a field or by its value",
        edit=_read_drop,
        more=(
            ("drop FIELD under|over N", "leave out rows by the length of a field"),
            ("drop FIELD is A,B", "leave out rows by the value of a field"),
            (
                "drop message where FIELD is A,B",
                "leave out single messages; FIELD is a field of the elements of their list; also "
                "with under and over, and for one entry: drop message 2 where ...",
            ),
        ),
    ),
    "keep": Command(
        "keep FIELD is A,B, keep message where FIELD is A, keep all",
        "keep only these rows or messages; keep all removes every condition on rows",
        edit=_read_keep,
        more=(
            ("keep FIELD is A,B", "keep only rows with these values of a field"),
            ("keep message where FIELD is A,B", "keep only messages with these values"),
            ("keep all, keep all FIELD", "remove every condition on rows, or those on a field"),
            ("keep message all, keep message all FIELD", "the same for conditions on messages"),
        ),
    ),
    "read": Command(
        "read sheets|files A,B, read all",
        "read these sheets or files, also ones that were left out",
        edit=read_chosen,
    ),
    "leave": Command("leave out sheet|file A,B", "leave sheets or files out", edit=read_left_out),
    "header": Command(
        "header row N, header rows N,N",
        "set the row of a sheet or CSV file that holds the names; of two rows the first names "
        "groups; header row none: detect it",
        edit=read_header,
    ),
    "swap": Command("swap", "exchange user and assistant", edit=_read_swap),
    "role": Command(
        "role NAME user|assistant|system|tool|drop",
        "set the role of a speaker in the data",
        edit=_read_role,
    ),
    "train": Command(
        "train user|assistant|message N on|off|usual|FIELD",
        "set whether a message is trained on",
        edit=_read_train,
    ),
    "alternatives": Command("alternatives", "list other mappings that pass on the sample"),
    "take": Command("take N", "use one of them", read=lambda rest: parse_number(rest, 99)),
    "mapping": Command("mapping", "show the mapping as a tree"),
    "show": Command(
        "show [N]",
        "show rows beside their records",
        read=lambda rest: parse_number(rest or "3", 99),
    ),
    "fields": Command("fields", "show the fields of the data"),
    "gates": Command("gates", "show the gates with their figures"),
    "why": Command("why [TARGET]", "show the mapper's reasons", read=_read_why),
    "undo": Command("undo", "return to the previous mapping"),
    "redo": Command("redo", "repeat what was undone"),
    "edit": Command("edit", "edit the mapping in $EDITOR"),
    "save": Command(
        "save FILE", "write the mapping to a file", read=lambda rest: _read_name(rest, "file")
    ),
    "out": Command(
        "out DIR", "set the output folder", read=lambda rest: _read_name(rest, "folder")
    ),
    "ok": Command("ok", "approve the mapping and convert"),
    "help": Command("help [COMMAND]", "show this list, or all forms of a command", read=_read_help),
    "quit": Command("quit", "leave; the conversation is saved"),
}
_ALIASES = {"approve": "ok", "exit": "quit", "?": "help", "tree": "mapping"}


_TARGETS = (*ROLES, "text", "tools", "message", "messages", "each", "group", "root", "alternative")


def complete_word(before: str, word: str, fields: tuple[str, ...]) -> list[str]:
    """Return what a word can become: a command first on a line, then a target or a field."""
    name, *arguments = before.removeprefix("/").split() or [""]
    command, candidates = COMMANDS.get(name), fields
    if not name or name == "help":
        candidates = (*COMMANDS, *(f"/{one}" for one in COMMANDS if word.startswith("/")))
    elif name == "set" and not arguments:
        candidates = (*_TARGETS, *META_KEYS)
    elif command and not command.edit and name != "why":
        candidates = ()
    return [one for one in dict.fromkeys(candidates) if one.startswith(word)]


_IN_REVIEW = dict.fromkeys(("ok", "quit"), "return to the question, with the mapping as it is now")


def command_usages(name: str = "", *, under_review: bool = False) -> Iterator[tuple[str, str]]:
    """Yield how every command, or every form of one, is written, and what it does."""
    if name and COMMANDS[name].more:
        yield from COMMANDS[name].more
        return
    other = _IN_REVIEW if under_review else {}
    for key in [name] if name else COMMANDS:
        yield COMMANDS[key].usage, other.get(key, COMMANDS[key].does)
