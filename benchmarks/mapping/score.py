"""Scores unified records against the accepted answers of a benchmark case.

A case is a folder with `case.json` (`mode`: pt, sft or irrelevant; `difficulty`; `tags`; `accept`
and `partial`: names of answer files) and those files: unified records as JSON lines.

* pass: every expected record exactly once and nothing else, for one of the accepted files. An
  irrelevant case passes when no record is written.
* partial: F1 of exact records of at least 0.5 against an accepted file, or 0.9 against a partial
  one.
* fail: anything else.

Records match on roles, contents, loss masks and system (sft) or text (pt), in any order. White
space at the ends and the place of the system prompt (message or field) do not count; metadata do
not either.
"""

import json
from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Score:
    """Verdict on one case, and its records: expected by the best answer file, matched, written."""

    case: str
    mode: str
    difficulty: str
    tags: tuple[str, ...]
    verdict: str
    expected: int = 0
    matched: int = 0
    written: int = 0
    missing: tuple[Hashable, ...] = ()
    extra: tuple[Hashable, ...] = ()


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The records of a JSONL file."""
    lines = path.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line.strip()]


def trimmed(text: str | None, case: dict[str, Any]) -> str:
    """Text without white space at its ends; leading blanks stay where the case is about them."""
    if "leading-whitespace" in case["tags"]:
        return (text or "").rstrip().lstrip("\r\n")
    return (text or "").strip()


def canonical(record: dict[str, Any], case: dict[str, Any]) -> Hashable:
    """What has to be equal for two records to match."""
    if case["mode"] == "pt":
        return trimmed(record.get("text"), case)
    if "messages" not in record:
        return ("no conversation", trimmed(record.get("text"), case))
    system = trimmed(record.get("system"), case)
    turns: list[tuple[str, str, bool]] = []
    heads = []
    for message in record["messages"]:
        content = trimmed(message["content"], case)
        if message["role"] == "system" and not turns:
            heads.append(content)
            continue
        mask = message.get("loss_mask")
        asked = message["role"] == "assistant" if mask is None else bool(mask)
        turns.append((message["role"], content, asked))
    return ("\n".join(filter(None, heads)) or system, tuple(turns))


def compare(wanted: Iterable[Hashable], got: Iterable[Hashable]) -> tuple[Counter[Hashable], ...]:
    """Multisets: matched, missing, extra."""
    want, have = Counter(wanted), Counter(got)
    return want & have, want - have, have - want


def f1(matched: int, expected: int, written: int) -> float:
    """Harmonic mean of recall and precision."""
    return 2 * matched / max(1, expected + written)


def against(path: Path, case: dict[str, Any], got: list[Hashable], *, accepted: bool) -> Score:
    """The score against one answer file."""
    wanted = [canonical(record, case) for record in read_lines(path)]
    matched, missing, extra = compare(wanted, got)
    value = f1(matched.total(), len(wanted), len(got))
    passed = accepted and not missing and not extra
    partial = value >= (0.5 if accepted else 0.9)
    return Score(
        **facts(case),
        verdict="pass" if passed else "partial" if partial else "fail",
        expected=len(wanted),
        matched=matched.total(),
        written=len(got),
        missing=tuple(missing.elements()),
        extra=tuple(extra.elements()),
    )


def facts(case: dict[str, Any]) -> dict[str, Any]:
    """The fields of a score that come from the case."""
    return {
        "case": case["name"],
        "mode": case["mode"],
        "difficulty": case["difficulty"],
        "tags": tuple(case["tags"]),
    }


def score(folder: Path, records: list[dict[str, Any]] | None) -> Score:
    """Score the records made for the case in `folder`; None = the run failed."""
    case = json.loads((folder / "case.json").read_text(encoding="utf-8"))
    if records is None:
        return Score(**facts(case), verdict="fail")
    if case["mode"] == "irrelevant":
        return Score(**facts(case), verdict="fail" if records else "pass", written=len(records))
    got = [canonical(record, case) for record in records]
    tried = [against(folder / name, case, got, accepted=True) for name in case["accept"]]
    tried += [against(folder / name, case, got, accepted=False) for name in case["partial"]]
    order = {"pass": 2, "partial": 1, "fail": 0}
    return max(tried, key=lambda s: (order[s.verdict], f1(s.matched, s.expected, s.written)))
