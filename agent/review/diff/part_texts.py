"""Parts of a mapping document in words, and two of them so that their difference is seen.

Literals and maps are quoted as the preview quotes them. Nothing is redacted here: whoever shows the
words does that.
"""

import json
from collections.abc import Callable

from ingot.agent.reporting.preview import shorten_text, value_text
from ingot.converters.rows import Json

MOST = 240  # characters
_BEFORE, _WINDOW = 40, 120


def contrast_texts(old: Json, new: Json, words: Callable[[Json], str]) -> tuple[str, str]:
    """Two different parts in words, cut; where they begin alike, from where they differ."""
    before, after = words(old), words(new)
    if before == after:
        before, after = map(_leaf_text, _first_difference(old, new))
    if before[:MOST] == after[:MOST]:
        start = max(0, _common_length(before, after) - _BEFORE)
        return _window(before, start), _window(after, start)
    return shorten_text(before, MOST), shorten_text(after, MOST)


def contrast_optional_texts(
    old: Json, new: Json, words: Callable[[Json], str]
) -> tuple[str | None, str | None]:
    """As `compared`, where one of the two may be None: not there."""
    if old is not None and new is not None:
        return contrast_texts(old, new, words)
    before, after = (None if part is None else shorten_part(words(part)) for part in (old, new))
    return before, after


def _first_difference(old: Json, new: Json) -> tuple[Json, Json]:
    """The innermost parts, at the same place of both, that differ first."""
    while True:
        if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
            pairs = [(old[key], new[key]) for key in old]
        elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
            pairs = list(zip(old, new, strict=True))
        else:
            return old, new
        old, new = next((o, n) for o, n in pairs if _leaf_text(o) != _leaf_text(n))


def _leaf_text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _common_length(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _window(text: str, start: int) -> str:
    end = start + _WINDOW
    return f"{'...' if start else ''}{text[start:end]}{'...' if end < len(text) else ''}"


def shorten_part(text: str) -> str:
    """Words of a bearable length."""
    return shorten_text(text, MOST)


def quote_literal(value: Json) -> str:
    """A literal value: text in quotes, the rest as JSON spells it."""
    return repr(value) if isinstance(value, str) else json.dumps(value)


def pairs_text(table: dict[str, Json]) -> str:
    """Entries of a map or of markers."""
    return ", ".join(f"{key!r} → {_mapped_text(to)}" for key, to in table.items())


def _mapped_text(to: Json) -> str:
    if to is None:
        return "left out"
    return to if isinstance(to, str) and to.isidentifier() else quote_literal(to)


def each_text(each: Json) -> str:
    """An `each` of one path, or of paths walked in step."""
    return each if isinstance(each, str) else " with ".join(each)


def condition_text(condition: dict[str, Json]) -> str:
    """One condition of `where`."""
    path = condition["path"]
    if "min_chars" in condition:
        return f"{path} has at least {condition['min_chars']} characters"
    if "max_chars" in condition:
        return f"{path} has at most {condition['max_chars']} characters"
    wanted = "in" in condition
    values = condition["in" if wanted else "not_in"]
    many = "one of " if len(values) > 1 else ""
    return f"{path} is {'' if wanted else 'not '}{many}{', '.join(map(quote_literal, values))}"


def role_text(role: Json) -> str:
    """A role: fixed, in turn, read from the data, or by markers."""
    if isinstance(role, str):
        return role
    if isinstance(role, list):
        return f"{' / '.join(role)} in turn"
    if "split" in role:
        return f"by marker ({pairs_text(role['split'])})"
    return f"by {value_text(role)}"


def mask_text(mask: Json) -> str:
    """A loss mask."""
    return str(mask).lower() if isinstance(mask, bool) else value_text(mask)


def message_text(message: dict[str, Json]) -> str:
    """An entry of `messages`."""
    parts = [f"{role_text(message['role'])}: {_content(message)}"]
    if "each" in message:
        parts.append(f"for each {each_text(message['each'])}")
    if "loss_mask" in message:
        parts.append(f"loss_mask {mask_text(message['loss_mask'])}")
    return ", ".join(parts)


def _content(message: dict[str, Json]) -> str:
    return "nothing" if message["content"] is None else value_text(message["content"])


def layout_text(layout: dict[str, Json]) -> str:
    """A whole alternative."""
    parts = [f"one record per {layout['each']}"] if "each" in layout else []
    parts += [f"where {condition_text(condition)}" for condition in layout.get("where", [])]
    parts += [message_text(message) for message in layout.get("messages", [])]
    parts += [f"{k}: {value_text(layout[k])}" for k in ("text", "system", "tools") if k in layout]
    parts += [f"meta.{key}: {value_text(value)}" for key, value in layout.get("meta", {}).items()]
    return "; ".join(parts) or "nothing"


def group_text(group: dict[str, Json]) -> str:
    """How rows are grouped."""
    sort = f", sorted by {group['sort']}" if "sort" in group else ""
    return f"rows with equal {' + '.join(group['by'])}{sort}"


def fact_text(stated: Json) -> str:
    """A fact about the files."""
    if isinstance(stated, list):
        return ", ".join(stated)
    return stated if stated and stated.isprintable() and not stated.isspace() else repr(stated)
