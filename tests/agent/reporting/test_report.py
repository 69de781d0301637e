"""The report as Markdown, the gates, and the proposal that waits for a person."""

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ingot.agent.privacy import Redactor
from ingot.agent.proposing.proposal import Proposal, redacted_proposal
from ingot.agent.reporting.proposal_folder import (
    check_unedited,
    next_steps,
    order_command,
    proposal_path,
    remove_proposal,
    write_proposal,
)
from ingot.agent.reporting.report import (
    markdown_code,
    markdown_line,
    markdown_table,
    proposal_text,
    report_text,
)
from ingot.agent.state import Order, State
from ingot.converters.errors import OutputError, ReviewNeeded
from ingot.converters.json_yaml import decode, encode

MAPPING = {"version": 2, "text": ["标题", "body"]}
RULES = {"version": 2, "text": "body"}


def state(**given: Any) -> State:
    return decode(State, {**document(), **given})


def document() -> dict[str, Any]:
    return {
        "order": encode(Order(source="raw data", out="out")),
        "source": {
            "name": "my_set",
            "files": 2,
            "bytes": 99,
            "left_out": [{"name": "a`b.md", "why": "a text for people"}],
            "left_out_count": 8,
        },
        "sample": {"rows": 200, "bad": 1, "complete": False, "total_rows": None},
        "proposal": {
            "decision": "pt",
            "mapping": MAPPING,
            "confidence": 0.91,
            "reason": "body holds *running* text.",
            "evidence": [
                {
                    "target": "text",
                    "choice": "body",
                    "why": "long | prose",
                    "runner_up": None,
                    "confidence": 0.9,
                }
            ],
            "mapper": "rules",
            "detected": {},
        },
        "check": {
            "rows": 200,
            "ok_rows": 196,
            "records": 196,
            "coverage": 0.985,
            "ragged": 0,
            "failures": {"not_text": 3, "empty_text": 1},
            "paths": [
                {
                    "path": "body",
                    "pointer": "/text/1",
                    "need": "part",
                    "resolved": 196,
                    "null": 4,
                    "missing": 0,
                }
            ],
            "warnings": ["a column is called en"],
        },
        "problems": [],
        "usage": {},
    }


def test_a_proposal_for_a_reviewer() -> None:
    text = proposal_text(state())
    assert text.startswith("# my\\_set\n")
    for part in (
        "**pt: running text for pretraining** (by rules, confidence 0.91)",
        "body holds \\*running\\* text.",
        "| text | 标题 + body |",
        "196/200 sampled rows give 196 records (98.5% without an error).",
        "| body | /text/1 | 196/200 rows, 4 null |",
        "- not\\_text: 3",
        "- warning: a column is called en",
        "| text | body | long \\| prose |  | 0.90 |",
        "- left out: `a´b.md`: a text for people",
        "- left out: 7 more",
    ):
        assert part in text, part


def test_problems_come_first() -> None:
    problem = {
        "pointer": "/text/0",
        "code": "unresolved_path",
        "expected": "a path that exists",
        "got": "titel",
        "nearest": "title",
    }
    text = proposal_text(state(problems=[problem]))
    assert "unresolved\\_path" in text
    assert text.index("## Problems") < text.index("## Mapping")


def test_the_gates_stand_in_the_report() -> None:
    text = proposal_text(state())
    for part in (
        "| gate | state | found | wanted |",
        "| confidence | pass | 0.91 | at least 0.9 |",
        "| coverage | pass | 197/200 (98.5 %) | at least 98 % |",
        "| empty text | pass | 1/200 (0.5 %) | fewer than all |",
        "| unreadable rows | pass | 0/200 (0.0 %) | at most 30 % |",
    ):
        assert part in text, part
    assert text.index("## Gates") < text.index("## Mapping")
    problem = {"pointer": "", "code": "coverage", "expected": "98%", "got": "90%", "nearest": None}
    text = proposal_text(state(problems=[problem]))
    assert "| coverage | fail |" in text
    assert text.count("90%") == 1  # among the problems, and not with the gates once more


