"""Write the review of one mapping as Markdown sections that are shown whole or left out.

Every value of the document goes through markdown_escaping.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ingot.agent.privacy import redact
from ingot.agent.review.markdown_escaping import (
    code_span,
    escape_words,
    example_block,
    fence_lines,
    markdown_table,
    visible_text,
)
from ingot.converters.rows import Json

LEVELS = ("block", "warn", "pass")
SIGNS = {"block": "🔴", "warn": "🟡", "pass": "🟢"}
VERBS = {"block": "blocks", "warn": "warns", "pass": "passes"}
MOST_REASONS, MOST_ROWS, _MOST_RULES = 20, 40, 20
_FIGURES = ("", "before", "after")

Describe = Callable[[dict[str, Json]], str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """A complete piece of Markdown about one mapping; `first` ones are kept before all others."""

    text: str
    first: bool


def mapping_sections(mapping: dict[str, Json]) -> list[Section]:
    """Return the sections about one mapping of the review document; the first is its heading."""
    first = (
        _lead_text(mapping),
        _changes_block(mapping["changes"]),
        _golden_block(mapping),
        _drift_block(mapping),
    )
    then = (_examples_block(mapping), _paths_table(mapping), _provenance_table(mapping))
    return [
        *(Section(text=text, first=True) for text in (*first, _figures_table(mapping)) if text),
        *(Section(text=text, first=False) for text in then if text),
    ]


def sort_by_level(mappings: Sequence[dict[str, Json]]) -> list[dict[str, Json]]:
    """Sort the mappings, those that block first, else in their order."""
    return sorted(mappings, key=lambda one: LEVELS.index(one["verdict"]))


def level_sign(level: str) -> str:
    """Return a coloured sign and the level in a word."""
    return f"{SIGNS[level]} {level}"


def _lead_text(mapping: dict[str, Json]) -> str:
    lines = [f"#### {SIGNS[mapping['verdict']]} {code_span(mapping['path'])}", ""]
    if mapping["old_path"]:
        lines += [f"The file before: {code_span(mapping['old_path'])}", ""]
    lines += _reason_lines(mapping["reasons"])
    return "\n".join([*lines, *_sample_lines(mapping)])


def _reason_lines(reasons: Sequence[dict[str, Json]]) -> Iterator[str]:
    """Yield a line for each reason, those that block first, and how many more there are."""
    ordered = sorted(reasons, key=lambda one: LEVELS.index(one["level"]))
    yield from (reason_line(one) for one in ordered[:MOST_REASONS])
    yield from more_reasons(ordered[MOST_REASONS:])


def more_reasons(reasons: Sequence[dict[str, Json]]) -> Iterator[str]:
    """Yield how many reasons there are of each level and rule, if there are any."""
    if not reasons:
        return
    kinds = Counter((reason["level"], reason["rule"]) for reason in reasons).most_common()
    split = [f"{n:,} {level} {code_span(rule, 60)}" for (level, rule), n in kinds[:_MOST_RULES]]
    if len(kinds) > _MOST_RULES:
        split.append(f"{len(kinds) - _MOST_RULES} other rules")
    yield f"- and {len(reasons):,} more: {', '.join(split)}"


def reason_line(reason: dict[str, Json], path: str = "") -> str:
    """Say why a mapping does not simply pass, with the rule and the line in its file."""
    level = reason["level"]
    of = f" {code_span(path)}" if path else ""
    line = f", line {reason['line']}" if reason["line"] else ""
    rule = code_span(reason["rule"], 60)
    return f"- {SIGNS[level]} **{VERBS[level]}**{of} {escape_words(reason['text'])} ({rule}{line})"


def _sample_lines(mapping: dict[str, Json]) -> Iterator[str]:
    sample = mapping["sample"]
    if sample["kind"] == "none":
        if sample["why"] and not any(sample["why"] in one["text"] for one in mapping["reasons"]):
            yield f"\nNot replayed: {escape_words(sample['why'])}."
        return
    kind = "the pinned sample" if sample["kind"] == "pinned" else "a sample of"
    line = (
        f"\nReplayed on {kind} {code_span(sample['place'])}, {count_text(sample['rows'], 'row')}."
    )
    same = mapping["same"]
    if same is not None:
        line += f" **{same:,} of {mapping['of']:,} records are identical.**"
    yield line


def _changes_block(changes: Sequence[dict[str, Json]]) -> str:
    if not changes:
        return ""
    rows = [
        (
            escape_words(one["target"]),
            code_span(one["old"]) if one["old"] is not None else "-",
            code_span(one["new"]) if one["new"] is not None else "-",
            f"{escape_words(one['class'])}: {code_span(one['rule'], 60)}",
        )
        for one in changes[:MOST_ROWS]
    ]
    return markdown_table(("target", "before", "after", "class: rule"), rows) + _more_note(changes)


def _more_note(whole: Sequence[object]) -> str:
    left = len(whole) - MOST_ROWS
    return f"\n\nand {left} more" if left > 0 else ""


def _golden_block(mapping: dict[str, Json]) -> str:
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


def _drift_block(mapping: dict[str, Json]) -> str:
    drift = mapping["drift"]
    if not drift:
        return ""
    rows = (
        (
            code_span(one["path"]),
            escape_words(one["what"]),
            code_span(one["before"]),
            code_span(one["after"]),
            "yes" if one["stops"] else "no",
        )
        for one in drift[:MOST_ROWS]
    )
    head = ("path", "change of the data", "when mapped", "now", "stops a run")
    return markdown_table(head, rows) + _more_note(drift)


def _figures_table(mapping: dict[str, Json]) -> str:
    old, new = mapping["old"], mapping["new"]
    if not old and not new:
        return ""
    rows = [
        _figure_row(
            "rows with a record", old, new, lambda side: _share_text(side["ok_rows"], side["rows"])
        ),
        _figure_row("records", old, new, lambda side: f"{side['records']:,}"),
        *_count_rows("left out: ", "failures", old, new),
        *_count_rows("messages of ", "roles", old, new),
        _figure_row("characters", old, new, lambda side: f"{side['chars']:,}"),
        _figure_row(
            "trained on", old, new, lambda side: _share_text(side["trained_chars"], side["chars"])
        ),
    ]
    return markdown_table(_FIGURES, [row for row in rows if row])


def _figure_row(name: str, old: Json, new: Json, show: Describe) -> tuple[str, ...]:
    return (name, show(old) if old else "-", show(new) if new else "-")


def _count_rows(prefix: str, key: str, old: Json, new: Json) -> Iterator[tuple[str, ...]]:
    before, after = (old or {}).get(key, {}), (new or {}).get(key, {})
    names = list({**before, **after})
    for name in names[:MOST_ROWS]:
        row = (before.get(name, 0) if old else None, after.get(name, 0) if new else None)
        yield (
            f"{prefix}{code_span(name, 60)}",
            *("-" if one is None else f"{one:,}" for one in row),
        )
    if len(names) > MOST_ROWS:
        yield (f"{prefix}{len(names) - MOST_ROWS} others", "", "")


def _share_text(part: int, whole: int) -> str:
    if not whole:
        return f"{part:,}"
    return f"{part:,} of {whole:,} ({part / whole:.1%})"


def _examples_block(mapping: dict[str, Json]) -> str:
    shown = mapping["examples"][:3]
    if not shown:
        return ""
    inner = []
    for one in shown:
        inner += [f"{escape_words(one['kind'])}: {code_span(one['place'])}", example_block(one)]
    return _fold_blocks(f"{count_text(len(shown), 'record')} before and after", inner)


def _paths_table(mapping: dict[str, Json]) -> str:
    found: dict[tuple[str, str], list[str]] = {}
    for place, side in enumerate((mapping["old"], mapping["new"])):
        for one in side["paths"] if side else ():
            both = found.setdefault((one["target"], one["path"]), ["-", "-"])
            both[place] = _resolved_text(one)
    if not found:
        return ""
    rows = [
        (escape_words(target), code_span(path), *both)
        for (target, path), both in list(found.items())[:MOST_ROWS]
    ]
    inner = markdown_table(("target", "path", "found before", "found after"), rows)
    return _fold_blocks("Coverage of every path", [inner + _more_note(list(found))])


def _resolved_text(path: dict[str, Json]) -> str:
    absent = [f"{path[key]:,} {key}" for key in ("null", "missing") if path[key]]
    return ", ".join([f"{path['resolved']:,}/{path['rows']:,} rows", *absent])


def _provenance_table(mapping: dict[str, Json]) -> str:
    old, new = mapping["provenance"]["old"], mapping["provenance"]["new"]
    names = ("mapper", "model", "prompt_sha256", "confidence", "edited", "repaired")
    rows = [
        _figure_row(name.replace("_sha256", ""), old, new, _stated_value(name)) for name in names
    ]
    rows += [_figure_row("cost", old, new, _cost_text)]
    stated = [row for row in rows if row[1:] != ("-", "-")]
    inner = [markdown_table(_FIGURES, stated)] if stated else []
    again = "the command that shows this again"
    title = f"Who made it, and {again}" if inner else again.capitalize()
    line = mapping["reproduce"]
    lacking = "There is none: a name in it holds characters that cannot be typed."
    return _fold_blocks(title, [*inner, lacking if line is None else command_block(line)])


def _stated_value(name: str) -> Describe:
    def show(side: dict[str, Json]) -> str:
        value = side[name]
        if value is None or isinstance(value, bool):
            return {None: "-", True: "yes", False: "no"}[value]
        if isinstance(value, int | float):
            return code_span(f"{value:.2f}")
        return code_span(str(value)[:12] if name == "prompt_sha256" else str(value))

    return show


def _cost_text(side: dict[str, Json]) -> str:
    cost = side["cost"]
    if not cost:
        return "-"
    usd = f", {cost['usd']:.4f} USD" if cost["usd"] is not None else ""
    calls = count_text(cost["calls"], "call") if cost["calls"] is not None else "calls unknown"
    spent = ", ".join(
        f"{cost[key]:,} tokens {way}"
        for key, way in (("tokens_in", "in"), ("tokens_out", "out"))
        if cost[key] is not None
    )
    return escape_words(f"{calls}{', ' * bool(spent)}{spent}{usd}")


def command_block(line: str) -> str:
    """Return a command as a block of code that can be copied."""
    return fence_lines([visible_text(redact(line))], "sh")


def _fold_blocks(title: str, inner: Iterable[str]) -> str:
    """Fold blocks below a title, which is raw HTML."""
    body = "\n\n".join(inner)
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"


def count_text(number: int, noun: str) -> str:
    """Return `1 row`, `2 rows`, `1,200 rows`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"
