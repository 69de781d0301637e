"""Write a review for GitHub: the comment below a pull request, the job summary, annotations.

All are pure functions of the review document (schemas/review.schema.json). The comment begins with
a hidden marker, by which the next run finds and replaces it, and with the verdict for programs
(action.yml). There is one layout: the verdict, all mappings in a table, then the mappings, those
that block first. It is cut where GitHub's limit is reached, and says so.

GitHub refuses comments over 65,536 characters, or 262,144 bytes; the limit has changed before.
Bytes are counted, since a text has at least as many as characters or UTF-16 units.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Literal, TypeVar, get_args

from ingot.agent.review.markdown_escaping import (
    code_span,
    command_block,
    escape_message,
    escape_property,
    escape_words,
    example_block,
    fold_blocks,
    markdown_table,
    printable_line,
    utf8_size,
)
from ingot.agent.review.review_document import (
    ChangeEntry,
    DriftEntry,
    MappingEntry,
    ProvenanceEntry,
    ReasonEntry,
    ReviewDocument,
    SideEntry,
)
from ingot.agent.review.verdict import Level
from ingot.converters.errors import count_text
from ingot.converters.output.figures import format_share

LEVELS: tuple[Level, ...] = ("block", "warn", "pass")
SIGNS = {"block": "🔴", "warn": "🟡", "pass": "🟢"}
VERBS = {"block": "blocks", "warn": "warns", "pass": "passes"}
MOST_REASONS, MOST_ROWS = 20, 40
_FIGURES = ("", "before", "after")

Piece = TypeVar("Piece")
Side = TypeVar("Side")
_Stated = Literal["mapper", "model", "prompt_sha256", "confidence", "edited", "repaired"]


def mapping_blocks(mapping: MappingEntry) -> list[str]:
    """Return what is said about one mapping, as blocks of Markdown; the first is its heading."""
    writers = (
        *(_lead_text, _changes_block, _golden_block, _drift_block, _figures_table),
        *(_examples_block, _paths_table, _provenance_table),
    )
    return [block for write in writers if (block := write(mapping))]


def sort_by_level(mappings: Sequence[MappingEntry]) -> list[MappingEntry]:
    """Sort the mappings, those that block first, else in their order."""
    return sorted(mappings, key=lambda one: LEVELS.index(one["verdict"]))


def _lead_text(mapping: MappingEntry) -> str:
    lines = [f"#### {SIGNS[mapping['verdict']]} {code_span(mapping['path'])}", ""]
    if mapping["old_path"]:
        lines += [f"The file before: {code_span(mapping['old_path'])}", ""]
    lines += _reason_lines(mapping["reasons"])
    return "\n".join([*lines, *_sample_lines(mapping)])


def _reason_lines(reasons: Sequence[ReasonEntry]) -> Iterator[str]:
    """Yield a line for each reason, those that block first, and how many more there are."""
    ordered = sorted(reasons, key=lambda one: LEVELS.index(one["level"]))
    yield from map(_reason_line, ordered[:MOST_REASONS])
    if further := ordered[MOST_REASONS:]:
        yield f"- and {len(further):,} more: {_level_counts(one['level'] for one in further)}"


def _level_counts(levels: Iterable[str]) -> str:
    """Return how many there are of each level: `2 block, 1 pass`."""
    counts = Counter(levels)
    return ", ".join(f"{counts[one]} {one}" for one in LEVELS if counts[one])


def _reason_line(reason: ReasonEntry) -> str:
    """Say why a mapping does not simply pass, with the rule and the line in its file."""
    level = reason["level"]
    line = f", line {reason['line']}" if reason["line"] else ""
    rule = code_span(reason["rule"], 60)
    return f"- {SIGNS[level]} **{VERBS[level]}** {escape_words(reason['text'])} ({rule}{line})"


def _sample_lines(mapping: MappingEntry) -> Iterator[str]:
    sample = mapping["sample"]
    if sample["kind"] == "none":
        if sample["why"] and not any(sample["why"] in one["text"] for one in mapping["reasons"]):
            yield f"\nNot replayed: {escape_words(sample['why'])}."
        return
    kind = "the pinned sample" if sample["kind"] == "pinned" else "a sample of"
    rows = count_text(sample["rows"], "row")
    line = f"\nReplayed on {kind} {code_span(sample['place'])}, {rows}."
    same = mapping["same"]
    if same is not None:
        line += f" **{same:,} of {mapping['of']:,} records are identical.**"
    yield line


def _changes_block(mapping: MappingEntry) -> str:
    def row(change: ChangeEntry) -> tuple[str, ...]:
        words = (
            "-" if text is None else code_span(text) for text in (change["old"], change["new"])
        )
        rule = f"{escape_words(change['class'] or '')}: {code_span(change['rule'], 60)}"
        return (escape_words(change["target"]), *words, rule)

    return _limited_table(("target", "before", "after", "class: rule"), mapping["changes"], row)


def _limited_table(
    head: Sequence[str], items: Sequence[Piece], row: Callable[[Piece], Sequence[str]]
) -> str:
    """Show the first rows of a table, and how many more there are; "" if there are none."""
    if not items:
        return ""
    remaining = len(items) - MOST_ROWS
    remark = f"\n\nand {remaining} more" if remaining > 0 else ""
    return markdown_table(head, map(row, items[:MOST_ROWS])) + remark


def _golden_block(mapping: MappingEntry) -> str:
    golden = mapping["golden"]
    if not golden:
        return ""
    failed = golden["failed"]
    lines = [f"Golden rows {code_span(golden['file'])}: {len(failed)} of {golden['rows']} fail."]
    if failed:
        lines += ["", *(f"- line {one['line']}: {escape_words(one['why'])}" for one in failed[:10])]
    if len(failed) > 10:
        lines.append(f"- and {len(failed) - 10} more")
    return "\n".join(lines)


def _drift_block(mapping: MappingEntry) -> str:
    def row(drift: DriftEntry) -> tuple[str, ...]:
        stops = "yes" if drift["stops"] else "no"
        words = code_span(drift["before"]), code_span(drift["after"])
        return (code_span(drift["path"]), escape_words(drift["what"]), *words, stops)

    head = ("path", "change of the data", "when mapped", "now", "stops a run")
    return _limited_table(head, mapping["drift"], row)


def _figures_table(mapping: MappingEntry) -> str:
    old, new = mapping["old"], mapping["new"]
    if not old and not new:
        return ""
    rows = [
        _figure_row(
            "rows with a record", old, new, lambda side: format_share(side["ok_rows"], side["rows"])
        ),
        _figure_row("records", old, new, lambda side: f"{side['records']:,}"),
        *_count_rows("left out: ", "failures", old, new),
        *_count_rows("messages of ", "roles", old, new),
        _figure_row("characters", old, new, lambda side: f"{side['chars']:,}"),
        _figure_row(
            "trained on", old, new, lambda side: format_share(side["trained_chars"], side["chars"])
        ),
    ]
    return markdown_table(_FIGURES, rows)


def _figure_row(
    name: str, old: Side | None, new: Side | None, show: Callable[[Side], str]
) -> tuple[str, ...]:
    return (name, show(old) if old else "-", show(new) if new else "-")


def _count_rows(
    prefix: str, key: Literal["failures", "roles"], old: SideEntry | None, new: SideEntry | None
) -> Iterator[tuple[str, ...]]:
    sides = [side and side[key] for side in (old, new)]
    names = list(dict.fromkeys(name for side in sides for name in side or ()))
    for name in names[:MOST_ROWS]:
        texts = ("-" if side is None else f"{side.get(name, 0):,}" for side in sides)
        yield (f"{prefix}{code_span(name, 60)}", *texts)
    if len(names) > MOST_ROWS:
        yield (f"{prefix}{len(names) - MOST_ROWS} others", "", "")


def _examples_block(mapping: MappingEntry) -> str:
    examples = mapping["examples"][:3]
    if not examples:
        return ""
    inner = []
    for one in examples:
        inner += [f"{escape_words(one['kind'])}: {code_span(one['place'])}", example_block(one)]
    return fold_blocks(f"{count_text(len(examples), 'record')} before and after", inner)


def _paths_table(mapping: MappingEntry) -> str:
    reach: dict[tuple[str, str], list[str]] = {}
    for column, side in enumerate((mapping["old"], mapping["new"])):
        for one in side["paths"] if side else ():
            cells = reach.setdefault((one["target"], one["path"]), ["-", "-"])
            absent = [f"{one[key]:,} {key}" for key in ("null", "missing") if one[key]]
            cells[column] = ", ".join([f"{one['resolved']:,}/{one['rows']:,} rows", *absent])

    def row(one: tuple[str, str]) -> tuple[str, ...]:
        return (escape_words(one[0]), code_span(one[1]), *reach[one])

    head = ("target", "path", "found before", "found after")
    table = _limited_table(head, list(reach), row)
    return fold_blocks("Rows that every path reaches", [table]) if table else ""


def _provenance_table(mapping: MappingEntry) -> str:
    old, new = mapping["provenance"]["old"], mapping["provenance"]["new"]
    names: tuple[_Stated, ...] = get_args(_Stated)
    rows = [
        _figure_row(name.replace("_sha256", ""), old, new, partial(_stated_text, name))
        for name in names
    ]
    rows += [_figure_row("cost", old, new, _cost_text)]
    known = [row for row in rows if row[1:] != ("-", "-")]
    inner = [markdown_table(_FIGURES, known)] if known else []
    command_title = "the command that shows this again"
    title = f"Who made it, and {command_title}" if inner else command_title.capitalize()
    line = mapping["reproduce"]
    lacking = "There is none: a name in it holds characters that cannot be typed."
    return fold_blocks(title, [*inner, lacking if line is None else command_block(line)])


def _stated_text(name: _Stated, side: ProvenanceEntry) -> str:
    value = side[name]
    if value is None or isinstance(value, bool):
        return {None: "-", True: "yes", False: "no"}[value]
    if isinstance(value, int | float):
        return code_span(f"{value:.2f}")
    return code_span(str(value)[:12] if name == "prompt_sha256" else str(value))


def _cost_text(side: ProvenanceEntry) -> str:
    cost = side["cost"]
    if not cost:
        return "-"
    usd = f", {cost['usd']:.4f} USD" if cost["usd"] is not None else ""
    calls = count_text(cost["calls"], "call") if cost["calls"] is not None else "calls unknown"
    spent = ", ".join(
        f"{count:,} tokens {direction}"
        for count, direction in ((cost["tokens_in"], "in"), (cost["tokens_out"], "out"))
        if count is not None
    )
    return escape_words(f"{calls}{', ' * bool(spent)}{spent}{usd}")


MARKER = "<!-- ingot-review -->"
FACTS = "<!-- verdict: {verdict}, mappings: {mappings} -->"
COMMENT_LIMIT = 65_000
SUMMARY_LIMIT = 1_000_000  # of 1 MiB for all that a step writes
_ROOM_OF_NOTE = 1_500  # bytes of the sentence that says where the rest is
_VERDICTS = {"block": "blocked", "warn": "passes, with warnings", "pass": "passes"}
_LONGEST_COMMAND = 1_000
_ID = 12  # characters of a commit's id


def render_comment(review: ReviewDocument, *, limit: int = COMMENT_LIMIT) -> str:
    """Return the comment below a pull request."""
    facts = FACTS.format(verdict=review["verdict"], mappings=len(review["mappings"]))
    top = f"{MARKER}\n{facts}\n"
    return f"{top}{render_summary(review, limit=limit - len(top))}"


def render_summary(review: ReviewDocument, *, limit: int = SUMMARY_LIMIT) -> str:
    """Return the same for GITHUB_STEP_SUMMARY, without the marker and with more room."""
    ordered = sort_by_level(review["mappings"])
    blocks = [*_verdict_lines(review), *_overview_table(ordered)]
    for one in ordered:
        blocks += mapping_blocks(one)
    return "\n\n".join(_cut_blocks(blocks, limit, review["reproduce"])) + "\n"


def _cut_blocks(blocks: Sequence[str], limit: int, command: str | None) -> Iterator[str]:
    """Yield the blocks, or as many as fit and a sentence that says where the rest is."""
    remaining = limit if sum(map(_block_size, blocks)) <= limit else limit - _ROOM_OF_NOTE
    for block in blocks:
        remaining -= _block_size(block)
        if remaining < 0:
            known = command is not None and utf8_size(command) <= _LONGEST_COMMAND
            line = command if known and command else "ingot review"
            yield "**The rest is left out: GitHub takes no longer text.** This command shows all:"
            yield command_block(f"{line} --full")
            return
        yield block


def _block_size(block: str) -> int:
    return utf8_size(block) + 2


def _verdict_lines(review: ReviewDocument) -> Iterator[str]:
    yield f"### {SIGNS[review['verdict']]} ingot review: {_VERDICTS[review['verdict']]}"
    line = f"{count_text(len(review['mappings']), 'mapping')} changed"
    line += f" between {_side_text(review, 'base')} and {_side_text(review, 'head')}"
    split = _level_counts(one["verdict"] for one in review["mappings"])
    yield f"{line}{': ' * bool(split)}{split}."
    if review["allow_breaking"]:
        yield "Breaking changes and lost records are allowed here: they warn."


def _side_text(review: ReviewDocument, name: Literal["base", "head"]) -> str:
    """Show a revision and its commit; for the base also the commit at which the head left it."""
    revision, commit, fork = review[name], review["commits"][name], review["commits"]["fork"]
    parts = [commit] if commit and commit != revision else []
    if name == "base" and fork and fork != commit:
        parts += ["left at", fork]
    name_text = code_span(revision[:_ID] if revision == commit else revision, 100)
    inner = " ".join(one if one == "left at" else code_span(one[:_ID]) for one in parts)
    return f"{name_text} ({inner})" if parts else name_text


def _overview_table(ordered: Sequence[MappingEntry]) -> Iterator[str]:
    """Show the mappings in a table, and how many are not in it."""
    head = ("verdict", "mapping", "change", "class", "records", "identical")
    if ordered:
        yield markdown_table(head, map(_overview_row, ordered[:MOST_ROWS]))
    if further := ordered[MOST_ROWS:]:
        yield f"and {len(further):,} more: {_level_counts(one['verdict'] for one in further)}"


def _overview_row(mapping: MappingEntry) -> tuple[str, ...]:
    old, new = mapping["old"], mapping["new"]
    records = " → ".join(f"{side['records']:,}" if side else "-" for side in (old, new))
    same = mapping["same"]
    return (
        f"{SIGNS[mapping['verdict']]} {mapping['verdict']}",
        code_span(mapping["path"]),
        escape_words(mapping["status"]),
        escape_words(mapping["class"]) if mapping["class"] else "-",
        records if old or new else "-",
        f"{same:,} of {mapping['of']:,}" if same is not None else "-",
    )


MOST = 10
_LONGEST = 1_000
_COMMANDS = {"block": "error", "warn": "warning"}


def github_annotations(review: ReviewDocument) -> list[str]:
    """Return notes at lines of mappings as job commands: ten of a level, the last counts more."""
    lines = []
    for level in _COMMANDS:
        reasons = [
            (mapping, reason)
            for mapping in sort_by_level(review["mappings"])
            for reason in mapping["reasons"]
            if reason["level"] == level
        ]
        for number, (mapping, reason) in enumerate(reasons[:MOST], start=1):
            remaining = len(reasons) - MOST if number == MOST else 0
            title = f"ingot review: {printable_line(reason['rule'], 60)}"
            line = [f"line={reason['line']}"] if reason["line"] else []
            # The name of a file is not redacted: by any other one the note finds no place.
            file = escape_property(mapping["path"])
            message = printable_line(reason["text"], _LONGEST)
            if remaining > 0:
                message += f" (and {remaining} more: the report has all)"
            listed = ",".join([f"file={file}", *line, f"title={escape_property(title)}"])
            lines.append(f"::{_COMMANDS[reason['level']]} {listed}::{escape_message(message)}")
    return lines
