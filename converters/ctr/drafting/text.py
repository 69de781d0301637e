"""A drafted featuremap as YAML, with the reasons beside the lines."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ingot.converters.ctr.drafting.profile import Sample
from ingot.converters.yaml_text import flow


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What becomes of a column.

    Attributes:
        column: its name.
        role: click | conversion | entity | sample | feature | left_out.
        why: the statistics that say so.
        feature: as the featuremap has it, None where it is none.
    """

    column: str
    role: str
    why: str
    feature: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Line:
    """A key of `table` with its value, and why."""

    key: str
    value: Any
    why: str


def written(path: str, sample: Sample, table: Sequence[Line], decisions: Sequence[Decision]) -> str:
    """The YAML of a draft.

    Args:
        path: of the table.
        sample: what was looked at.
        table: the lines of `table`.
        decisions: about its columns.
    """
    features = [one for one in decisions if one.feature is not None]
    left_out = [one for one in decisions if one.role == "left_out"]
    lines = [*_heading(path, sample), "table:"]
    lines += [_with(f"  {one.key}: {flow(one.value)}", one.why) for one in table]
    lines.append("features:")
    lines += [_with(f"  - {flow(one.feature)}", one.why) for one in features]
    if left_out:
        lines += [
            "# Left out:",
            *(f"#   {_comment(o.column)}: {_comment(o.why)}" for o in left_out),
        ]
    return "\n".join(lines) + "\n"


def _heading(path: str, sample: Sample) -> list[str]:
    part = "all of its" if sample.whole else "its first"
    name = path.rstrip("/").rpartition("/")[2]
    lines = [
        f"# Drafted by `ingot ctr draft` from {_comment(name)}: {part} {sample.rows:,} rows.",
        "# Reasons stand beside the lines; read them, and change what you know better.",
    ]
    if sample.rejects:
        lines.append(f"# {sample.rejects:,} lines have another number of cells: rejects.")
    return lines


def _with(line: str, why: str) -> str:
    return f"{line}  # {_comment(why)}"


def _comment(text: str) -> str:
    """Text of unknown origin on one line of YAML, where some signs may not stand at all."""
    return "".join(char if char.isprintable() else " " for char in text)[:200]
