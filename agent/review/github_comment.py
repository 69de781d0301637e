"""Write a review for GitHub: the comment below a pull request, the job summary, annotations.

All are pure functions of the review document (schemas/review.schema.json). The comment begins with
a hidden marker, by which the next run finds and replaces it, and with the verdict for programs
(action.yml).

GitHub refuses comments over 65,536 characters, or 262,144 bytes; the limit has changed before.
Bytes are counted, since a text has at least as many as characters or UTF-16 units. What does not
fit is left out in whole sections, the details first, and the comment says how much. The verdict
stays, and so does what blocks: one line each in up to a third of the comment, then a count per
rule.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from ingot.agent.review.markdown_escaping import (
    code_span,
    escape_words,
    markdown_table,
    printable_line,
    utf8_size,
    visible_text,
)
from ingot.agent.review.sections import (
    LEVELS,
    SIGNS,
    Section,
    command_block,
    count_text,
    level_sign,
    mapping_sections,
    more_reasons,
    reason_line,
    sort_by_level,
)
from ingot.converters.rows import Json

MARKER = "<!-- ingot-review -->"
FACTS = "<!-- verdict: {verdict}, mappings: {mappings} -->"
COMMENT_LIMIT = 65_000
SUMMARY_LIMIT = 1_000_000  # of 1 MiB for all that a step writes
_SMALLEST = 8_192
_RESERVED = 2_000  # for what is said of what is left out
_VERDICTS = {"block": "blocked", "warn": "passes, with warnings", "pass": "passes"}
_LONGEST_COMMAND = 1_000
_ID = 12  # characters of a commit's id


def render_comment(review: dict[str, Json], *, limit: int = COMMENT_LIMIT) -> str:
    """Return the comment below a pull request."""
    facts = FACTS.format(verdict=review["verdict"], mappings=len(review["mappings"]))
    top = f"{MARKER}\n{facts}\n"
    return f"{top}{_render_review(review, limit - len(top))}"


def render_summary(review: dict[str, Json], *, limit: int = SUMMARY_LIMIT) -> str:
    """Return the same for GITHUB_STEP_SUMMARY, without the marker and with more room."""
    return _render_review(review, limit)


def _render_review(review: dict[str, Json], limit: int) -> str:
    if limit < _SMALLEST // 2:
        raise ValueError(f"{limit} bytes are too few for a review")
    ordered = sort_by_level(review["mappings"])
    pieces = [mapping_sections(one) for one in ordered]
    head = "\n\n".join([*_verdict_lines(review), *_overview_lines(ordered, limit // 4)])
    room = limit - utf8_size(head) - _RESERVED
    blocked = [
        of_one
        for one, of_one in zip(ordered, pieces, strict=True)
        if any(reason["level"] == "block" for reason in one["reasons"])
    ]
    if len(blocked) > 1 or any(utf8_size(of_one[0].text) > room for of_one in blocked):
        head = "\n\n".join([head, *_blocking_lines(ordered, limit // 3)])
    chosen = _choose_sections(pieces, limit - utf8_size(head) - _RESERVED)
    shown = (piece.text for kept in chosen for piece in kept)
    return "\n\n".join([head, *shown, *_left_out_lines(review, pieces, chosen)]) + "\n"


def _verdict_lines(review: dict[str, Json]) -> Iterator[str]:
    verdict = review["verdict"]
    levels = Counter(one["verdict"] for one in review["mappings"])
    yield f"### {SIGNS[verdict]} ingot review: {_VERDICTS[verdict]}"
    line = f"{count_text(levels.total(), 'mapping')} changed"
    line += f" between {_side_text(review, 'base')} and {_side_text(review, 'head')}"
    split = ", ".join(f"{levels[one]} {one}" for one in LEVELS if levels[one])
    yield f"{line}{': ' * bool(split)}{split}."
    if review["allow_breaking"]:
        yield "Breaking changes and lost records are allowed here: they warn."


def _side_text(review: dict[str, Json], name: str) -> str:
    """Show a revision and its commit; for the base also the commit at which the head left it."""
    stated, commits = review[name], review["commits"]
    told = [commits[name]] if commits[name] and commits[name] != stated else []
    if name == "base" and commits["fork"] != commits["base"]:
        told += ["left at", commits["fork"]]
    shown = code_span(stated[:_ID] if stated == commits[name] else stated, 100)
    inner = " ".join(one if one == "left at" else code_span(one[:_ID]) for one in told)
    return f"{shown} ({inner})" if told else shown


def _overview_lines(ordered: Sequence[dict[str, Json]], room: int) -> Iterator[str]:
    """Show all mappings in a table, or as many as fit, and how many are not in it."""
    if not ordered:
        return
    rows: list[tuple[str, ...]] = []
    for one in ordered:
        row = _overview_row(one)
        room -= utf8_size(" | ".join(row)) + 8
        if room < 0:
            break
        rows.append(row)
    yield markdown_table(("verdict", "mapping", "change", "class", "records", "identical"), rows)
    rest = Counter(one["verdict"] for one in ordered[len(rows) :])
    if rest:
        split = ", ".join(f"{rest[one]} {one}" for one in LEVELS if rest[one])
        yield f"and {rest.total():,} more: {split}"


def _overview_row(mapping: dict[str, Json]) -> tuple[str, ...]:
    old, new = mapping["old"], mapping["new"]
    records = " → ".join(f"{side['records']:,}" if side else "-" for side in (old, new))
    same = mapping["same"]
    return (
        level_sign(mapping["verdict"]),
        code_span(mapping["path"]),
        escape_words(mapping["status"]),
        escape_words(mapping["class"]) if mapping["class"] else "-",
        records if old or new else "-",
        f"{same:,} of {mapping['of']:,}" if same is not None else "-",
    )


def _blocking_lines(ordered: Sequence[dict[str, Json]], room: int) -> Iterator[str]:
    """Show what blocks: one line each while there is room, else counts per rule."""
    reasons = [
        (one["path"], reason)
        for one in ordered
        for reason in one["reasons"]
        if reason["level"] == "block"
    ]
    if not reasons:
        return
    lines: list[str] = []
    for path, reason in reasons:
        line = reason_line(reason, path)
        room -= utf8_size(line) + 1
        if room < 0:
            break
        lines.append(line)
    rest = [reason for _, reason in reasons[len(lines) :]]
    yield "\n".join(["**What blocks**", "", *lines, *more_reasons(rest)])


def _choose_sections(pieces: Sequence[Sequence[Section]], room: int) -> list[list[Section]]:
    """Choose what fits: the first sections of every mapping before any others."""
    kept: list[set[int]] = [set() for _ in pieces]
    for first in (True, False):
        for chosen, of_one in zip(kept, pieces, strict=True):
            for number, piece in enumerate(of_one):
                cost = utf8_size(piece.text) + 2
                if piece.first != first or (number and 0 not in chosen) or cost > room:
                    continue
                chosen.add(number)
                room -= cost
    return [
        [of_one[number] for number in sorted(chosen)]
        for chosen, of_one in zip(kept, pieces, strict=True)
    ]


def _left_out_lines(
    review: dict[str, Json],
    pieces: Sequence[Sequence[Section]],
    chosen: Sequence[Sequence[Section]],
) -> Iterator[str]:
    pairs = list(zip(pieces, chosen, strict=True))
    mappings = sum(not shown for _, shown in pairs)
    parts = sum(len(of_one) - len(shown) for of_one, shown in pairs if shown)
    if mappings or parts:
        left = f"{count_text(mappings, 'mapping')} and {count_text(parts, 'section')}"
        yield f"**Truncated: {left} are left out.** The whole:"
        line = review["reproduce"] or "ingot review"
        yield command_block(
            f"{line if utf8_size(line) <= _LONGEST_COMMAND else 'ingot review'} --full"
        )


MOST = 10
_LONGEST = 1_000
_COMMANDS = {"block": "error", "warn": "warning"}


def github_annotations(review: dict[str, Json]) -> list[str]:
    """Return notes at the lines of the mappings as job commands, errors first."""
    return [*_level_annotations(review, "block"), *_level_annotations(review, "warn")]


def _level_annotations(review: dict[str, Json], level: str) -> Iterator[str]:
    """Yield at most ten; the last one says how many more there are."""
    found = [
        (mapping, reason)
        for mapping in sort_by_level(review["mappings"])
        for reason in mapping["reasons"]
        if reason["level"] == level
    ]
    for place, (mapping, reason) in enumerate(found[:MOST], start=1):
        left = len(found) - MOST if place == MOST else 0
        yield _annotation_command(mapping, reason, left)


def _annotation_command(mapping: dict[str, Json], reason: dict[str, Json], left: int) -> str:
    title = f"ingot review: {printable_line(reason['rule'], 60)}"
    line = [f"line={reason['line']}"] if reason["line"] else []
    # The name of a file is not redacted: by any other one the note finds no place.
    file = _escape_property(mapping["path"])
    message = printable_line(reason["text"], _LONGEST)
    if left > 0:
        message += f" (and {left} more: the report has all)"
    listed = ",".join([f"file={file}", *line, f"title={_escape_property(title)}"])
    return f"::{_COMMANDS[reason['level']]} {listed}::{_escape_message(message)}"


def _escape_message(text: str) -> str:
    return visible_text(text).replace("%", "%25")


def _escape_property(text: str) -> str:
    return _escape_message(text).replace(":", "%3A").replace(",", "%2C")
