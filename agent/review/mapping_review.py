"""Review all mappings that differ between two revisions, or two files.

No model is asked and nothing is written. The result is the review document
(schemas/review.schema.json): the same bytes for the same commits.
"""

import re
import shlex
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

from ingot.agent.judging.drift import redacted_changes
from ingot.agent.privacy import EMPTY_TEXT, Redactor, Safe, SafeValue, redact
from ingot.agent.reporting.mapping_words import common_length
from ingot.agent.reporting.preview import record_lines
from ingot.agent.review.changed_mappings import (
    ChangedMapping,
    compare_files,
    find_changed,
    nearest_line,
    pointer_lines,
)
from ingot.agent.review.diff.change_rules import Change, worst_class
from ingot.agent.review.diff.mapping_changes import compare_mappings
from ingot.agent.review.diff.normal_form import normal_form
from ingot.agent.review.git_repository import WORKING_TREE, ReviewOptions, open_repository
from ingot.agent.review.golden_rows import GoldenResult, golden_file, run_golden
from ingot.agent.review.markdown_escaping import visible_text
from ingot.agent.review.replay import (
    Difference,
    Kind,
    Replay,
    TriedMapping,
    choose_sample,
    replay_mappings,
)
from ingot.agent.review.review_document import (
    ChangeEntry,
    Example,
    GoldenEntry,
    MappingEntry,
    PathEntry,
    ReasonEntry,
    ReviewDocument,
    SampleEntry,
    SideEntry,
    provenance_entry,
)
from ingot.agent.review.revisions import (
    Side,
    commit_side,
    file_side,
    require_inside,
    working_tree_side,
    write_sidecars,
)
from ingot.agent.review.verdict import Case, Reason, change_place, verdict_reasons, worst_level
from ingot.converters.errors import MappingError, RevisionError, SourceError, count_text
from ingot.converters.json_yaml import encode
from ingot.converters.mapping.rows.executor import Record

VERSION = 1
_MAGIC = re.compile(r"([*?\[])")


def repository_sides(
    folder: Path, base: str | None, head: str | None, source: str | None = None
) -> tuple[Side, Side]:
    """Return the two sides of a repository; `source` is checked where it lies in it.

    What `head` changed since it left `base` is reviewed, as in a pull request: what others did to
    `base` meanwhile is not. If the histories do not meet (a shallow clone) `base` is taken as it
    is.
    """
    repo = open_repository(folder)
    if source is not None:
        require_inside(source, repo)
    name = base if base is not None else repo.main()
    base_commit, tip = repo.commit(name), repo.commit(head if head is not None else "HEAD")
    before = replace(commit_side(repo, repo.merge_base(base_commit, tip), name), tip=base_commit)
    after = working_tree_side(repo) if head is None else commit_side(repo, tip, head)
    return before, after


def review_mappings(base: Side, head: Side, wish: ReviewOptions) -> ReviewDocument:
    """Review every mapping that differs."""
    changed = find_changed(base, head, None if wish.mappings is None else [wish.mappings])
    replayed = [one for one in changed if one.new is not None]
    if wish.source is not None and len(replayed) > 1:
        names = ", ".join(path_text(one.path) for one in replayed[:3])
        hint = "name one mapping with --mappings; the others need pinned samples"
        problem = f"data of one mapping, and {len(replayed)} are to be replayed: {names}"
        raise RevisionError("--source", problem, hint)
    command = ["--base", base.tip or base.name]
    if head.name != WORKING_TREE:
        command += ["--head", head.commit or head.name]
    entries = [
        _review_mapping(one, base, head, wish, [*command, "--mappings", _literal_glob(one.path)])
        for one in changed
    ]
    mapping_options = (
        ["--mappings", _typeable_glob(wish.mappings)] if wish.mappings is not None else []
    )
    return _review_document(base, head, wish, entries, [*command, *mapping_options])


def review_files(old: Path, new: Path, wish: ReviewOptions) -> ReviewDocument:
    """Review one mapping file against another one."""
    base, head = file_side(old), file_side(new)
    changed = compare_files(base, old.name, head, new.name)
    entry = _review_mapping(changed, base, head, wish, [str(old), str(new)])
    return _review_document(base, head, wish, [entry], [str(old), str(new)])


