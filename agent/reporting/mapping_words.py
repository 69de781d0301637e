"""A mapping document in words: one walk over its parts, used by preview, chat and review.

What is shown or kept of the words is redacted here.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, NewType

from ingot.agent.privacy import Door, Safe
from ingot.agent.proposing.proposal import MappingPart, document_layouts, layout_parts, outer_parts
from ingot.agent.state import Check
from ingot.converters.json_yaml import shorten_text
from ingot.converters.mapping.check import PathReach
from ingot.converters.mapping.language import MODIFIERS, ModifierKind
from ingot.converters.rows import Json, MappingDocument

if TYPE_CHECKING:
    from ingot.agent.judging.trial import Trial
    from ingot.converters.sources import SourceFile

LONGEST = 240  # characters of a part in one line
_LISTS = ("list", "values")  # layouts of files that hold several rows


# --- parts in words


def describe(document: MappingDocument) -> Iterator[tuple[str, str]]:
    """Describe a mapping document line by line: (target, where it comes from)."""
    yield from map(_target_and_source, outer_parts(document))
    for number, (_, layout) in enumerate(document_layouts(document)):
        for part in layout_parts(layout):
            target, source = _target_and_source(part)
            yield f"alternative {number}: {target}" if number else target, source


def mapping_lines(document: MappingDocument, door: Door) -> Iterator[tuple[Safe, Safe]]:
    """Yield the lines of `describe` as they may be shown: speakers may be addresses."""
    hide = _hide_words(document, door)
    yield from ((hide(target), hide(source)) for target, source in describe(document))


def _hide_words(document: Json, door: Door) -> Callable[[str], Safe]:
    """The door, and before it one that knows what a mapping names beside the name of a secret."""
    named = Door(door.share, list(_named_values(document)))
    return lambda text: door.text(named.text(text))


def _named_values(value: Json) -> Iterator[Json]:
    """The values of the data that conditions and tables of a mapping name, by their field."""
    if isinstance(value, dict):
        named = [*(value[key] for key in ("in", "not_in", "equals") if key in value)]
        named += [[*value["map"]]] if isinstance(value.get("map"), dict) else []
        if isinstance(value.get("path"), str) and named:
            yield {re.split(r"[.\[]", value["path"])[-1]: named}
        value = [*value.values()]
    for one in value if isinstance(value, list) else ():
        yield from _named_values(one)


def _target_and_source(part: MappingPart) -> tuple[str, str]:
    if part.key != "messages":
        return part.key, cut_text(part_text(part))
    names = _names_of_role(part.value["role"])
    return _role_label(part.value["role"]), part_text(part) + (f" ({names})" if names else "")


def part_text(part: MappingPart) -> str:
    """Say where the value of a part comes from; of a message without its role."""
    if part.key == "group":
        return group_text(part.value)
    if part.key == "each":
        return f"one record per {each_text(part.value)}"
    if part.key == "where":
        return condition_text(part.value)
    if part.key == "messages":
        return _message_content(part.value)
    return fact_text(part.value) if part.key.startswith("source.") else value_text(part.value)


def layout_text(layout: MappingDocument) -> str:
    """Describe a whole alternative in one line."""
    return "; ".join(map(_part_line, layout_parts(layout))) or "nothing"


def _part_line(part: MappingPart) -> str:
    if part.key == "messages":
        return message_text(part.value)
    if part.key == "each":
        return part_text(part)
    return f"{part.key}{' ' if part.key == 'where' else ': '}{part_text(part)}"


def message_text(message: MappingDocument) -> str:
    """Describe an entry of `messages`."""
    return f"{role_text(message['role'])}: {_message_content(message)}"


def _message_content(message: MappingDocument) -> str:
    content = message["content"]
    words = ["nothing" if content is None else value_text(content)]
    if message.get("each"):
        words.append(f"for each {each_text(message['each'])}")
    if message.get("where"):
        words.append(f"where {conditions_text(message['where'])}")
    if message.get("loss_mask") is not None:
        words.append(f"(loss_mask {mask_text(message['loss_mask'])})")
    return " ".join(words)


def role_text(role: Json) -> str:
    """Describe a role: fixed, in turn, read from the data, or by markers."""
    names = _names_of_role(role)
    return f"{_role_label(role)} ({names})" if names else _role_label(role)


def _role_label(role: Json) -> str:
    if isinstance(role, str):
        return role
    if isinstance(role, list):
        return f"{' / '.join(role)} in turn"
    return "roles by marker" if "split" in role else f"role by {place_text(role['path'])}"


def _names_of_role(role: Json) -> str:
    if not isinstance(role, dict):
        return ""
    if "order" in role:
        return f"{', then '.join(role['order'])} by first message"
    return pairs_text(role.get("split") or role.get("map") or {})


def mask_text(mask: Json) -> str:
    """Describe a loss mask."""
    return str(mask).lower() if isinstance(mask, bool) else value_text(mask)


def each_text(each: Json) -> str:
    """Describe an `each` of one path, or of paths walked in step."""
    return each if isinstance(each, str) else " with ".join(each)


def group_text(group: MappingDocument) -> str:
    """Describe how rows are grouped."""
    sort = f", sorted by {group['sort']}" if group.get("sort") else ""
    return f"rows with equal {' + '.join(group['by'])}{sort}"


def condition_text(condition: MappingDocument) -> str:
    """Describe one condition of `where`."""
    path = place_text(condition["path"])
    for key, least in (("min_chars", "least"), ("max_chars", "most")):
        if key in condition:
            return f"{path} has at {least} {condition[key]} characters"
    wanted = "in" in condition
    values = condition["in" if wanted else "not_in"]
    many = "one of " if len(values) > 1 else ""
    literals = (repr(one) if isinstance(one, str) else json.dumps(one) for one in values)
    return f"{path} is {'' if wanted else 'not '}{many}{', '.join(literals)}"


def place_text(path: Json) -> str:
    """Describe a path, or a lookup in its place."""
    if isinstance(path, str):
        return path
    found = f"{path['take']} of the element of {path['lookup']}"
    return f"{found} whose {path['key']} equals {path['of']}"


def conditions_text(where: Sequence[MappingDocument]) -> str:
    """Describe conditions that all have to hold."""
    return " and ".join(map(condition_text, where))


def fact_text(fact: Json) -> str:
    """Describe a fact about the files; blanks and characters that cannot be seen are quoted."""
    if isinstance(fact, list):
        return ", ".join(map(str, fact))
    return fact if fact and fact.isprintable() and not fact.isspace() else repr(fact)


# What a record is made of, where no list, no `each` and no `group` says it, by format.
_TABLE, _FILE = "row of a table", "whole FILE"
_ROW_WORDS = {
    **dict.fromkeys(("csv", "parquet", "lance", "arrow", "avro", "feather", "orc"), _TABLE),
    **dict.fromkeys(("duckdb", "sqlite"), _TABLE),
    **dict.fromkeys(("document", "chat_tree"), _FILE),
    **{"jsonl": "line of JSON", "text": "LINE of a file", "excel": "row of a sheet"},
    **{"json": "element of a list", "chapters": "chapter of a file", "xml": "element"},
    **{"mbox": "message", "eml": "message", "warc": "page"},
}


def record_words(document: MappingDocument, trial: "Trial") -> str:
    """Say what one record is made of, and how many of these the sample holds."""
    report, spec, files = trial.report, trial.source.spec, trial.source.files
    each = [one["each"] for _, one in document_layouts(document) if one.get("each")]
    count = report.records if each else report.rows
    if each:
        unit = f"one element of {' or '.join(dict.fromkeys(map(each_text, each)))}"
    elif group := document.get("group"):
        unit = f"all {group_text(group)}"
    elif spec.root and spec.root not in ("$", "[*]"):
        unit = f"one element of {spec.root}"
    else:
        unit = f"one {_row_word(files, whole=spec.root == '$')}"
    return f"a record is {unit} ({count:,} in the sample)"


def _row_word(files: "Sequence[SourceFile]", *, whole: bool) -> str:
    """What a row of some files is called; of files of several formats it is a row."""
    words = {
        _FILE
        if whole or (one.facts.format in ("json", "text") and one.facts.layout not in _LISTS)
        else _ROW_WORDS.get(one.facts.format, "row")
        for one in files
    }
    return words.pop() if len(words) == 1 else "row"


# --- values in words


def value_text(value: Json) -> str:
    """Describe a value of the mapping language."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return " + ".join(map(value_text, value))
    if "lookup" in value:
        return place_text(value)
    return " ".join([_form_text(value), *_modifier_texts(value)])


