"""A mapping run on sampled rows: what resolves, what becomes of each row, and what is wrong.

This is the deterministic gate between a proposal and a conversion; it sees every sampled row, a
model never more than a few.
"""

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from ingot.converters.errors import Problem
from ingot.converters.json_yaml import found_text
from ingot.converters.mapping.bind import nearest_path, observed_paths
from ingot.converters.mapping.language import Mapping, Message, Need, RoleFromData, Tree
from ingot.converters.mapping.lookup import Lookup
from ingot.converters.mapping.loss import NO_LOSS, Loss, measure_loss
from ingot.converters.mapping.path_uses import (
    Around,
    PathUse,
    Scope,
    message_scope,
    path_uses,
    shared_paths,
)
from ingot.converters.mapping.rows.conditions import compile_test
from ingot.converters.mapping.rows.executor import SOFT_REASONS, Record, RowExecutor
from ingot.converters.mapping.rows.group import group_rows
from ingot.converters.mapping.rows.values import (
    PathStats,
    each_nodes,
    json_text,
    row_nodes,
    tree_nodes,
)
from ingot.converters.mapping.signs import SignFinder
from ingot.converters.paths import Node, RowNode
from ingot.converters.rows import Batch, Json, Reject, RowError, count_looks, non_finite_text
from ingot.converters.sources.sample import Sample
from ingot.converters.sources.text_kinds import Content, count_content, record_texts

MIN_COVERAGE = 0.98
# Above this share of unreadable rows the files are read wrongly, or are broken.
MAX_UNREADABLE = 0.3
_CHARS_A_LOOK = 20  # of records, that count as much as a place that is looked at