def test_what_has_changed_stands_in_the_report() -> None:
    assert "Changed since" not in proposal_text(state())
    change = {"path": "a", "what": "vanished", "before": "string", "after": "", "stops": True}
    check = {**document()["check"], "drift": [change], "changes": 1}
    text = proposal_text(state(check=check))
    assert "| shape of the data | warn | 1 change |" in text
    assert "| a | vanished | string |  | yes |" in text


def test_a_report_holds_no_secrets() -> None:
    proposal = decode(Proposal, {**document()["proposal"], "reason": "Mail ann@example.org."})
    redactor = Redactor("redacted")
    manifest = {
        "rows": {},
        "records": {},
        "rejects": {"not_text": 1},
        "warnings": {},
        "tokens": None,
    }
    row = "a.jsonl row 3: not_text at x: bob@example.org"
    safe = {**state(), "proposal": redacted_proposal(proposal, redactor)}
    text = report_text(safe, manifest, [redactor.text(row)])
    assert "example.org" not in text
    assert text.count("[email]") + text.count("\\[email\\]") == 2


def test_without_a_proposal_the_report_says_so() -> None:
    assert "No proposal" in proposal_text(state(proposal=None, check=None))


def test_counts_rejects_tokens_and_the_model() -> None:
    manifest = {
        "rows": {"read": 10, "converted": 8, "rejected": 2, "filtered": 0},
        "records": {"written": 8},
        "rejects": {"not_text": 2},
        "warnings": {"non_finite": {"numbers": 3, "rows": 1, "file": "a.jsonl", "row": 4}},
        "tokens": {"documents": 8, "tokens": 123},
    }
    usage = {"host": "llm.example", "model": "m1", "calls": 1, "chars_sent": 5}
    text = report_text(state(usage=usage), manifest, ["a.jsonl row 3: not_text at x: [1]"])
    for part in (
        "| converted | 8 |",
        "| not\\_text | 2 |",
        "- `a.jsonl row 3: not_text at x: [1]`",
        "| tokens | 123 |",
        "NaN or Infinity was read as null: 3 numbers in 1 row, the first in a.jsonl row 4.",
        "sent to `llm.example`, model `m1`",
    ):
        assert part in text, part


@pytest.mark.parametrize(
    ("usage", "said"),
    [
        (
            {"chars_sent": 5, "calls": 1, "tokens_in": 4719, "tokens_out": 149, "cost": 0.01334},
            "Parts of the sample were sent to `llm.example`, model `m1`: 1 call, 4,719 tokens in "
            "and 149 out, $0.0133.",
        ),
        ({"chars_sent": 5, "remembered": True}, "Parts of the sample were sent to "),
        ({"chars_sent": 0, "remembered": True}, "An earlier answer was used, of `llm.example`, "),
        ({"chars_sent": 0}, "Nothing was sent to `llm.example`, model `m1`."),
    ],
)
def test_a_report_claims_no_more_than_was_sent(usage: dict[str, Any], said: str) -> None:
    told = {"host": "llm.example", "model": "m1", "calls": 1, **usage}
    text = proposal_text(state(usage=told)).partition("## Model\n\n")[2]
    assert text.startswith(said)
    assert text.count("\n") == 1


def test_text_of_unknown_origin_stays_text() -> None:
    assert markdown_line("a\n# b | <b>c</b> [x](y)\x1b[2J\u202e") == (
        "a \\# b \\| \\<b\\>c\\</b\\> \\[x\\](y) \\[2J "
    )
    assert markdown_code("`rm`\n\x00") == "`´rm´ `"
    assert list(markdown_table(("a", "b"), [("x|y", "1")])) == [
        "| a | b |",
        "| --- | --- |",
        "| x\\|y | 1 |",
    ]


# --- waiting