def _review_document(
    base: Side,
    head: Side,
    wish: ReviewOptions,
    entries: Sequence[MappingEntry],
    command: Sequence[str],
) -> ReviewDocument:
    return {
        "version": VERSION,
        "base": redact(path_text(base.name)),
        "head": redact(path_text(head.name)),
        "commits": {"base": base.tip, "fork": base.commit, "head": head.commit},
        "verdict": worst_level(one["verdict"] for one in entries),
        "allow_breaking": wish.allow_breaking,
        "reproduce": _repeat_command(command, wish),
        "mappings": list(entries),
    }


def _repeat_command(words: Sequence[str], wish: ReviewOptions) -> str | None:
    """Return the command that shows the same again; None if a name in it cannot be typed."""
    source = ["--source", redact(wish.source)] if wish.source is not None else []
    if any(_typeable_glob(word) != word for word in (*words, *source)):
        return None
    flags = [*["--allow-breaking"] * wish.allow_breaking, *["--offline"] * wish.offline]
    return shlex.join(["ingot", "review", *words, *source, *flags])


def _literal_glob(path: str) -> str:
    """Return a glob that matches only this path."""
    # `##[` is a command where a report is printed in a GitHub job.
    glob = _typeable_glob(_MAGIC.sub(r"[\1]", path).replace("##[[]", "##?"))
    anchored = glob if "/" in glob else f"/{glob}"
    return f"./{anchored}" if anchored.startswith("!") else anchored


def _typeable_glob(glob: str) -> str:
    """Return a glob that can be read and typed: `?` for bytes that are not text or not visible."""
    return "".join(char if visible_text(char) == char else "?" for char in glob)


# --- one mapping


def _review_mapping(
    changed: ChangedMapping, base: Side, head: Side, wish: ReviewOptions, command: Sequence[str]
) -> MappingEntry:
    with tempfile.TemporaryDirectory(prefix="ingot-") as folder:
        case = _make_case(changed, base, head, wish, Path(folder))
    reasons = verdict_reasons(case, allow_breaking=wish.allow_breaking)
    return mapping_entry(case, reasons, base, head, _repeat_command(command, wish))


def _make_case(
    changed: ChangedMapping, base: Side, head: Side, wish: ReviewOptions, folder: Path
) -> Case:
    basis = choose_sample(changed, base, head, folder, source=wish.source, offline=wish.offline)
    ran = replay_mappings(basis, changed.old, changed.new)
    kind, changes, unclear = _compare_documents(changed, ran)
    golden, fault = _try_golden(changed, head, folder, basis.source_name)
    old_rows = golden_file(Path(changed.old_path or changed.path)).as_posix()
    new_rows = golden_file(Path(changed.path)).as_posix()
    return Case(
        touched=changed,
        kind=kind,
        changes=changes,
        unclear=unclear,
        replay=ran,
        golden=golden,
        golden_fault=fault,
        golden_gone=old_rows in base.files and new_rows not in head.files,
    )


def _compare_documents(
    changed: ChangedMapping, ran: Replay
) -> tuple[str | None, tuple[Change, ...], str]:
    """Return the class, the changes, and why known mappings cannot be compared."""
    if changed.old is None or changed.new is None:
        return None, (), ""
    try:
        changes = compare_mappings(
            normal_form(changed.old, _sampled_values(ran.old)),
            normal_form(changed.new, _sampled_values(ran.new)),
        )
    except MappingError as error:
        return None, (), "; ".join(map(str, error.problems))
    return worst_class(changes), changes, ""


def _sampled_values(ran: TriedMapping | None) -> list[object]:
    return [row.value for row in ran.trial.sample.rows] if ran else []


def _try_golden(
    changed: ChangedMapping, head: Side, folder: Path, source_name: str | None
) -> tuple[GoldenResult | None, str]:
    """Return the result of the golden rows, and why they could not be run."""
    name = golden_file(Path(changed.path)).as_posix()
    if changed.new is None or name not in head.files:
        return None, ""
    file = golden_file(write_sidecars(head, changed.path, folder / "golden"))
    try:
        return run_golden(changed.new, file, source_name=source_name or Path(changed.path).stem), ""
    except (SourceError, MappingError) as error:
        return None, redact(str(error).replace(str(file), name))


