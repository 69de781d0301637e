"""Parse values and lists of messages as a person types them in a conversation.

The parts of a value (`title,body`, `"You are kind."`, `{{a}}: {{b}}`, `title|headline`,
`calls as json`) are separated by commas; `...` is what is there already; a text in double quotes is
literal.
"""

import json
import re
from collections.abc import Iterator, Sequence

from ingot.agent.chat.edits import Edit, list_conditions
from ingot.agent.proposing.columns import last_name, text_of, values_at
from ingot.agent.proposing.llm.reply import complete_part
from ingot.agent.proposing.names import speaker_role
from ingot.agent.proposing.speakers import flag_roles
from ingot.converters.mapping.language import (
    FLAGS,
    ROLES,
    Layout,
    Mapping,
    Message,
    split_template,
)
from ingot.converters.paths import Names, Node, Path, PathSyntaxError, compile_path
from ingot.converters.rows import Json
from ingot.converters.sources.documents.kinds import ISO_639_1

_OPENING = {"[": "]", "{": "}"}
NOTHING = ("none", "nothing", "-")
_MOST_TYPED = 1_000  # elements of a row by whose values typed ones are spelled


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
        return _parse_template(text)
    choices = [_parse_path(one) for one in split_outside_quotes(text, "|")]
    return {"any_of": choices} if len(choices) > 1 else choices[0]


def _parse_path(text: str) -> Json:
    """Return a path, with flags such as `as json` behind it a part that states them."""
    flags = {}
    for one in reversed(FLAGS):
        if text.endswith(f" {one.typed}"):
            text, flags[one.word] = text.removesuffix(one.typed).strip(), True
    return complete_part({"path": text, **flags}) if flags else text


def _parse_template(text: str) -> Json:
    """Return a template; one whose fields are all below the same list is filled per element."""
    fields = split_template(text)[1::2]
    lists = {field.rpartition("[*].")[0] for field in fields if "[*]." in field}
    if len(fields) < 2 or len(lists) != 1 or not all("[*]." in field for field in fields):
        return {"template": text, "each": []}
    each = f"{lists.pop()}[*]"
    return {"template": text.replace(f"{{{{{each}.", "{{"), "each": [each]}


def _parse_literal(text: str) -> str:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueSyntaxError(
            f'{text} is not a text in double quotes (inside it, \\" and \\n)'
        ) from error
    if not isinstance(value, str):
        raise ValueSyntaxError(f"{text} is not a text in double quotes")
    return value


def parse_meta_value(text: str, key: str, fields: tuple[str, ...]) -> Json:
    """Return the value of a meta key: a path, a literal, None = none.

    A language code that is not a field is a literal, as in version 1 of the mapping format.
    """
    parts = parse_parts(text)
    if len(parts) > 1:
        raise ValueSyntaxError(f"{key} is one field or one text in double quotes")
    value = parts[0] if parts else None
    if key == "language" and isinstance(value, str) and value not in fields:
        return {"literal": value} if value in ISO_639_1 or value == "mix" else value
    if isinstance(value, dict) and "literal" not in value:
        raise ValueSyntaxError(f"{key} is one field or one text in double quotes")
    return value


def parse_scalar(text: str) -> Json:
    """Return a value as data has it: a number, true, false, null, or the text without quotes."""
    if text.startswith('"'):
        return _parse_literal(text)
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return text if isinstance(value, dict | list) else value


def split_outside_quotes(text: str, separator: str) -> Iterator[str]:
    """Yield the pieces between separators that are outside of quotes and brackets, stripped."""
    piece, closing, quote = "", [""], ""
    for index, char in enumerate(text):
        if quote:
            escapes = len(text[:index]) - len(text[:index].rstrip("\\"))
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


# --- a list of messages, and the roles of the speakers that the data names


_KEYS = re.compile(r"(?:^|(?<!\s)\s++)(speaker|text|roles)=")
_IN_TURN = ["user", "assistant"]
_NAMED = (*ROLES, "drop")


def parse_message_list(
    text: str, layout: Layout, fields: tuple[str, ...], alternative: int | None
) -> tuple[Edit, ...]:
    """Return the edits that make one message per element: `LIST speaker=F text=F roles=...`."""
    path, *rest = _KEYS.split(text)
    values = dict(zip(rest[::2], map(str.strip, rest[1::2]), strict=True))
    each = path = _unquote(path)
    if not each or not values.get("text") or len(values) < len(rest) / 2:
        raise ValueSyntaxError("a list, then speaker=FIELD (if there is one) and text=FIELD")
    if " " in each and not any(one.startswith(each) for one in fields):
        raise ValueSyntaxError(f"there is no field {each!r}")
    each = each if each.endswith(("[*]", ".*")) else f"{each}[*]"
    role = _parse_roles(values.get("roles", ""), _unquote(values.get("speaker", "")) or None)
    content, where = parse_parts(values["text"]), list[Edit]()
    before: list[Edit] = []
    if layout.each and any(one.startswith(path) for one in fields):
        before, where = _leave_each(layout, each, alternative)
    entry = {"each": [each], "where": where, "role": role, "content": content, "loss_mask": None}
    edit = {"set": "messages", "messages": [entry], "alternative": alternative}
    return (*before, edit)


