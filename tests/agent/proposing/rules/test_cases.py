"""The cases of `cases/`: rows by a template, and what the rules make of them.

A text of a row holds `{question}`, `{answer}` and the other texts of the pool by the row's number,
`{answer+2}` those two further on; `{n}`, `{n*3}` or `{n/3}` alone is a number. `{"turn": [...]}` is
one after the other, row by row. What is expected is said by the number of a record: its `turns`,
the text of the `first` or `last` one, its `system`; or of all: `records`, `decision`, `language`.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.agent.proposing.rules.conftest import Outcome, Pool

CASES = {
    name: case
    for file in sorted((Path(__file__).parent / "cases").glob("*.json"))
    for name, case in json.loads(file.read_text("utf-8")).items()
}
NUMBER = re.compile(r"\{n(?:([*/])(\d+))?\}")
TEXT = re.compile(r"\{([a-z_]+)(?:\+(\d+))?\}")


def filled(template: Any, pool: Pool, n: int) -> Any:
    """Return what a template says of the row or record with a number."""
    if isinstance(template, dict):
        if template.keys() == {"turn"}:
            return filled(template["turn"][n % len(template["turn"])], pool, n)
        return {key: filled(one, pool, n) for key, one in template.items()}
    if isinstance(template, list):
        return [filled(one, pool, n) for one in template]
    if not isinstance(template, str):
        return template
    if number := NUMBER.fullmatch(template):
        by = int(number[2] or 1)
        return n / by if number[1] == "/" else n * by
    text = template.replace("{n}", str(n))
    return TEXT.sub(lambda found: str(getattr(pool, found[1])(n + int(found[2] or 0))), text)


def seen(outcome: Outcome, what: str, expected: Any) -> Any:
    """Return what an outcome says of what is expected."""
    match what:
        case "decision":
            return outcome.proposal.reason and outcome.proposal.decision
        case "records":
            return len(outcome.records)
        case "language":
            return outcome.meta["language"]["literal"]
    read = {
        "turns": lambda n: [list(turn) for turn in outcome.turns(n)],
        "first": lambda n: outcome.turns(n)[0][1],
        "last": lambda n: outcome.turns(n)[-1][1],
        "system": lambda n: outcome.records[n]["system"],
    }[what]
    return {number: read(int(number)) for number in expected}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_case(mapped: Any, pool: Pool, case: dict[str, Any]) -> None:
    rows = [filled(case["row"], pool, n) for n in range(case["rows"])]
    outcome = mapped(rows, "sft")
    expected = {what: one for what, one in case.items() if what not in ("row", "rows")}
    assert expected
    for what, one in expected.items():
        by_number = isinstance(one, dict)
        wanted = {n: filled(text, pool, int(n)) for n, text in one.items()} if by_number else one
        assert seen(outcome, what, one) == wanted
