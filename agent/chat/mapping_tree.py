"""A mapping as a tree: its targets, their parts, and in how many rows their fields are found.

The same tree is drawn for people and told to a model, so that both name parts by the same numbers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ingot.agent.chat.edits import value_parts
from ingot.agent.reporting.preview import plain_text, value_text
from ingot.agent.review.diff.part_texts import condition_text
from ingot.agent.state import Check
from ingot.converters.mapping.check import PathCoverage
from ingot.converters.rows import Json

Document = dict[str, Json]


@dataclass(frozen=True, kw_only=True, slots=True)
class RowCount:
    """In how many of the sampled rows the fields of a branch are found: the least of them."""

    rows: int
    of: int

    def __str__(self) -> str:
        return f"{self.rows}/{self.of} rows"


@dataclass(frozen=True, kw_only=True, slots=True)
class Branch:
    """One line of the tree.

    Attributes:
        label: what it is: `text`, `message 1: user`, `part 2`, `where`.
        text: what is taken, in words; "" where the branches below say it.
        found: how often its own fields are found, None where it has none.
        below: the branches below it.
    """

    label: str
    text: str = ""
    found: RowCount | None = None
    below: tuple["Branch", ...] = ()


def mapping_branches(document: Document, check: Check | None) -> tuple[Branch, ...]:
    """The branches of a mapping document."""
    coverage = _CoverageLookup(check.paths if check else ())
    made = [
        Branch(label=f"source.{key}", text=plain_text(value))
        for key, value in (document.get("source") or {}).items()
    ]
    if group := document.get("group"):
        sort = f", sorted by {group['sort']}" if group.get("sort") else ""
        text = f"rows with equal {' + '.join(group['by'])}{sort}"
        made.append(Branch(label="group", text=text, found=coverage.at("/group")))
    made += _layout_branches(document, "", coverage)
    for number, variant in enumerate(document.get("any_of") or [], start=1):
        below = tuple(_layout_branches(variant, f"/any_of/{number - 1}", coverage))
        made.append(Branch(label=f"alternative {number}", below=below))
    return tuple(made)


class _CoverageLookup:
    """Rows in which what stands at or below a place of the mapping is found."""

    def __init__(self, paths: Sequence[PathCoverage]) -> None:
        self._paths = paths

    def at(self, pointer: str) -> RowCount | None:
        below = [one for one in self._paths if f"{one.pointer}/".startswith(f"{pointer}/")]
        found = [
            RowCount(rows=one.resolved, of=one.resolved + one.null + one.missing) for one in below
        ]
        return min(found, key=lambda one: one.rows, default=None)


def _layout_branches(layout: Document, pointer: str, coverage: _CoverageLookup) -> Iterator[Branch]:
    if layout.get("each"):
        found = coverage.at(f"{pointer}/each")
        yield Branch(label="each", text=f"one record per {layout['each']}", found=found)
    for number, one in enumerate(layout.get("where") or []):
        found = coverage.at(f"{pointer}/where/{number}")
        yield Branch(label="where", text=condition_text(one), found=found)
    if layout.get("text") is not None:
        yield _value_branch("text", layout["text"], f"{pointer}/text", coverage)
    for number, message in enumerate(layout.get("messages") or []):
        yield _message_branch(number, message, f"{pointer}/messages/{number}", coverage)
    for key in ("system", "tools"):
        if layout.get(key) is not None:
            yield _value_branch(key, layout[key], f"{pointer}/{key}", coverage)
    for key, value in (layout.get("meta") or {}).items():
        if value is not None:
            yield _value_branch(f"meta.{key}", value, f"{pointer}/meta/{key}", coverage)


def _value_branch(label: str, value: Json, pointer: str, coverage: _CoverageLookup) -> Branch:
    """A value as one line, or with a branch for each of several parts."""
    parts = value_parts(value)
    if len(parts) == 1:
        return Branch(label=label, text=value_text(parts[0]), found=coverage.at(pointer))
    return Branch(label=label, below=tuple(_part_branches(parts, pointer, coverage)))


def _part_branches(
    parts: Sequence[Json], pointer: str, coverage: _CoverageLookup
) -> Iterator[Branch]:
    for number, part in enumerate(parts):
        found = coverage.at(f"{pointer}/{number}")
        yield Branch(label=f"part {number + 1}", text=value_text(part), found=found)


def _message_branch(
    number: int, message: Document, pointer: str, coverage: _CoverageLookup
) -> Branch:
    role, mask = message["role"], message.get("loss_mask")
    below = []
    if each := message.get("each"):
        walked = each if isinstance(each, str) else " with ".join(each)
        found = coverage.at(f"{pointer}/each")
        below.append(Branch(label="each", text=walked, found=found))
    if isinstance(role, dict):
        below += _name_branches(role)
    parts = value_parts(message.get("content"))
    below += _part_branches(parts, f"{pointer}/content", coverage) if len(parts) > 1 else []
    if mask is not None:
        below.append(Branch(label="trained", text=_mask_label(mask)))
    one = len(parts) == 1
    return Branch(
        label=f"message {number + 1}: {_role_label(role)}",
        text=value_text(parts[0]) if one else "" if parts else "nothing",
        found=coverage.at(f"{pointer}/content") if one else None,
        below=tuple(below),
    )


def _role_label(role: Json) -> str:
    if isinstance(role, str):
        return role
    if isinstance(role, list):
        return " and ".join(map(str, role)) + " in turn"
    return "roles by marker" if "split" in role else f"role by {role['path']}"


def _name_branches(role: Document) -> Iterator[Branch]:
    for name, meaning in (role.get("split") or role.get("map") or {}).items():
        yield Branch(label=plain_text(name), text="left out" if meaning is None else str(meaning))


def _mask_label(mask: Json) -> str:
    if isinstance(mask, bool):
        return "yes" if mask else "no"
    return f"as {value_text(mask)} says"
