"""The report as Markdown, the gates, and the proposal that waits for a person."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from ingot.agent.report import code, line, proposal_text, report_text, table
from ingot.agent.state import Order, State
from ingot.agent.waiting import (
    check_unedited,
    clear,
    command,
    proposal_folder,
    put_down,
    way_on,
)
from ingot.converters.errors import OutputError, ReviewNeeded

MAPPING = {"version": 2, "text": ["标题", "body"]}


def state(**given: Any) -> State:
    made: Any = {
        "order": Order(source="raw data", out="out").to_json(),
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
    return State(**{**made, **given})


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
        "| confidence | pass | 0.910 | none was set |",
        "| coverage | pass | 197/200 (98.5 %) | at least 98 % |",
        "| empty text | pass | 1/200 (0.5 %) | not all |",
        "| unreadable rows | pass | 0/200 (0.0 %) | at most 30 % |",
    ):
        assert part in text, part
    assert text.index("## Gates") < text.index("## Mapping")
    problem = {"pointer": "", "code": "coverage", "expected": "98%", "got": "90%", "nearest": None}
    assert "\n- coverage: /: 90%\n" in proposal_text(state(problems=[problem]))


def test_what_has_changed_stands_in_the_report() -> None:
    assert "Changed since" not in proposal_text(state())
    change = {"path": "a", "what": "vanished", "before": "string", "after": "", "stops": True}
    check = {**(state()["check"] or {}), "drift": [change], "changes": 1}
    text = proposal_text(state(check=check))
    assert "| shape of the data | warn | 1 change |" in text
    assert "| a | vanished | string |  | yes |" in text


def test_a_report_holds_no_secrets() -> None:
    proposal = {**(state()["proposal"] or {}), "reason": "Mail ann@example.org."}
    manifest = {"rows": {}, "records": {}, "rejects": {"not_text": 1}, "tokens": None}
    row = "a.jsonl row 3: not_text at x: bob@example.org"
    text = report_text(state(proposal=proposal), manifest, [row])
    assert "example.org" not in text
    assert text.count("[email]") + text.count("\\[email\\]") == 2


def test_without_a_proposal_the_report_says_so() -> None:
    assert "No proposal" in proposal_text(state(proposal=None, check=None))


def test_counts_rejects_tokens_and_the_model() -> None:
    manifest = {
        "rows": {"read": 10, "converted": 8, "rejected": 2, "filtered": 0},
        "records": {"written": 8},
        "rejects": {"not_text": 2},
        "tokens": {"documents": 8, "tokens": 123},
    }
    usage = {"host": "llm.example", "model": "m1", "calls": 1, "chars_sent": 5}
    text = report_text(state(usage=usage), manifest, ["a.jsonl row 3: not_text at x: [1]"])
    for part in (
        "| converted | 8 |",
        "| not\\_text | 2 |",
        "- `a.jsonl row 3: not_text at x: [1]`",
        "| tokens | 123 |",
        "sent to `llm.example`, model `m1`",
    ):
        assert part in text, part


def test_text_of_unknown_origin_stays_text() -> None:
    assert line("a\n# b | <b>c</b> [x](y)\x1b[2J\u202e") == (
        "a \\# b \\| \\<b\\>c\\</b\\> \\[x\\](y) \\[2J "
    )
    assert code("`rm`\n\x00") == "`´rm´ `"
    assert list(table(("a", "b"), [("x|y", 1)])) == ["| a | b |", "| --- | --- |", "| x\\|y | 1 |"]


# --- waiting


def test_a_proposal_is_laid_down_beside_the_destination(tmp_path: Path) -> None:
    folder = put_down(state(), str(tmp_path / "new" / "out"))
    assert folder == tmp_path / "new" / "out.proposal"
    assert json.loads((folder / "mapping.json").read_text()) == MAPPING
    assert "标题" in (folder / "mapping.json").read_text()
    assert (folder / "report.md").read_text().startswith(proposal_text(state()))
    put_down(state(proposal=None, check=None), str(tmp_path / "new" / "out"))
    assert [file.name for file in folder.iterdir()] == ["report.md"]


def test_a_mapping_edited_by_hand_is_kept(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    file = put_down(state(), out) / "mapping.json"
    put_down(state(), out)  # as proposed: replaced
    file.write_text(file.read_text() + " ")
    with pytest.raises(ReviewNeeded, match="was edited since"):
        put_down(state(proposal=None), out)
    clear(Order(source="x", out=out))
    assert file.read_text().endswith(" ")
    given = {**state()["order"], "mapping": MAPPING, "mapping_file": str(file)}
    put_down(state(order=given), out)  # the report is new, the file is the person's
    assert file.read_text().endswith(" ")
    with pytest.raises(ReviewNeeded, match="--mapping"):
        check_unedited(Order(source="x", out=out))


def test_a_proposal_that_was_converted_is_cleared(tmp_path: Path) -> None:
    order = Order(source="x", out=str(tmp_path / "out"))
    clear(order)
    folder = put_down(state(), str(tmp_path / "out"))
    (folder / "notes.txt").write_text("mine")
    clear(order)
    assert [file.name for file in folder.iterdir()] == ["notes.txt"]
    (folder / "notes.txt").unlink()
    put_down(state(), str(tmp_path / "out"))
    clear(order)
    assert not folder.exists()


def test_the_ways_on_begin_with_the_simple_one() -> None:
    folder = Path("out.proposal")
    read, approve, correct = way_on(state(problems=[]), folder).splitlines()
    assert read == "read out.proposal/report.md"
    assert "same command with --yes" in approve
    assert "--mapping out.proposal/mapping.json" in correct
    held = state(problems=[], review={"decision": "held", "why": "a gate"})
    assert "same command" not in way_on(held, folder)


def test_one_file_and_all_rows_are_counted() -> None:
    given = {**state()["source"], "files": 1}
    sample = {"rows": 37, "bad": 3, "complete": True, "total_rows": None}
    text = proposal_text(state(source=given, sample=sample))
    assert "\n1 file, " in text
    assert "40 rows sampled (all of them), 3 of them unreadable." in text


def test_a_given_mapping_has_no_confidence() -> None:
    proposal = {**(state()["proposal"] or {}), "mapper": "file"}
    assert "(by file)\n" in proposal_text(state(proposal=proposal))


def test_where_a_proposal_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert proposal_folder("a/b/") == Path("a/b.proposal")
    assert proposal_folder(".") == tmp_path.with_name(f"{tmp_path.name}.proposal")
    with pytest.raises(OutputError, match="root of a file system"):
        proposal_folder("/")


def test_the_command_that_goes_on_repeats_the_options() -> None:
    order = Order(source="raw data", out="my out", records="jsonl", source_name="x y", limit=5)
    words = shlex.split(command(order, mapping="m.json"))
    assert words == [
        *("ingot", "run", "raw data", "--out", "my out", "--mapping", "m.json"),
        *("--records", "jsonl", "--source", "x y", "--limit", "5", "--yes"),
    ]
    plain = command(Order(source="a", out="b", overwrite=True, language="en"), mapping="m")
    assert plain == "ingot run a --out b --mapping m --language en --overwrite --yes"


def test_without_a_mapping_a_person_has_to_write_one() -> None:
    assert "write a mapping" in way_on(state(proposal=None), Path("out.proposal"))