def _leave_each(
    layout: Layout, each: str, alternative: int | None
) -> tuple[list[Edit], list[Edit]]:
    """Return edits that make one record of a row again, and the conditions on its elements."""
    before: list[Edit] = [{"set": "each", "path": None, "alternative": alternative}]
    for key, value in layout.meta.items():
        path = value.path.text if value.is_bare and value.path else ""
        if path.startswith("^."):
            before.append({"set": "meta", "key": key, "value": path.removeprefix("^.")})
    where = list(list_conditions(layout)) if _list_text(layout.each) == each else []
    if where:
        before.append({"set": "where", "number": None, "where": [], "alternative": alternative})
    return before, where


def _parse_roles(text: str, speaker: str | None) -> Json:
    pieces = list(split_outside_quotes(text, ",")) if text else []
    if all(one in ROLES for one in pieces):
        if speaker is None:
            return {"in_turn": pieces or _IN_TURN}
        return {"path": speaker, "order": pieces} if pieces else {"path": speaker, "map": []}
    if speaker is None:
        raise ValueSyntaxError(f"roles without a speaker are some of {', '.join(ROLES)}")
    pairs = [one.rpartition(":") for one in pieces]
    for name, _, role in pairs:
        if not name or role not in _NAMED:
            raise ValueSyntaxError(f"roles are NAME:ROLE, and ROLE is one of {', '.join(_NAMED)}")
    return {"path": speaker, "map": [{"value": _unquote(n), "role": role} for n, _, role in pairs]}


