"""Rewrite the paths of a mapping where `group` begins or ends.

A text or message then walks over the rows of its group (`[*]`), and what stands once comes from the
first (`[0]`). What cannot be rewritten stays, and the check of the mapping says so.
"""

import re
from collections.abc import Callable
from functools import partial

from ingot.converters.mapping.language import PATH_KEYS, PICKING_KEYS, split_template
from ingot.converters.rows import Json, MappingDocument

_Rewrite = Callable[[str], str]
_RewriteLayout = Callable[[MappingDocument], MappingDocument]
_EVERY, _FIRST = "[*]", "[0]"
_AT = re.compile(r"\[(?:\*|0)\](?:\.|(?=\[)|$)")


def enter_group(document: MappingDocument) -> MappingDocument:
    """Return a mapping of single rows as one of lists of rows."""
    return _each_layout(document, _enter_layout, _below(_EVERY))


def leave_group(document: MappingDocument) -> MappingDocument:
    """Return a mapping of lists of rows as one of single rows."""
    text = partial(_rewrite_value, rewrite=_above)
    return _each_layout(
        document, lambda one: _rewrite_layout(one, _above, text, _leave_message), _above
    )


def _each_layout(
    document: MappingDocument, rewrite: _RewriteLayout, outer: _Rewrite
) -> MappingDocument:
    """Rewrite the mapping and its alternatives; below an outer `each` only its path changes."""
    around = bool(document.get("each"))
    made = _with_each(document, outer) if around else rewrite(document)
    if "any_of" in made:
        made["any_of"] = [
            _with_each(one, outer) if around or one.get("each") else rewrite(one)
            for one in made["any_of"]
        ]
    return made


def _below(prefix: str) -> _Rewrite:
    """Return what puts a path below `[*]` or `[0]`; marks and paths that lead there stay."""

    def rewrite(path: str) -> str:
        if path.startswith(("[*]", "[0]", "^", "~", "@file")):
            return path
        bare = path.removeprefix("$").removeprefix(".")
        return f"{prefix}{bare}" if not bare or bare.startswith("[") else f"{prefix}.{bare}"

    return rewrite


def _above(path: str) -> str:
    """Return a path without the `[*]` or `[0]` that it begins with."""
    return _AT.sub("", path, count=1) or "$" if _AT.match(path) else path


def _enter_layout(layout: MappingDocument) -> MappingDocument:
    made = _rewrite_layout(layout, _below(_FIRST), _value_of_rows, _enter_message)
    where, messages = layout.get("where"), made.get("messages")
    if where and messages and all(one.get("each") == _EVERY for one in messages):
        # What held for a row now holds for a message.
        made["messages"] = [{**one, "where": [*one.get("where", ()), *where]} for one in messages]
        del made["where"]
    return made


def _rewrite_layout(
    layout: MappingDocument,
    rewrite: _Rewrite,
    rewrite_text: Callable[[Json], Json],
    rewrite_message: _RewriteLayout,
) -> MappingDocument:
    by_key: dict[str, Callable[[Json], Json]] = {
        **dict.fromkeys(("system", "tools"), lambda value: _rewrite_value(value, rewrite)),
        "text": rewrite_text,
        "meta": lambda meta: {key: _rewrite_value(one, rewrite) for key, one in meta.items()},
        "messages": lambda messages: list(map(rewrite_message, messages)),
        "where": lambda where: [_with_path(one, rewrite) for one in where],
    }
    return {key: by_key[key](one) if one and key in by_key else one for key, one in layout.items()}


def _enter_message(message: MappingDocument) -> MappingDocument:
    if message.get("each"):
        return _with_each(message, _below(_EVERY))
    content = message["content"]
    if isinstance(content, str) and ("[*]" in content or ".*" in content):  # the short form
        return _message_paths(message, _below(_EVERY))
    return {"each": _EVERY, **message}


def _leave_message(message: MappingDocument) -> MappingDocument:
    if message.get("each") == _EVERY:
        return {key: value for key, value in message.items() if key != "each"}
    if message.get("each"):
        return _with_each(message, _above)
    return _message_paths(message, _above)


def _message_paths(message: MappingDocument, rewrite: _Rewrite) -> MappingDocument:
    made = {**message, "content": _rewrite_value(message["content"], rewrite)}
    if isinstance(message["role"], dict) and "path" in message["role"]:
        made["role"] = _with_path(message["role"], rewrite)
    if not isinstance(message.get("loss_mask"), bool | None):
        made["loss_mask"] = _rewrite_value(message["loss_mask"], rewrite)
    if message.get("where"):
        made["where"] = [_with_path(one, rewrite) for one in message["where"]]
    return made


def _with_each(document: MappingDocument, rewrite: _Rewrite) -> MappingDocument:
    each = document.get("each")
    if not each:
        return dict(document)
    made = rewrite(each) if isinstance(each, str) else list(map(rewrite, each))
    return {**document, "each": made}


def _with_path(document: MappingDocument, rewrite: _Rewrite) -> MappingDocument:
    """Rewrite the path of a condition or role, which may be a lookup."""
    return {**document, "path": _rewrite_value(document["path"], rewrite)}


def _value_of_rows(value: Json) -> Json:
    """Return a value of a row as the texts of all rows of the group."""
    if isinstance(value, str):
        return _below(_EVERY)(value)
    if isinstance(value, list):
        return {"concat": value, "each": _EVERY}
    if any(key in value for key in ("literal", "each", *PICKING_KEYS)):
        return _rewrite_value(value, _below(_EVERY))
    return {**({"path": value} if "lookup" in value else value), "each": _EVERY}


def _rewrite_value(value: Json, rewrite: _Rewrite) -> Json:
    """Rewrite the paths of a value that start where it stands."""
    if isinstance(value, str):
        return rewrite(value)
    if isinstance(value, list):
        return [_rewrite_value(one, rewrite) for one in value]
    if not isinstance(value, dict) or "literal" in value:
        return value
    made = dict(value)
    for key in value.keys() & {*PICKING_KEYS}:
        made[key] = _rewrite_value(value[key], rewrite)
    if value.get("each") == _EVERY and rewrite is _above:
        del made["each"]
        return made
    if value.get("each"):
        return _with_each(made, rewrite)
    for key in ("lookup", "of", *PATH_KEYS):
        if key in value and key not in PICKING_KEYS:
            made[key] = _rewrite_value(value[key], rewrite)
    if "template" in value:
        pieces = split_template(value["template"])
        pieces[1::2] = [f"{{{{{rewrite(path)}}}}}" for path in pieces[1::2]]
        made["template"] = "".join(pieces)
    return made