def _form_text(value: MappingDocument) -> str:
    if "literal" in value:
        return f"always {plain_text(value['literal'])}"
    if "template" in value:
        return f"template {plain_text(value['template'])}"
    if "any_of" in value:
        return "first of " + ", ".join(map(value_text, value["any_of"]))
    if "tree" in value:
        text = f"{value_text(value['text'])} of each node of the tree {value['tree']}"
        return f"{text} (children {value['children']}, at most {value['depth']} levels)"
    return value_text(value["concat"]) if "concat" in value else place_text(value["path"])


def _modifier_texts(value: MappingDocument) -> Iterator[str]:
    for one in sorted(MODIFIERS, key=lambda one: one.kind == "plain"):
        stated = value.get(one.key)
        if stated or stated == "":
            yield one.words.format(_STATED_TEXTS[one.kind](stated))


def value_parts(value: Json) -> list[Json]:
    """List the parts that a value joins by line breaks."""
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]


def pairs_text(table: MappingDocument) -> str:
    """Describe the entries of a map or of markers."""
    return ", ".join(
        f"{key!r} → {'left out' if to is None else plain_text(to)}" for key, to in table.items()
    )


def plain_text(value: Json) -> str:
    """Show a value of any kind in one short line: names bare, all else as JSON, cut at 120."""
    bare = isinstance(value, str) and value.isidentifier()
    text = value if bare else json.dumps(value, ensure_ascii=False)
    return shorten_text(text, 120, "...")