@dataclass(frozen=True, kw_only=True, slots=True)
class PathReach:
    """In how many sampled rows a path gives a value, only null, or nothing."""

    path: str
    pointer: str
    need: Need
    resolved: int
    null: int
    missing: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckReport:
    """What a mapping makes of a sample."""

    rows: int  # unreadable ones included (a group counts as one)
    unreadable: int  # rejects, but no fault of the mapping
    warnings: tuple[str, ...]
    ok_rows: int = 0
    records: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    coverage: float = 1.0  # of the other records, those without a hard error
    ragged: int = 0
    paths: tuple[PathReach, ...] = ()
    content: Content = field(default_factory=Content)
    messages: int = 0  # whose role is read from the data
    dropped: int = 0  # of these, what the role map leaves out
    others: tuple[str, ...] = ()  # for each role map with `*`, which values fall under it
    problems: tuple[Problem, ...] = ()  # none: the mapping may be used
    loss: Loss = NO_LOSS
    signs: dict[str, int] | None = None  # rows by sign, see `signs.SIGNS`; None: none has one
    examples: tuple[tuple[Json, Record], ...] = ()
    rejects: tuple[Reject, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SampleRun:
    """What a mapping makes of a sample, run row by row."""

    batches: list[Batch]  # grouped where the mapping groups
    unreadable: int
    records: list[Record] = field(default_factory=list)
    examples: list[tuple[Json, Record]] = field(default_factory=list)  # rows with their first
    rejects: list[Reject] = field(default_factory=list)
    by_file: Counter[str] = field(default_factory=Counter)
    signs: Counter[str] = field(default_factory=Counter)  # rows by sign
    ragged: int = 0

    @property
    def rows(self) -> int:
        """Return sampled rows, unreadable ones included."""
        return sum(len(batch.values) for batch in self.batches) + self.unreadable

    @cached_property
    def failures(self) -> Counter[str]:
        """Return the rejects by their reasons."""
        return Counter(reject.reason for reject in self.rejects)

    @property
    def coverage(self) -> float:
        """Return the share of rows without a hard error.

        Rows that could not be read do not count: they say nothing about the mapping.
        """
        hard = sum(count for reason, count in self.failures.items() if reason not in SOFT_REASONS)
        total = len(self.records) + self.failures.total() - self.unreadable
        return 1.0 if not total else (total - hard + self.unreadable) / total


def run_sample(
    mapping: Mapping, sample: Sample, *, source_name: str, language: str | None = None
) -> SampleRun:
    """Run a mapping on a sample, and judge nothing."""
    run = SampleRun(batches=list(sample_batches(sample, mapping)), unreadable=len(sample.bad))
    if mapping.kind == "irrelevant":
        return run
    unifier, ragged = RowExecutor(mapping, source_name=source_name, language=language), 0
    finder = SignFinder(mapping, named=True)
    for batch in run.batches:
        finder.look(batch)
        for one in _single_rows(batch):
            unified = unifier.look(one)
            texts = (text for record in unified.records for text in record_texts(record))
            count_looks(sum(map(len, texts)) // _CHARS_A_LOOK)
            run.records.extend(unified.records)
            run.by_file[batch.file] += len(unified.records)
            run.rejects.extend(unified.rejects)
            ragged += unified.ragged
            finder.add(unified)
            if unified.records:
                run.examples.append((one.values[0], unified.records[0]))
        run.signs.update({sign: len(rows) for sign, rows in finder.found.items()})
    return replace(run, ragged=ragged)


def check_mapping(
    mapping: Mapping,
    sample: Sample,
    *,
    source_name: str,
    language: str | None = None,
    show: int = 3,
) -> CheckReport:
    """Run a mapping on a sample, and judge what it makes."""
    run = run_sample(mapping, sample, source_name=source_name, language=language)
    if mapping.kind == "irrelevant":
        return CheckReport(rows=run.rows, unreadable=run.unreadable, warnings=mapping.warnings)
    nodes = [node for batch in run.batches for node in row_nodes(batch)]
    content = count_content(run.records)
    roles = list(_role_values(mapping, nodes))
    dropped = Counter(
        table.get(text, table.get("*", "")) is None
        for role, texts in roles
        if None in (table := role.map or {}).values()
        for text in texts
    )
    problems = [
        *unresolved_problems(mapping, nodes),
        *_reject_problems(run.rejects, tuple(path_uses(mapping)), _unnamed_values(roles)),
        *_outcome_problems(mapping, run, content, len(nodes)),
    ]
    nulls = sample.non_finite
    return CheckReport(
        rows=run.rows,
        ok_rows=len(run.examples),
        unreadable=run.unreadable,
        records=len(run.records),
        failures=dict(run.failures.most_common()),
        coverage=run.coverage,
        ragged=run.ragged,
        paths=tuple(_path_reach(mapping, nodes)),
        content=content,
        messages=dropped.total(),
        dropped=dropped[True],
        others=tuple(_other_values(roles)),
        problems=tuple(problems),
        warnings=(*mapping.warnings, *([non_finite_text(nulls)] if nulls else [])),
        loss=measure_loss(
            dict(Counter(batch.file for batch in run.batches for _ in batch.rows)),
            run.by_file,
            run.examples,
            [node.value for node in nodes],
        ),
        signs=dict(run.signs) or None,
        examples=tuple(run.examples[:show]),
        rejects=tuple(run.rejects[:show]),
    )


def sample_batches(sample: Sample, mapping: Mapping) -> Iterator[Batch]:
    """Return the sample as batches, one run of rows per file, grouped where the mapping groups."""
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


def _single_rows(batch: Batch) -> Iterator[Batch]:
    yield from (batch.take([place]) for place in range(len(batch.rows)))
    if batch.bad:
        yield batch.take([], batch.bad)


# --- what the paths find


def unresolved_problems(mapping: Mapping, nodes: Sequence[RowNode]) -> list[Problem]:
    """Return a problem for every path that resolves in no row at all.

    None if there are no rows.
    """
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
    if isinstance(use.path, Lookup):
        expected = "an element with the key that is looked up"
        return Problem(use.pointer, "unresolved_path", expected, text, path=text)
    nearest = nearest_path(text, observed_paths(node.value for node in around))
    return Problem(use.pointer, "unresolved_path", expected, text, nearest, path=text)


def _start_nodes(use: PathUse, nodes: Sequence[RowNode]) -> list[Node]:
    """The values that a path is applied to: the rows of a group, or the elements of its scope."""
    if use.of_row:
        return [RowNode(row, None, node.file) for node in nodes for row in node.value]
    inside: list[Node] = list(nodes)
    for each in use.scope:
        inside = [hit for node in inside for hit in _safe_nodes(each, node)]
    return inside


def _safe_nodes(around: Around, node: Node) -> list[Node]:
    """Elements, none where they cannot be read; of a tree all nodes that come before a fault."""
    found: list[Node] = []
    with contextlib.suppress(RowError):
        found.extend(_inner_nodes(around, node))
    return found


def _inner_nodes(around: Around, node: Node) -> Iterable[Node]:
    if isinstance(around, Tree):
        return tree_nodes(around, node)
    if not isinstance(around, Message):
        return each_nodes(around, node)
    elements = each_nodes(around.each, node) if around.each else [node]
    test = compile_test(around.where, PathStats())
    return filter(test, elements) if test else elements


def _path_reach(mapping: Mapping, nodes: Sequence[RowNode]) -> Iterator[PathReach]:
    for use in path_uses(mapping):
        states = Counter(_use_state(use, node) for node in nodes)
        yield PathReach(
            path=" › ".join([*filter(None, map(_around_text, use.scope)), use.path.text]),
            pointer=use.pointer,
            need=use.need,
            resolved=states["resolved"],
            null=states["null"],
            missing=states["missing"],
        )


def _around_text(around: Around) -> str:
    if isinstance(around, Tree):
        return f"{around.path.text} and below"
    each = around.each if isinstance(around, Message) else around
    return each[0].text if len(each) == 1 else "(in step)" if each else ""


def _use_state(use: PathUse, node: RowNode) -> str:
    around = _start_nodes(use, [node])
    hits = [hit for inner in around for hit in _safe_nodes((use.path,), inner)]
    if any(hit.value is not None for hit in hits):
        return "resolved"
    return "null" if hits else "missing"


class _RoleValues(NamedTuple):
    """A role that is read from the data, with the texts that are sampled at its path."""

    role: RoleFromData
    texts: list[str]


def _role_values(mapping: Mapping, nodes: Sequence[RowNode]) -> Iterator[_RoleValues]:
    """Every role that is read from the data; alternatives may share one."""
    seen = []
    for layout in mapping.alternatives():
        scope: Scope = (layout.each,) if layout.each else ()
        for message in layout.messages or ():
            role = message.role
            within = message_scope(message, scope)
            if isinstance(role, RoleFromData) and role.map and (role, within) not in seen:
                seen.append((role, within))
                use = PathUse(pointer="", path=role.path, scope=within, need="required")
                yield _RoleValues(role, list(_first_texts(use, nodes)))


def _first_texts(use: PathUse, nodes: Sequence[RowNode]) -> Iterator[str]:
    for around in _start_nodes(use, nodes):
        hits = _safe_nodes((use.path,), around)
        first = hits[0].value if hits else None
        if first is not None and not isinstance(first, list | dict):
            yield json_text(first)


def _other_values(roles: Sequence[_RoleValues]) -> Iterator[str]:
    """Say for each role map with `*` which sampled values fall under it."""
    for role, texts in roles:
        table = role.map or {}
        if "*" in table:
            found = Counter(text for text in texts if text not in table)
            most = [f"{found_text(text)} ({count} times)" for text, count in found.most_common(5)]
            more = f" and {len(found) - len(most)} more" if len(found) > len(most) else ""
            named = f": {', '.join(most)}{more}" if found else ""
            given = table["*"] or "left out"
            share = f"{found.total()} of {len(texts)} messages"
            yield f'role by {role.path.text}: {share} fall under "*" ({given}){named}'


# --- what the rows became


def _unnamed_values(roles: Sequence[_RoleValues]) -> dict[str | None, Counter[str]]:
    """All values without a role by their path: a record ends at the first of its own."""
    return {
        role.path.text: Counter(text for text in texts if text not in table)
        for role, texts in roles
        if "*" not in (table := role.map or {})
    }


def _reject_problems(
    rejects: list[Reject], used: Sequence[PathUse], unnamed: dict[str | None, Counter[str]]
) -> Iterator[Problem]:
    """Faults such as `unmapped_value`: the mapping is wrong, however few rows show it."""
    expected = {
        "unmapped_value": "a value that the map names (or null for it) or `order` has a role for",
        "not_text": 'text, a number or a boolean; "[*]" for a list, "as": "json" for an object',
        "ambiguous_lookup": "one element with the key that is looked up",
        "too_deep": "no further level below `depth`, or a larger `depth`,",
    }
    kinds: dict[tuple[str, str | None], Counter[str]] = {}
    for reject in rejects:
        if reject.reason in expected:
            kind = kinds.setdefault((reject.reason, reject.path), Counter())
            kind[reject.found or ""] += 1
    for (reason, path), found in kinds.items():
        every = unnamed.get(path) if reason == "unmapped_value" else None
        most = tuple((every or found).most_common(5))
        got = ", ".join(f"{value} ({count} times)" for value, count in most)
        where = f" at {path}" if path else ""
        pointer, wanted = _use_pointer(reason, path, used), f"{expected[reason]}{where}"
        yield Problem(pointer, reason, wanted, got, path=path or "", values=most)


def _use_pointer(reason: str, path: str | None, used: Sequence[PathUse]) -> str:
    """The pointer to a path that a reject names; the whole document where no use of it is known."""
    named = [use.pointer for use in used if use.path.text == path]
    ending = [use.pointer for use in used if use.path.text.endswith(f"].{path}")]
    mapped = [pointer for pointer in named if pointer.endswith("/path")]
    return next(iter([*(mapped if reason == "unmapped_value" else []), *named, *ending]), "")


def _outcome_problems(
    mapping: Mapping, run: SampleRun, content: Content, readable: int
) -> Iterator[Problem]:
    """Too little that converts, an answer in its own question, nothing to train on or to read."""
    most = tuple(run.failures.most_common())
    counts = ", ".join(f"{reason} {count}" for reason, count in most)
    if run.coverage < MIN_COVERAGE:
        expected = f"coverage of at least {MIN_COVERAGE:.0%}"
        yield Problem("", "coverage", expected, f"{run.coverage:.1%} ({counts})", values=most)
    if not run.records and run.failures:
        yield Problem("", "no_records", "at least one record", counts, values=most)
    for one in shared_paths(mapping):
        expected = f"another path than {one.question} takes, or another use of it"
        yield Problem(one.answer, "both_sides", expected, one.path, path=one.path)
    if content.records and not content.trained_records:
        expected = "at least one message that is trained on"
        yield Problem("/messages", "no_training", expected, f"none in {content.records} records")
    total = run.unreadable + readable
    if total and run.unreadable / total > MAX_UNREADABLE:
        expected = f"at most {MAX_UNREADABLE:.0%} of the rows unreadable"
        yield Problem("/source", "unreadable", expected, f"{run.unreadable} of {total}")