def target_text(pointer: str) -> str:
    """Describe a pointer into a mapping: `messages 2 content`, `meta.language`."""
    steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
    if len(steps) > 2 and steps[0] == "any_of":
        return f"alternative {_one_based(steps[1])}: {_steps_text(steps[2:])}"
    return _steps_text(steps)


def _steps_text(steps: list[str]) -> str:
    match steps:
        case ["messages", number, *rest]:
            return " ".join(["messages", _one_based(number), *rest[:1]])
        case ["where", number, *_]:
            return f"where {_one_based(number)}"
        case ["meta" | "source" as block, key, *_]:
            return f"{block}.{key}"
        case [first, *_]:
            return first
    return "the mapping"


def _one_based(number: str) -> str:
    return str(int(number) + 1) if number.isdigit() else number


def path_text(path: str) -> str:
    """Return a path as text; bytes that are not valid text are escaped."""
    return path.encode(errors="surrogateescape").decode(errors="backslashreplace")


MOST_EXAMPLES = 3
_ORDER: tuple[Kind, ...] = ("lost", "changed", "gained")
_READ = 24_000  # characters of a text that are looked at
_MESSAGES = 8  # messages that are shown
_BEFORE = 80  # characters shown of what both texts begin with, where that is long


def example_differences(differences: Sequence[Difference], redactor: Redactor) -> list[Example]:
    """Return at most three differences as plain JSON, one of every kind first."""
    ordered = sorted(differences, key=lambda one: _ORDER.index(one.kind))
    first = {one.kind: one for one in reversed(ordered)}.values()
    further = [one for one in ordered if all(one is not other for other in first)]
    chosen = sorted([*first, *further][:MOST_EXAMPLES], key=lambda one: _ORDER.index(one.kind))
    return [_example_json(one, redactor) for one in chosen]


def _example_json(difference: Difference, redactor: Redactor) -> Example:
    old = _record_pair_lines(difference.old, difference.new, redactor)
    new = _record_pair_lines(difference.new, difference.old, redactor)
    return {
        "kind": difference.kind,
        "place": redactor.text(path_text(difference.place)),
        "old": old,
        "new": new,
    }


def _record_pair_lines(
    record: Record | None, other: Record | None, redactor: Redactor
) -> list[list[Safe]] | None:
    if record is None:
        return None
    # Messages at the beginning that both records have are left out.
    pairs = zip(record.get("messages", []), (other or {}).get("messages", []), strict=False)
    same = next((n for n, (a, b) in enumerate(pairs) if a != b), 0)
    skipped = max(0, same - 1) if same > 2 else 0
    left_out = Safe(f"({count_text(skipped, 'message')} as in the other)")
    part = _shown_part(record, skipped, redactor)
    lines = record_lines(
        _narrow_texts(part, _shown_part(other, skipped, redactor)) if other else part
    )
    return [*([[EMPTY_TEXT, left_out]] if skipped else []), *map(list, lines)]


def _shown_part(record: Record, skipped: int, redactor: Redactor) -> SafeValue:
    """Redact the part of a record that is shown; what is only counted is emptied."""
    part = {**record}
    for key in ("text", "system", "tools"):
        if isinstance(part.get(key), str):
            part[key] = part[key][:_READ]
    messages = part.pop("messages", None)
    if messages is not None:
        remaining = messages[skipped:]
        seen = [{**one, "content": one["content"][:_READ]} for one in remaining[:_MESSAGES]]
        part["messages"] = [*seen, *({**one, "content": ""} for one in remaining[_MESSAGES:])]
    return redactor.value(part)


def _narrow_texts(value: SafeValue, other_value: SafeValue) -> SafeValue:
    """Cut texts to where they begin to differ."""
    record, other = value.json, other_value.json
    narrow: Record = {
        key: _cut_to_difference(record[key], other.get(key))
        for key in ("text", "system", "tools")
        if key in record
    }
    if "messages" in record:
        texts = [one["content"] for one in other.get("messages", [])]
        narrow["messages"] = [
            {**one, "content": _cut_to_difference(one["content"], text)}
            for one, text in zip_longest(record["messages"], texts[: len(record["messages"])])
        ]
    return SafeValue({**record, **narrow})