def _unquote(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 2 and text[0] == text[-1] == '"' else text


def with_known_speakers(edit: Edit, nodes: Sequence[Node]) -> Edit:
    """Return an edit of messages with the roles of speakers whose names say what they are."""
    return {**edit, "messages": [_with_known_roles(one, nodes) for one in edit["messages"]]}


def _with_known_roles(message: Edit, nodes: Sequence[Node]) -> Edit:
    role = message.get("role")
    if not isinstance(role, dict) or role.get("map") != [] or not isinstance(role["path"], str):
        return message
    try:
        names = list(dict.fromkeys(_speakers(message, role["path"], nodes)))
    except PathSyntaxError:  # which the check of the mapping names
        return message
    if set(names) <= set(ROLES):
        return message
    flags = flag_roles(last_name(role["path"]), names)
    roles = flags or {name: speaker_role(name) for name in names}
    pairs = [{"value": name, "role": one} for name, one in roles.items() if one]
    return {**message, "role": {**role, "map": pairs}}


def _speakers(message: Edit, speaker: str, nodes: Sequence[Node]) -> Iterator[str]:
    if len(message["each"]) != 1:
        return
    each = message["each"][0]
    path = f"{each}{speaker}" if speaker.startswith("[") else f"{each}.{speaker}"
    for node in nodes:
        yield from (text_of(one) for one in values_at(path, node) if text_of(one))


def with_known_values(edit: Edit, mapping: Mapping, nodes: Sequence[Node]) -> Edit:
    """Return an edit of conditions with its values as the data have them; others stay."""
    list_path = _message_list(mapping, edit)
    return {**edit, "where": [_type_condition(one, nodes, list_path) for one in edit["where"]]}


def _message_list(mapping: Mapping, edit: Edit) -> str:
    """The list that the message of an edit walks over, "" for conditions of rows."""
    messages, number = mapping.outer.messages or (), edit.get("number")
    each = messages[number - 1].each if number and number <= len(messages) else ()
    lists = [_list_text(one) for one in (mapping.outer.each, each)]
    return ".".join(filter(None, lists)) if each else ""


def _list_text(each: tuple[Path, ...]) -> str:
    """The list that is walked over, "" if there is none, or several in step."""
    return each[0].text if len(each) == 1 else ""


def _type_condition(condition: Edit, nodes: Sequence[Node], list_path: str = "") -> Edit:
    """Replace a value that is spelled like one of the data by it; others stay."""
    if condition["op"] not in ("in", "not_in") or not isinstance(condition["path"], str):
        return condition
    path, max_values = condition["path"], 1
    if list_path:
        path, max_values = f"{list_path}.{path}", _MOST_TYPED
    try:
        path_values = [one for node in nodes for one in values_at(path, node)[:max_values]]
    except PathSyntaxError:  # said as a problem where the mapping is tried
        return condition
    scalars = [one for one in path_values if isinstance(one, str | bool | int | float)]
    known = {(type(one), one): one for one in scalars}
    value_by_text = {text_of(one): one for one in known.values()}
    values = [
        one if (type(one), one) in known or one is None else value_by_text.get(text_of(one), one)
        for one in condition["values"]
    ]
    return {**condition, "values": values}


def parse_number(text: str, maximum: int) -> int:
    """Return a number from 1 on."""
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= maximum:
        raise ValueSyntaxError(f"{text!r} is not a number from 1 to {maximum}")
    return int(text)


# --- conditions


DROPPING = {"under": "min_chars", "over": "max_chars", "is": "not_in"}
KEEPING = {"is": "in"}
_ALL = re.compile(r"(?P<message>message\b(?: +\d+)?)? *\ball(?P<field>(?! is ) .+)?")


def parse_conditions(
    rest: str, mapping: Mapping, fields: tuple[str, ...], operators: dict[str, str]
) -> Edit | tuple[Edit, ...]:
    """Return the edit of the rows' conditions, or of each message that is walked over."""
    target, where, condition = rest.partition(" where ")
    if not where or target.split()[0] != "message":
        return _where_edit(None, _with_condition(rest, mapping.outer, fields, operators))
    messages, edits = mapping.outer.messages or (), []
    for number in _walked_messages(target, messages):
        message = messages[number - 1]
        inside = f"{_list_text(message.each)}."
        own_fields = tuple(one.removeprefix(inside) for one in fields)
        short = condition.strip().removeprefix(inside)
        edits.append(_where_edit(number, _with_condition(short, message, own_fields, operators)))
    return tuple(edits)


def parse_removal(rest: str, mapping: Mapping) -> tuple[Edit, ...]:
    """Return the edits that remove conditions (`all`, `message all FIELD`); none of other lines."""
    removed = _ALL.fullmatch(rest)
    if removed is None:
        return ()
    field, messages = (removed["field"] or "").strip(), mapping.outer.messages or ()
    if not removed["message"]:
        return (_where_edit(None, _conditions_but(field, mapping.outer)),)
    return tuple(
        _where_edit(number, _conditions_but(field, messages[number - 1]))
        for number in _walked_messages(removed["message"], messages)
    )


def _where_edit(number: int | None, where: list[Json]) -> Edit:
    return {"set": "where", "number": number, "where": where, "alternative": None}


def _walked_messages(target: str, messages: Sequence[Message]) -> list[int]:
    """The number that is named (`message 2`), or those of the messages that walk over a list."""
    if number := target.removeprefix("message").strip():
        return [parse_number(number, len(messages))]
    walked = [number for number, one in enumerate(messages, start=1) if one.each]
    if not walked:
        raise ValueSyntaxError("no message walks over a list: name one, as in message 2")
    return walked


def _conditions_but(field: str, holder: Layout | Message) -> list[Json]:
    """The conditions that are left where those on a field are removed, or all ("")."""
    short = field.removeprefix(f"{_list_text(holder.each)}.")
    conditions = list_conditions(holder) if field else ()
    return [one for one in conditions if not is_same_path(one["path"], short)]


def is_same_path(path: Json, typed: str) -> bool:
    """Return whether two paths lead to the same place, however their names are quoted."""
    try:
        step_names = [list(_step_names(one)) for one in (path, typed) if isinstance(one, str)]
    except PathSyntaxError:
        return False
    return step_names[0] == step_names[-1] and len(step_names) == 2


def _step_names(path: str) -> Iterator[object]:
    for step in compile_path(path).steps:
        yield from step.names if isinstance(step, Names) else [getattr(step, "name", step)]


def _with_condition(
    rest: str, holder: Layout | Message, fields: tuple[str, ...], operators: dict[str, str]
) -> list[Json]:
    """Return the conditions of a mapping or of a message, and the one that is typed."""
    for word, operator in operators.items():
        path, separator, operand = (piece.strip() for piece in rest.partition(f" {word} "))
        if separator and (" " not in path or path in fields):
            condition = {
                "path": path,
                "op": operator,
                "values": _condition_values(operand, operator),
            }
            known = list(list_conditions(holder))
            return known if condition in known else [*known, condition]
    raise ValueSyntaxError(f"one of the words {', '.join(operators)} is missing")


def _condition_values(text: str, operator: str) -> list[Json]:
    if operator in ("in", "not_in"):
        return [parse_scalar(one) for one in split_outside_quotes(text, ",")]
    if not text.isascii() or not text.isdigit():
        raise ValueSyntaxError(f"{text!r} is not a number of characters")
    return [int(text)]
