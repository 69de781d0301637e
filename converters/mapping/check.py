"""A mapping run on sampled rows: what resolves, what becomes of each row, and what is wrong.

This is the deterministic gate between a proposal and a conversion; it sees every sampled row, a
model never more than a few.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ingot.converters.errors import Problem
from ingot.converters.mapping.bind import nearest_path, observed_paths
from ingot.converters.mapping.language import (
    Mapping,
    Need,
    PathUse,
    RoleFromData,
    Scope,
    path_uses,
    shared_paths,
)
from ingot.converters.mapping.rows.executor import SOFT_REASONS, Record, RowExecutor
from ingot.converters.mapping.rows.group import group_rows
from ingot.converters.mapping.rows.values import each_nodes
from ingot.converters.paths import Node, Path, RowError
from ingot.converters.rows import Batch, Json, Reject
from ingot.converters.sources.sample import Sample
from ingot.converters.sources.text_kinds import Content, count_content

MIN_COVERAGE = 0.98
# Above this share of unreadable rows the files are read wrongly, or are broken.
MAX_UNREADABLE = 0.3


@dataclass(frozen=True, kw_only=True, slots=True)
class PathCoverage:
    """In how many sampled rows a path gives a value, only null, or nothing."""

    path: str
    pointer: str
    need: Need
    resolved: int
    null: int
    missing: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckReport:
    """What a mapping makes of a sample.

    Attributes:
        rows: sampled rows, unreadable ones included (a group counts as one).
        unreadable: sampled rows that could not be read: rejects, but no fault of the mapping.
        coverage: share of the other records without a hard error (soft outcomes do not count).
        messages, dropped: sampled messages whose role is read from the data, and how many of them
            the role map leaves out.
        problems: what makes the mapping wrong for this data; empty = it may be used.
    """

    rows: int
    unreadable: int
    warnings: tuple[str, ...]
    ok_rows: int = 0
    records: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    coverage: float = 1.0
    ragged: int = 0
    paths: tuple[PathCoverage, ...] = ()
    content: Content = field(default_factory=Content)
    messages: int = 0
    dropped: int = 0
    problems: tuple[Problem, ...] = ()
    examples: tuple[tuple[Json, Record], ...] = ()
    rejects: tuple[Reject, ...] = ()


def check_mapping(
    mapping: Mapping,
    sample: Sample,
    *,
    source_name: str,
    language: str | None = None,
    min_coverage: float = MIN_COVERAGE,
    show: int = 3,
) -> CheckReport:
    """Run a mapping on a sample."""
    batches = list(sample_batches(sample, mapping))
    nodes = [node for batch in batches for node in _nodes(batch)]
    if mapping.kind == "irrelevant":
        rows, unreadable = len(nodes) + len(sample.bad), len(sample.bad)
        return CheckReport(rows=rows, unreadable=unreadable, warnings=mapping.warnings)
    unifier = RowExecutor(mapping, source_name=source_name, language=language)
    records: list[Record] = []
    ok_rows, ragged = 0, 0
    examples: list[tuple[Json, Record]] = []
    rejects: list[Reject] = []
    for batch in batches:
        for one in _single_rows(batch):
            unified = unifier.batch(one)
            records += unified.records
            ok_rows += bool(unified.records)
            ragged += unified.ragged
            rejects += unified.rejects
            if unified.records and len(examples) < show:
                examples.append((one.values[0], unified.records[0]))
    failures = Counter(reject.reason for reject in rejects)
    unreadable = len(sample.bad)
    coverage = _coverage(len(records), failures, unreadable)
    content = count_content(records)
    messages, dropped = _count_dropped(mapping, nodes)
    problems = [
        *unresolved_problems(mapping, nodes),
        *_reject_problems(rejects, tuple(path_uses(mapping))),
        *_outcome_problems(len(records), failures, coverage, min_coverage),
        *_side_problems(mapping),
        *_training_problems(content),
        *_reading_problems(unreadable, len(nodes)),
    ]
    return CheckReport(
        rows=len(nodes) + len(sample.bad),
        ok_rows=ok_rows,
        unreadable=unreadable,
        records=len(records),
        failures=dict(failures.most_common()),
        coverage=coverage,
        ragged=ragged,
        paths=tuple(_path_coverage(mapping, nodes)),
        content=content,
        messages=messages,
        dropped=dropped,
        problems=tuple(problems),
        warnings=mapping.warnings,
        examples=tuple(examples),
        rejects=tuple(rejects[:show]),
    )


def sample_batches(sample: Sample, mapping: Mapping) -> Iterator[Batch]:
    """The sample as batches, one run of rows per file, grouped where the mapping groups."""
    batches = _batches_by_file(sample)
    return group_rows(batches, mapping.group) if mapping.group else batches


def _batches_by_file(sample: Sample) -> Iterator[Batch]:
    files = dict.fromkeys([r.file for r in sample.rows] + [b.file for b in sample.bad])
    for file in files:
        rows = [row for row in sample.rows if row.file == file]
        yield Batch(
            file=file,
            rows=[row.row for row in rows],
            values=[row.value for row in rows],
            keys=[str(row.row) if row.key is None else row.key for row in rows],
            bad=[bad.bad for bad in sample.bad if bad.file == file],
        )


def _nodes(batch: Batch) -> list[Node]:
    keys = batch.keys or [str(row) for row in batch.rows]
    return [Node(value, key) for value, key in zip(batch.values, keys, strict=True)]


def _single_rows(batch: Batch) -> Iterator[Batch]:
    for place, row in enumerate(batch.rows):
        yield Batch(
            file=batch.file,
            rows=[row],
            values=[batch.values[place]],
            keys=[batch.keys[place]] if batch.keys else None,
        )
    if batch.bad:
        yield Batch(file=batch.file, rows=[], values=[], bad=batch.bad)


def _coverage(records: int, failures: Counter[str], unreadable: int) -> float:
    """The share without a hard error; rows that could not even be read say nothing of a mapping."""
    hard = sum(count for reason, count in failures.items() if reason not in SOFT_REASONS)
    hard -= unreadable
    total = records + sum(failures.values()) - unreadable
    return 1.0 if not total else (total - hard) / total


# --- what the paths find


def unresolved_problems(mapping: Mapping, nodes: Sequence[Node]) -> list[Problem]:
    """A problem for every path that resolves in no row at all; none where there are no rows."""
    if not nodes:
        return []
    found = [(use, _start_nodes(use, nodes)) for use in path_uses(mapping)]
    return [
        _unresolved_problem(use, around)
        for use, around in found
        if around and not any(_safe_nodes((use.path,), node) for node in around)
    ]


def _unresolved_problem(use: PathUse, around: list[Node]) -> Problem:
    text, expected = use.path.text, "a path that exists in the data"
    nearest = nearest_path(text, observed_paths(node.value for node in around))
    return Problem(use.pointer, "unresolved_path", expected, text, nearest)


def _start_nodes(use: PathUse, nodes: Sequence[Node]) -> list[Node]:
    """The values that a path is applied to: the rows of a group, or the elements of its scope."""
    if use.of_row:
        return [Node(row) for node in nodes for row in node.value]
    inside = list(nodes)
    for each in use.scope:
        inside = [hit for node in inside for hit in _safe_nodes(each, node)]
    return inside


def _safe_nodes(each: tuple[Path, ...], node: Node) -> list[Node]:
    try:
        return each_nodes(each, node)
    except RowError:
        return []


def _path_coverage(mapping: Mapping, nodes: Sequence[Node]) -> Iterator[PathCoverage]:
    for use in path_uses(mapping):
        states = Counter(_use_state(use, node) for node in nodes)
        yield PathCoverage(
            path=_path_text(use),
            pointer=use.pointer,
            need=use.need,
            resolved=states["resolved"],
            null=states["null"],
            missing=states["missing"],
        )


def _path_text(use: PathUse) -> str:
    around = [each[0].text if len(each) == 1 else "(in step)" for each in use.scope]
    return " › ".join([*around, use.path.text])


def _use_state(use: PathUse, node: Node) -> str:
    around = _start_nodes(use, [node])
    hits = [hit for inner in around for hit in _safe_nodes((use.path,), inner)]
    if any(hit.value is not None for hit in hits):
        return "resolved"
    return "null" if hits else "missing"


def _count_dropped(mapping: Mapping, nodes: Sequence[Node]) -> tuple[int, int]:
    """Messages whose role is read from the data, and how many of them its map leaves out."""
    roles: Counter[bool] = Counter()
    for layout in mapping.alternatives():
        scope: Scope = ((layout.each,),) if layout.each else ()
        for message in layout.messages or ():
            role = message.role
            if isinstance(role, RoleFromData) and role.map and None in role.map.values():
                within = (*scope, message.each) if message.each else scope
                use = PathUse(pointer="", path=role.path, scope=within, need="required")
                roles.update(_is_dropped(role, around) for around in _start_nodes(use, nodes))
    return roles.total(), roles[True]


def _is_dropped(role: RoleFromData, around: Node) -> bool:
    hits = _safe_nodes((role.path,), around)
    if not hits or not isinstance(hits[0].value, str) or role.map is None:
        return False
    return role.map.get(hits[0].value, role.map.get("*", "")) is None


# --- what the rows became


def _reject_problems(rejects: list[Reject], used: Sequence[PathUse]) -> Iterator[Problem]:
    """`unmapped_value` and `not_text`: the mapping is wrong, however few rows show it."""
    expected = {
        "unmapped_value": "a value that the map names (or null for it)",
        "not_text": 'text, a number or a boolean; "[*]" for a list, "as": "json" for an object',
    }
    kinds: dict[tuple[str, str | None], Counter[str]] = {}
    for reject in rejects:
        if reject.reason in expected:
            kind = kinds.setdefault((reject.reason, reject.path), Counter())
            kind[reject.found or ""] += 1
    for (reason, path), found in kinds.items():
        got = ", ".join(f"{value} ({count} times)" for value, count in found.most_common(5))
        where = f" at {path}" if path else ""
        yield Problem(_use_pointer(reason, path, used), reason, f"{expected[reason]}{where}", got)


def _use_pointer(reason: str, path: str | None, used: Sequence[PathUse]) -> str:
    """The pointer to a path that a reject names; the whole document where no use of it is known."""
    named = [use.pointer for use in used if use.path.text == path]
    ending = [use.pointer for use in used if use.path.text.endswith(f"].{path}")]
    mapped = [pointer for pointer in named if pointer.endswith("/path")]
    return next(iter([*(mapped if reason == "unmapped_value" else []), *named, *ending]), "")


def _outcome_problems(
    records: int, failures: Counter[str], coverage: float, min_coverage: float
) -> Iterator[Problem]:
    said = ", ".join(f"{reason} {count}" for reason, count in failures.most_common())
    if coverage < min_coverage:
        expected = f"coverage of at least {min_coverage:.0%}"
        yield Problem("", "coverage", expected, f"{coverage:.1%} ({said})")
    if not records and failures:
        yield Problem("", "no_records", "at least one record", said)


def _side_problems(mapping: Mapping) -> Iterator[Problem]:
    """An answer that stands in its own question, as a whole or as a part."""
    for one in shared_paths(mapping):
        expected = f"another path than {one.question} takes, or another use of it"
        yield Problem(one.answer, "both_sides", expected, one.path)


def _training_problems(content: Content) -> Iterator[Problem]:
    if content.records and not content.trained_records:
        expected = "at least one message that is trained on"
        yield Problem("/messages", "no_training", expected, f"none in {content.records} records")


def _reading_problems(unreadable: int, readable: int) -> Iterator[Problem]:
    total = unreadable + readable
    if total and unreadable / total > MAX_UNREADABLE:
        expected = f"at most {MAX_UNREADABLE:.0%} of the rows unreadable"
        yield Problem("/source", "unreadable", expected, f"{unreadable} of {total}")