def _cut_to_difference(text: object, other: object) -> object:
    if not isinstance(text, str) or not isinstance(other, str) or text == other:
        return text
    start = common_length(text, other) - _BEFORE
    return text if start < _BEFORE else f"({start} characters as in the other) ...{text[start:]}"


_AT_LINE = re.compile(r"\bline (\d+), column")


def mapping_entry(
    case: Case, reasons: Sequence[Reason], base: Side, head: Side, command: str | None
) -> MappingEntry:
    """Return an element of `mappings` of the review document."""
    changed, ran, matched = case.touched, case.replay, case.replay.matched
    lines, redactor = pointer_lines(changed.text), _row_redactor(ran)
    return {
        "path": path_text(head.shown(changed.path)),
        "old_path": None if changed.old_path is None else path_text(base.shown(changed.old_path)),
        "status": changed.status,
        "verdict": worst_level(reason.level for reason in reasons),
        "class": case.kind,
        "reasons": [_reason_json(reason, lines, redactor) for reason in reasons],
        "changes": [_change_json(change, lines, redactor) for change in case.changes],
        "sample": _sample_json(ran),
        "old": _side_json(ran.old, redactor),
        "new": _side_json(ran.new, redactor),
        "same": matched.same if matched else None,
        "of": matched.of if matched else None,
        "examples": example_differences(matched.differences, redactor) if matched else [],
        "drift": [encode(change) for change in redacted_changes(ran.drift, redactor)],
        "golden": _golden_json(case.golden, head.shown(changed.path)),
        "provenance": {"old": provenance_entry(changed.old), "new": provenance_entry(changed.new)},
        "reproduce": command,
    }


def _reason_json(reason: Reason, lines: dict[str, int], redactor: Redactor) -> ReasonEntry:
    """Write a reason; a text that is not JSON names its line itself."""
    line_match = _AT_LINE.search(reason.text) if reason.rule == "broken" else None
    line = None if reason.pointer is None else nearest_line(lines, reason.pointer)
    if line_match:
        line = int(line_match[1])
    text = redactor.text(path_text(reason.text))
    return {"level": reason.level, "rule": reason.rule, "text": text, "line": line}


def _change_json(change: Change, lines: dict[str, int], redactor: Redactor) -> ChangeEntry:
    return {
        "target": redactor.text(change.target),
        "rule": change.rule,
        "class": change.kind,
        "old": None if change.old is None else redactor.text(change.old),
        "new": None if change.new is None else redactor.text(change.new),
        "line": nearest_line(lines, change_place(change)),
    }


def _sample_json(ran: Replay) -> SampleEntry:
    first = ran.new or ran.old
    return {
        "kind": ran.stand.kind,
        "place": redact(path_text(ran.stand.place)),
        "rows": first.trial.report.rows if first else 0,
        "sha256": ran.stand.sha256,
        "why": redact(path_text(ran.stand.why)),
    }


def _row_redactor(ran: Replay) -> Redactor:
    """Return a redactor that knows what the keys of sampled rows hide: records lack these keys."""
    sides = [side.trial.sample.rows for side in (ran.old, ran.new) if side]
    return Redactor("redacted", [row.value for rows in sides for row in rows], numbered=False)


def _side_json(ran: TriedMapping | None, redactor: Redactor) -> SideEntry | None:
    if ran is None:
        return None
    paths: list[PathEntry] = [
        {
            "target": redactor.text(target_text(one.pointer)),
            "path": redactor.text(one.path),
            "resolved": one.resolved,
            "null": one.null,
            "missing": one.missing,
            "rows": one.resolved + one.null + one.missing,
        }
        for one in ran.trial.report.paths
    ]
    return {**ran.figures(), "paths": paths}


def _golden_json(golden: GoldenResult | None, path: str) -> GoldenEntry | None:
    if golden is None:
        return None
    file = path_text(golden_file(Path(path)).as_posix())
    return {"file": file, "rows": golden.rows, "failed": [encode(one) for one in golden.failed]}
