"""What a review found of one mapping, as the review document holds it: plain JSON, redacted."""

import re
from collections.abc import Sequence
from pathlib import Path

from ingot.agent.meaning.rules import Change
from ingot.agent.redaction import named_secrets, redact
from ingot.agent.review.differing import examples
from ingot.agent.review.golden import GoldenResult, golden_file
from ingot.agent.review.places import line_at, lines_of, target, written
from ingot.agent.review.replay import Ran, Replay, drift_json
from ingot.agent.review.revisions import Side
from ingot.agent.review.touched import Document
from ingot.agent.review.verdict import Case, Reason, place, worst
from ingot.converters.rows import Json

_AT_LINE = re.compile(r"\bline (\d+) column")


def of_mapping(
    case: Case, found: Sequence[Reason], base: Side, head: Side, command: str | None
) -> dict[str, Json]:
    """An element of `mappings` of the review document.

    Args:
        case: what is known of the mapping.
        found: the reasons for its verdict.
        base: the side of the old mapping.
        head: the side of the new one.
        command: shows the same again, None = there is none.
    """
    one = case.touched
    lines = lines_of(one.text)
    return {
        "path": written(head.shown(one.path)),
        "old_path": None if one.old_path is None else written(base.shown(one.old_path)),
        "status": one.status,
        "verdict": worst(reason.level for reason in found),
        "class": case.kind,
        "reasons": [_reason(reason, lines) for reason in found],
        "changes": [_change(change, lines) for change in case.changes],
        **_replayed(case.replay),
        "golden": _golden(case.golden, head.shown(one.path)),
        "provenance": {"old": _provenance(one.old), "new": _provenance(one.new)},
        "reproduce": command,
    }


def _reason(one: Reason, lines: dict[str, int]) -> dict[str, Json]:
    """A reason; a text that is no JSON says itself in which line."""
    stated = _AT_LINE.search(one.text) if one.rule == "broken" else None
    line = None if one.pointer is None else line_at(lines, one.pointer)
    if stated:
        line = int(stated[1])
    return {"level": one.level, "rule": one.rule, "text": written(one.text), "line": line}


def _change(one: Change, lines: dict[str, int]) -> dict[str, Json]:
    return {
        "target": redact(one.target),
        "rule": one.rule,
        "class": one.kind,
        "old": None if one.old is None else redact(one.old),
        "new": None if one.new is None else redact(one.new),
        "line": line_at(lines, place(one)),
    }


def _replayed(ran: Replay) -> dict[str, Json]:
    matched = ran.matched
    first = ran.new or ran.old
    return {
        "sample": {
            "kind": ran.stand.kind,
            "place": written(ran.stand.place),
            "rows": first.trial.report.rows if first else 0,
            "sha256": ran.stand.sha256,
            "why": written(ran.stand.why),
        },
        "old": _side(ran.old),
        "new": _side(ran.new),
        "same": matched.same if matched else None,
        "of": matched.of if matched else None,
        "examples": examples(matched.differences, _secrets(ran)) if matched else [],
        "drift": drift_json(ran.drift),
    }


def _secrets(ran: Replay) -> dict[str, str]:
    """What is hidden in the sampled rows for their keys alone: records have it without the key."""
    return named_secrets(
        [row.value for side in (ran.old, ran.new) if side for row in side.trial.sample.rows]
    )


def _side(ran: Ran | None) -> dict[str, Json] | None:
    if ran is None:
        return None
    paths = [
        {
            "target": redact(target(one.pointer)),
            "path": redact(one.path),
            "resolved": one.resolved,
            "null": one.null,
            "missing": one.missing,
            "rows": one.resolved + one.null + one.missing,
        }
        for one in ran.trial.report.paths
    ]
    return {**ran.figures(), "paths": paths}


def _golden(found: GoldenResult | None, path: str) -> dict[str, Json] | None:
    if found is None:
        return None
    failed = [{"line": one.line, "why": one.why} for one in found.failed]
    return {
        "file": written(golden_file(Path(path)).as_posix()),
        "rows": found.rows,
        "failed": failed,
    }


def _provenance(document: Document | None) -> dict[str, Json] | None:
    """Who made a mapping; whatever has not the type that it should have is not stated."""
    stated = (document or {}).get("provenance")
    if not isinstance(stated, dict) or not stated:
        return None
    repaired = stated.get("repaired")
    return {
        **{key: _text(stated.get(key)) for key in ("mapper", "model", "prompt_sha256")},
        "confidence": _number(stated.get("confidence")),
        "edited": stated["edited"] if isinstance(stated.get("edited"), bool) else None,
        "repaired": bool(repaired) if isinstance(repaired, bool | list) else None,
        "cost": _cost(stated.get("cost")),
    }


def _cost(stated: Json) -> dict[str, Json] | None:
    if not isinstance(stated, dict):
        return None
    return {key: _number(stated.get(key)) for key in ("calls", "tokens_in", "tokens_out", "usd")}


def _text(stated: Json) -> str | None:
    return redact(stated) if isinstance(stated, str) else None


def _number(stated: Json) -> float | int | None:
    known = isinstance(stated, int | float) and not isinstance(stated, bool)
    return stated if known else None