_STATED_TEXTS: dict[ModifierKind, Callable[[Json], str]] = {
    **{"each": each_text, "value": value_text, "plain": plain_text},
    **{"map": pairs_text, "texts": pairs_text},
}


def cut_text(text: str, most: int = LONGEST) -> str:
    """Cut a text to its beginning, and say how much is left out."""
    left_out = len(text) - most
    return text if left_out <= 0 else f"{text[:most]} ...(+{left_out} characters)"


def common_length(one: Sequence[str], other: Sequence[str]) -> int:
    """Count the characters, or texts, with which both begin."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


# --- the mapping as a tree


class RowCount(NamedTuple):
    """In how many of the sampled rows the fields of a branch are found: the least of them."""

    rows: int
    of: int

    def __str__(self) -> str:
        return f"{self.rows}/{self.of} rows"


@dataclass(frozen=True, kw_only=True, slots=True)
class Branch:
    """One line of the tree: `message 1: user`, what is taken ("" = see below), how often found."""

    label: str
    text: str = ""
    found: RowCount | None = None
    below: tuple["Branch", ...] = ()


SafeBranch = NewType("SafeBranch", Branch)


def mapping_branches(
    document: MappingDocument, check: Check | None, door: Door
) -> tuple[SafeBranch, ...]:
    """Draw a mapping as a tree, with the rows that have its fields; models get the same one."""
    paths = check.paths if check else ()
    branches = [_part_branch(part, paths) for part in outer_parts(document)]
    for number, (pointer, layout) in enumerate(document_layouts(document)):
        below = [_part_branch(part, paths) for part in layout_parts(layout, pointer)]
        branches += [Branch(label=f"alternative {number}", below=tuple(below))] if number else below
    hide = _hide_words(document, door)
    return tuple(_shown_branch(one, hide) for one in branches)


def _shown_branch(one: Branch, hide: Callable[[str], Safe]) -> SafeBranch:
    below = tuple(_shown_branch(each, hide) for each in one.below)
    return SafeBranch(replace(one, label=hide(one.label), text=hide(one.text), below=below))


def _part_branch(part: MappingPart, paths: Sequence[PathReach]) -> Branch:
    """Draw a part as one line, or with a branch for each of several values that it joins."""
    if part.key == "messages":
        return _message_branch(part, paths)
    if isinstance(part.value, list) and len(part.value) > 1 and not part.key.startswith("source."):
        return Branch(label=part.key, below=tuple(_value_branches(part, paths)))
    return Branch(label=part.key, text=part_text(part), found=_row_count(paths, part.pointer))


def _value_branches(part: MappingPart, paths: Sequence[PathReach]) -> Iterator[Branch]:
    for number, one in enumerate(value_parts(part.value)):
        found = _row_count(paths, f"{part.pointer}/{number}")
        yield Branch(label=f"part {number + 1}", text=value_text(one), found=found)


def _message_branch(part: MappingPart, paths: Sequence[PathReach]) -> Branch:
    message, number = part.value, int(part.pointer.rpartition("/")[2])
    role, mask = message["role"], message.get("loss_mask")
    content = MappingPart("content", f"{part.pointer}/content", message.get("content"))
    values = value_parts(content.value)
    below = []
    if each := message.get("each"):
        found = _row_count(paths, f"{part.pointer}/each")
        below.append(Branch(label="each", text=each_text(each), found=found))
    if where := message.get("where"):
        below.append(Branch(label="where", text=conditions_text(where)))
    names = (role.get("split") or role.get("map") or {}) if isinstance(role, dict) else {}
    for name, to in names.items():
        below.append(Branch(label=plain_text(name), text="left out" if to is None else str(to)))
    if isinstance(role, dict) and "order" in role:
        below.append(Branch(label="order", text=_names_of_role(role)))
    below += _value_branches(content, paths) if len(values) > 1 else []
    if mask is not None:
        usual = {True: "yes", False: "no"}
        trained = usual[mask] if isinstance(mask, bool) else f"as {value_text(mask)} says"
        below.append(Branch(label="trained", text=trained))
    return Branch(
        label=f"message {number + 1}: {_role_label(role)}",
        text="" if len(values) > 1 else value_text(content.value) if values else "nothing",
        found=_row_count(paths, content.pointer) if len(values) == 1 else None,
        below=tuple(below),
    )


def _row_count(paths: Sequence[PathReach], pointer: str) -> RowCount | None:
    """Count the rows in which all at or below a place is found, but children of trees: few are."""
    counts = [
        RowCount(one.resolved, one.resolved + one.null + one.missing)
        for one in paths
        if f"{one.pointer}/".startswith(f"{pointer}/") and not one.pointer.endswith("/children")
    ]
    return min(counts, key=lambda one: one.rows, default=None)
