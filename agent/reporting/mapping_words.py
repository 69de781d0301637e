"""A mapping in words: one walk over its parts, used by preview, chat and review.

What is shown or kept of the words is redacted here.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as Table
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, NewType

from ingot.agent.privacy import Redactor, Safe
from ingot.agent.state import Check
from ingot.converters.json_yaml import shorten_text
from ingot.converters.mapping.check import PathReach
from ingot.converters.mapping.documents.writer import part_document, template_text
from ingot.converters.mapping.language import (
    Condition,
    Group,
    Layout,
    Mapping,
    Message,
    MessageRole,
    RoleFromData,
    RoleInTurn,
    RoleSplit,
    Scalar,
    Value,
    speaker_roles,
)
from ingot.converters.mapping.lookup import Lookup
from ingot.converters.mapping.walk import (
    MappingPart,
    layout_parts,
    mapping_layouts,
    outer_parts,
    value_parts,
    walk,
)
from ingot.converters.paths import Path

if TYPE_CHECKING:
    from ingot.agent.judging.trial import Trial
    from ingot.converters.sources import SourceFile

LONGEST = 240  # characters of a part in one line
_LISTS = ("list", "values")  # layouts of files that hold several rows


# --- parts in words


def describe(mapping: Mapping) -> Iterator[tuple[str, str]]:
    """Describe a mapping line by line: (target, where it comes from)."""
    yield from map(_target_and_source, outer_parts(mapping))
    for number, (_, layout) in enumerate(mapping_layouts(mapping)):
        for part in layout_parts(layout):
            target, source = _target_and_source(part)
            yield f"alternative {number}: {target}" if number else target, source


def mapping_lines(mapping: Mapping, redactor: Redactor) -> Iterator[tuple[Safe, Safe]]:
    """Yield the lines of `describe` as they may be shown: speakers may be addresses."""
    hide = _hide_words(mapping, redactor)
    yield from ((hide(target), hide(source)) for target, source in describe(mapping))


def _hide_words(mapping: Mapping, redactor: Redactor) -> Callable[[str], Safe]:
    """Hide by a redactor, and before it what a mapping names beside the name of a secret."""
    named = Redactor(redactor.share, list(_named_values(mapping)))
    return lambda text: redactor.text(named.text(text))


def _named_values(mapping: Mapping) -> Iterator[dict[str, list[list[Scalar]]]]:
    """The values of the data that conditions and tables of a mapping name, by their field."""
    named: list[tuple[Path | None, list[Scalar]]] = [
        *((one.path, [*one.values]) for one in walk(mapping, Condition)),
        *((one.path, [*(one.map or ())]) for one in walk(mapping, Value)),
        *((one.path, [*(one.map or ())]) for one in walk(mapping, RoleFromData)),
    ]
    for path, values in named:
        if values and path and not isinstance(path, Lookup):
            yield {re.split(r"[.\[]", path.text)[-1]: [values]}


def _target_and_source(part: MappingPart) -> tuple[str, str]:
    if not isinstance(part.value, Message):
        return part.key, cut_text(part_text(part))
    names = _names_of_role(part.value.role)
    return _role_label(part.value.role), part_text(part) + (f" ({names})" if names else "")


def part_text(part: MappingPart) -> str:
    """Say where the value of a part comes from; of a message without its role."""
    if isinstance(part.value, Group):
        return group_text(part.value)
    if isinstance(part.value, Condition):
        return condition_text(part.value)
    if isinstance(part.value, Message):
        return _message_content(part.value)
    if isinstance(part.value, Value):
        return value_text(part.value)
    if part.key == "each":
        return f"one record per {' with '.join(_joined_texts(part.value))}"
    return fact_text(part_document(part.value))


def layout_text(layout: Layout) -> str:
    """Describe a whole alternative in one line."""
    return "; ".join(map(_part_line, layout_parts(layout))) or "nothing"


def _part_line(part: MappingPart) -> str:
    if isinstance(part.value, Message):
        return message_text(part.value)
    if part.key == "each":
        return part_text(part)
    return f"{part.key}{' ' if part.key == 'where' else ': '}{part_text(part)}"


def message_text(message: Message) -> str:
    """Describe an entry of `messages`."""
    return f"{role_text(message.role)}: {_message_content(message)}"


def _message_content(message: Message) -> str:
    words = [value_text(message.content) if message.content else "nothing"]
    if message.each:
        words.append(f"for each {each_text(message.each)}")
    if message.where:
        words.append(f"where {conditions_text(message.where)}")
    if message.loss_mask is not None:
        words.append(f"(loss_mask {mask_text(message.loss_mask)})")
    return " ".join(words)


def role_text(role: MessageRole) -> str:
    """Describe a role: fixed, in turn, read from the data, or by markers."""
    names = _names_of_role(role)
    return f"{_role_label(role)} ({names})" if names else _role_label(role)


def _role_label(role: MessageRole) -> str:
    if isinstance(role, RoleInTurn):
        return f"{' / '.join(role.roles)} in turn"
    if isinstance(role, RoleFromData):
        return f"role by {place_text(role.path)}"
    return "roles by marker" if isinstance(role, RoleSplit) else role


def _names_of_role(role: MessageRole) -> str:
    if isinstance(role, RoleFromData) and role.order:
        return f"{', then '.join(role.order)} by first message"
    return pairs_text(speaker_roles(role))


def mask_text(mask: bool | Value) -> str:
    """Describe a loss mask."""
    return str(mask).lower() if isinstance(mask, bool) else value_text(mask)


def each_text(each: Sequence[Path]) -> str:
    """Describe an `each` of one path, or of paths walked in step."""
    return " with ".join(path.text for path in each)


def group_text(group: Group) -> str:
    """Describe how rows are grouped."""
    sort = f", sorted by {group.sort.text}" if group.sort else ""
    return f"rows with equal {' + '.join(path.text for path in group.by)}{sort}"


def condition_text(condition: Condition) -> str:
    """Describe one condition of `where`."""
    path = place_text(condition.path)
    if condition.op in ("min_chars", "max_chars"):
        least = "least" if condition.op == "min_chars" else "most"
        return f"{path} has at {least} {condition.limit} characters"
    wanted = "" if condition.op == "in" else "not "
    many = "one of " if len(condition.values) > 1 else ""
    values = (repr(one) if isinstance(one, str) else json.dumps(one) for one in condition.values)
    return f"{path} is {wanted}{many}{', '.join(values)}"


def place_text(path: Path) -> str:
    """Describe a path, or a lookup in its place."""
    if not isinstance(path, Lookup):
        return path.text
    place = {name: part.text for name, part in path.parts.items()}
    found = f"{place['take']} of the element of {place['lookup']}"
    return f"{found} whose {place['key']} equals {place['of']}"


def conditions_text(where: Sequence[Condition]) -> str:
    """Describe conditions that all have to hold."""
    return " and ".join(map(condition_text, where))


def fact_text(fact: str | Sequence[str | int]) -> str:
    """Describe a fact about the files; blanks and characters that cannot be seen are quoted."""
    if not isinstance(fact, str):
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


def record_words(trial: "Trial") -> str:
    """Say what one record is made of, and how many of these the sample holds."""
    report, spec, files = trial.report, trial.source.spec, trial.source.files
    each = [one.each for _, one in mapping_layouts(trial.mapping) if one.each]
    count = report.records if each else report.rows
    if each:
        unit = f"one element of {' or '.join(dict.fromkeys(map(each_text, each)))}"
    elif trial.mapping.group:
        unit = f"all {group_text(trial.mapping.group)}"
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


def value_text(value: Value) -> str:
    """Describe a value of the mapping language."""
    return " ".join([_form_text(value), *_modifier_texts(value)])


def _form_text(value: Value) -> str:
    if value.kind == "literal":
        return f"always {plain_text(value.literal)}"
    if value.kind == "template":
        return f"template {plain_text(template_text(value))}"
    if value.tree:
        said = f"{value_text(value.tree.text)} of each node of the tree {value.tree.path.text}"
        children, depth = value.tree.children.text, value.tree.depth
        return f"{said} (children {children}, at most {depth} levels)"
    if value.path:
        return place_text(value.path)
    parts = list(map(value_text, value.parts))
    return f"first of {', '.join(parts)}" if value.kind == "any_of" else " + ".join(parts)


def _modifier_texts(value: Value) -> Iterator[str]:
    stated = value.modifiers()
    for one in sorted(stated, key=lambda one: one.kind in ("flag", "plain")):
        yield one.words.format(one.word or _stated_text(stated[one]))


def _stated_text(stated: Value | Table[str, Scalar] | tuple[Path, ...] | str | int) -> str:
    if isinstance(stated, Value):
        return value_text(stated)
    if isinstance(stated, tuple):
        return each_text(stated)
    if isinstance(stated, Table):
        return pairs_text(stated)
    return plain_text(stated)


def pairs_text(table: Table[str, Scalar]) -> str:
    """Describe the entries of a map or of markers."""
    return ", ".join(
        f"{key!r} → {'left out' if to is None else plain_text(to)}" for key, to in table.items()
    )


def plain_text(value: Scalar) -> str:
    """Show a value of any kind in one short line: names bare, all else as JSON, cut at 120."""
    if isinstance(value, str) and value.isidentifier():
        return shorten_text(value, 120, "...")
    text = json.dumps(value, ensure_ascii=False)
    return shorten_text(text, 120, "...")


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
    mapping: Mapping, check: Check | None, redactor: Redactor
) -> tuple[SafeBranch, ...]:
    """Draw a mapping as a tree, with the rows that have its fields; models get the same one."""
    paths = check.paths if check else ()
    branches = [_part_branch(part, paths) for part in outer_parts(mapping)]
    for number, (pointer, layout) in enumerate(mapping_layouts(mapping)):
        below = [_part_branch(part, paths) for part in layout_parts(layout, pointer)]
        branches += [Branch(label=f"alternative {number}", below=tuple(below))] if number else below
    hide = _hide_words(mapping, redactor)
    return tuple(_shown_branch(one, hide) for one in branches)


def _shown_branch(one: Branch, hide: Callable[[str], Safe]) -> SafeBranch:
    below = tuple(_shown_branch(each, hide) for each in one.below)
    return SafeBranch(replace(one, label=hide(one.label), text=hide(one.text), below=below))


def _part_branch(part: MappingPart, paths: Sequence[PathReach]) -> Branch:
    """Draw a part as one line, or with a branch for each of several values that it joins."""
    if isinstance(part.value, Message):
        return _message_branch(part.value, part.pointer, paths)
    if len(texts := _joined_texts(part.value)) > 1:
        return Branch(label=part.key, below=tuple(_text_branches(texts, part.pointer, paths)))
    return Branch(label=part.key, text=part_text(part), found=_row_count(paths, part.pointer))


def _joined_texts(value: object) -> list[str]:
    """Describe each of the values that one joins, or of the paths that are walked in step."""
    if isinstance(value, tuple):
        return [one.text for one in value if isinstance(one, Path)]
    return list(map(value_text, value_parts(value))) if isinstance(value, Value) else []


def _text_branches(
    texts: Sequence[str], pointer: str, paths: Sequence[PathReach]
) -> Iterator[Branch]:
    for number, text in enumerate(texts):
        found = _row_count(paths, f"{pointer}/{number}")
        yield Branch(label=f"part {number + 1}", text=text, found=found)


def _message_branch(message: Message, pointer: str, paths: Sequence[PathReach]) -> Branch:
    role, mask, number = message.role, message.loss_mask, int(pointer.rpartition("/")[2])
    content = f"{pointer}/content"
    texts = _joined_texts(message.content)
    below = []
    if message.each:
        found = _row_count(paths, f"{pointer}/each")
        below.append(Branch(label="each", text=each_text(message.each), found=found))
    if message.where:
        below.append(Branch(label="where", text=conditions_text(message.where)))
    for name, to in speaker_roles(role).items():
        below.append(Branch(label=plain_text(name), text="left out" if to is None else to))
    if isinstance(role, RoleFromData) and role.order:
        below.append(Branch(label="order", text=_names_of_role(role)))
    below += _text_branches(texts, content, paths) if len(texts) > 1 else []
    if mask is not None:
        usual = {True: "yes", False: "no"}
        trained = usual[mask] if isinstance(mask, bool) else f"as {value_text(mask)} says"
        below.append(Branch(label="trained", text=trained))
    return Branch(
        label=f"message {number + 1}: {_role_label(role)}",
        text="" if len(texts) > 1 else texts[0] if texts else "nothing",
        found=_row_count(paths, content) if len(texts) == 1 else None,
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