def test_a_proposal_is_laid_down_beside_the_destination(tmp_path: Path) -> None:
    folder = write_proposal(state(), str(tmp_path / "new" / "out"))
    assert folder == tmp_path / "new" / "out.proposal"
    assert json.loads((folder / "mapping.json").read_text()) == MAPPING
    assert "标题" in (folder / "mapping.json").read_text()
    assert (folder / "report.md").read_text().startswith(proposal_text(state()))
    write_proposal(state(proposal=None, check=None), str(tmp_path / "new" / "out"))
    assert [file.name for file in folder.iterdir()] == ["report.md"]


def test_a_mapping_edited_by_hand_is_kept(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    file = write_proposal(state(), out) / "mapping.json"
    write_proposal(state(), out)  # as proposed: replaced
    file.write_text(file.read_text() + " ")
    with pytest.raises(ReviewNeeded, match="was edited since"):
        write_proposal(state(proposal=None), out)
    remove_proposal(Order(source="x", out=out))
    assert file.read_text().endswith(" ")
    given = {**document()["order"], "mapping": MAPPING, "mapping_file": str(file)}
    write_proposal(state(order=given), out)  # the report is new, the file is the person's
    assert file.read_text().endswith(" ")
    with pytest.raises(ReviewNeeded, match="--mapping"):
        check_unedited(Order(source="x", out=out))


def disputed(**given: Any) -> State:
    """A model's proposal beside the rules' other one, which are sure."""
    proposal = {**document()["proposal"], "mapper": "llm", **given}
    rules = {**document()["proposal"], "mapping": RULES}
    return state(proposal=proposal, opinion={"agrees": False, "proposal": rules})


@pytest.mark.parametrize("name", ["mapping.json", "alternative.json"])
def test_both_proposals_are_a_persons_once_edited(tmp_path: Path, name: str) -> None:
    out = str(tmp_path / "out")
    order = Order(source="x", out=out)
    folder = write_proposal(disputed(), out)
    assert json.loads((folder / "alternative.json").read_text()) == RULES
    check_unedited(order)
    (folder / name).write_text("{}")
    with pytest.raises(ReviewNeeded, match=f"{name}: was edited since"):
        check_unedited(order)
    with pytest.raises(ReviewNeeded, match="was edited since"):
        write_proposal(state(), out)  # has no alternative, and would remove the person's
    remove_proposal(order)
    assert len(list(folder.iterdir())) == 3
    given = {**document()["order"], "mapping": RULES, "mapping_file": str(folder / name)}
    write_proposal(state(order=given), out)  # the new report still knows what was proposed
    with pytest.raises(ReviewNeeded, match=f"{name}: was edited since"):
        check_unedited(order)
    (folder / name).unlink()
    assert write_proposal(state(), out) == folder
    assert sorted(file.name for file in folder.iterdir()) == ["mapping.json", "report.md"]
    remove_proposal(order)
    assert not folder.exists()


def test_an_alternative_that_ingot_did_not_write_is_kept(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    folder = write_proposal(state(), out)
    (folder / "alternative.json").write_text("{}")
    with pytest.raises(ReviewNeeded, match=r"alternative\.json"):
        write_proposal(disputed(), out)
    assert (folder / "alternative.json").read_text() == "{}"


def test_that_there_is_nothing_to_convert_is_laid_down_as_a_mapping(tmp_path: Path) -> None:
    nothing = disputed(decision="irrelevant", mapping=None)
    folder = write_proposal(nothing, str(tmp_path / "out"))
    assert json.loads((folder / "mapping.json").read_text()) == {"version": 2, "text": None}
    assert json.loads((folder / "alternative.json").read_text()) == RULES
    check_unedited(Order(source="x", out=str(tmp_path / "out")))


def test_a_proposal_that_was_converted_is_cleared(tmp_path: Path) -> None:
    order = Order(source="x", out=str(tmp_path / "out"))
    remove_proposal(order)
    folder = write_proposal(state(), str(tmp_path / "out"))
    (folder / "notes.txt").write_text("mine")
    remove_proposal(order)
    assert [file.name for file in folder.iterdir()] == ["notes.txt"]
    (folder / "notes.txt").unlink()
    write_proposal(state(), str(tmp_path / "out"))
    remove_proposal(order)
    assert not folder.exists()


def test_the_ways_on_begin_with_the_simple_one() -> None:
    folder = Path("out.proposal")
    read, approve, correct = next_steps(state(problems=[]), folder).splitlines()
    assert read == "read out.proposal/report.md"
    assert "same command with --yes" in approve
    assert "--mapping out.proposal/mapping.json" in correct
    held = state(problems=[], review={"decision": "held", "why": "a gate"})
    assert "same command" not in next_steps(held, folder)


@pytest.mark.parametrize("least", [0.0, 0.95])
def test_the_rules_come_first_where_a_model_finds_nothing(least: float) -> None:
    given = disputed(decision="irrelevant", mapping=None)
    given["order"] = replace(given["order"], min_confidence=least)  # to drop it settles nothing
    read, rules, accept, write = next_steps(given, Path("out.proposal")).splitlines()
    assert read == "read out.proposal/report.md"
    assert rules.startswith("to take the rules': ingot run ")
    assert "--mapping out.proposal/alternative.json" in rules
    assert accept.startswith("to accept that there is nothing to convert: ingot run ")
    assert "--mapping out.proposal/mapping.json" in accept
    assert write.startswith("write a mapping, then: ")


def test_where_only_confidence_lacks_the_option_may_be_dropped() -> None:
    proposal = {**document()["proposal"], "decision": "irrelevant", "mapping": None}
    order = {**document()["order"], "min_confidence": 0.95}
    given = state(proposal=proposal, order=order)
    _, accept, drop, write = next_steps(given, Path("out.proposal")).splitlines()
    assert accept.startswith("to accept that there is nothing to convert: ")
    assert drop.endswith(": the same command with --min-confidence 0")
    assert write.startswith("write a mapping")


def test_the_ways_on_from_data_that_a_model_cannot_map() -> None:
    folder = Path("out.proposal")
    read, rules, write = next_steps(
        disputed(decision="unmappable", mapping=None), folder
    ).splitlines()
    assert rules.startswith("to take the rules': ")
    proposal = {**document()["proposal"], "decision": "unmappable", "mapping": None}
    alone = state(proposal=proposal)
    assert next_steps(alone, folder).splitlines() == [read, write]


def test_one_file_and_all_rows_are_counted() -> None:
    given = {**document()["source"], "files": 1}
    sample = {"rows": 37, "bad": 3, "complete": True, "total_rows": None}
    text = proposal_text(state(source=given, sample=sample))
    assert "\n1 file, " in text
    assert "40 rows sampled (all of them), 3 of them unreadable." in text


def test_a_given_mapping_has_no_confidence() -> None:
    proposal = {**document()["proposal"], "mapper": "file"}
    assert "(by file)\n" in proposal_text(state(proposal=proposal))


def test_where_a_proposal_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert proposal_path("a/b/") == Path("a/b.proposal")
    assert proposal_path(".") == tmp_path.with_name(f"{tmp_path.name}.proposal")
    with pytest.raises(OutputError, match="root of a file system"):
        proposal_path("/")


def test_the_command_that_goes_on_repeats_the_options() -> None:
    order = Order(source="raw data", out="my out", records="jsonl", source_name="x y", limit=5)
    words = shlex.split(order_command(order, mapping="m.json"))
    assert words == [
        *("ingot", "run", "raw data", "--out", "my out", "--mapping", "m.json"),
        *("--records", "jsonl", "--source", "x y", "--limit", "5", "--yes"),
    ]
    plain = order_command(Order(source="a", out="b", overwrite=True, language="en"), mapping="m")
    assert plain == "ingot run a --out b --mapping m --language en --overwrite --yes"
    order = Order(source="a", out="b", tokenizer="t.json", language="mix", allow_drift=True)
    assert order_command(order, mapping="m") == (
        "ingot run a --out b --mapping m --tokenizer t.json --language mix --allow-drift --yes"
    )


def test_without_a_mapping_a_person_has_to_write_one() -> None:
    assert "write a mapping" in next_steps(state(proposal=None), Path("out.proposal"))
