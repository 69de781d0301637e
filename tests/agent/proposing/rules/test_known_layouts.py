"""Known layouts: each has a golden set and a line in the docs, and claims nothing else."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ingot.agent.proposing.proposal import Proposal, Request
from ingot.agent.proposing.rules import known_layouts as known
from ingot.agent.proposing.rules.mapper import propose
from ingot.cli.app import app
from ingot.converters import json_yaml
from ingot.converters.mapping.bind import bind
from ingot.converters.sources import open_source
from ingot.converters.sources.sample import draw_sample
from tests.agent.documents import document
from tests.agent.proposing.rules.conftest import Mapped, _records
from tests.conftest import SURE

ROOT = Path(__file__).resolve().parents[4]
GOLDEN = ROOT / "tests/golden/known"
LAYOUTS = {one.name: one for one in known.known_layouts()}
SETS = sorted(path.name for path in GOLDEN.iterdir())


def proposal_of(folder: Path, mode: str = "auto") -> Proposal:
    source = open_source(str(folder))
    return propose(source, draw_sample(source), Request(mode=mode))


def layout_of(proposal: Proposal) -> str:
    """The known layout that the decision names, "" = none."""
    found = re.match(r"known layout ([\w-]+):", proposal.evidence[0].why)
    return found[1] if found else ""


def short(record: dict[str, Any]) -> dict[str, Any]:
    facts = {k: v for k, v in record["meta"].items() if v is not None and k != "source"}
    if "text" in record:
        return {"text": record["text"], "meta": facts}
    said = [[one["role"], one["content"]] for one in record["messages"]]
    return {"messages": said, "meta": facts}


def chat_rows(**more: Any) -> list[dict[str, Any]]:
    """Rows of Open WebUI, which has one file and no reader of its own."""
    said = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}]
    chat = {"history": {"currentId": "w"}, "models": ["m"], "messages": said}
    return [{"id": f"o-{n}", "title": "t", "chat": chat, "created_at": 1, **more} for n in range(6)]


@pytest.mark.parametrize("file", sorted((ROOT / "schemas/known").iterdir()), ids=lambda f: f.name)
def test_a_layout_is_a_valid_file_with_a_valid_mapping(file):
    document = json.loads(file.read_text("utf-8"))
    assert json_yaml.violations("known", document) == []
    assert file.name == f"{document['name']}.json"
    assert bind({"version": 2, **document["mapping"]}, None, where=file.name)


@pytest.mark.parametrize("name", SETS)
def test_a_golden_set_gives_its_records(name):
    found = proposal_of(GOLDEN / name / "raw")
    assert layout_of(found) == name.removesuffix("-branches")
    records = [short(one) for one in _records(str(GOLDEN / name / "raw"), found)]
    lines = (GOLDEN / name / "expected.jsonl").read_text("utf-8").splitlines()
    assert records == [json.loads(line) for line in lines]
    assert (found.confidence < 0.6) == bool(LAYOUTS[layout_of(found)].ask)


def test_every_layout_has_a_golden_set_and_a_line_in_the_docs():
    assert {name.removesuffix("-branches") for name in SETS} == set(LAYOUTS)
    docs = (ROOT / "docs/known-layouts.md").read_text("utf-8")
    assert re.findall(r"^\| `([\w-]+)` \|", docs, re.MULTILINE) == sorted(LAYOUTS)
    assert all(one.docs in docs for one in LAYOUTS.values())


@pytest.mark.parametrize("name", SETS)
def test_no_layout_claims_the_rows_of_another(name):
    source = open_source(str(GOLDEN / name / "raw"))
    rows = [row.value for row in draw_sample(source).rows]
    claims = [one.name for one in LAYOUTS.values() if one.fits(rows)]
    assert claims in ([name.removesuffix("-branches")], [])


@pytest.mark.more
def test_layouts_of_other_data_sets_are_left_alone():
    for case in sorted((ROOT / "tests/golden/cases").glob("*/case.json")):
        source = open_source(str(case.parent / "raw"))
        assert known.propose_known(source, draw_sample(source), Request()) == (None, ()), case


def test_some_other_rows_are_no_hindrance_and_many_are(mapped: Mapped):
    other = {"id": "x", "question": "Why do bridges hum in the wind?", "answer": "They swing."}
    assert layout_of(mapped([*chat_rows(), other], "sft").proposal) == "open-webui"
    assert layout_of(mapped([*chat_rows(), *[other] * 3], "sft").proposal) == ""
    assert layout_of(mapped(chat_rows(), "pt").proposal) == ""


def test_a_mapping_that_does_not_fit_is_told_and_loses(mapped: Mapped):
    rows = chat_rows()
    rows[0]["chat"] = {**rows[0]["chat"], "messages": [{"role": "narrator", "content": "Once."}]}
    found = mapped(rows, "sft").proposal
    assert layout_of(found) == ""
    assert found.evidence[-1].runner_up == "open-webui"
    assert "narrator" in found.evidence[-1].why


def test_parts_that_no_row_has_are_left_out_and_told(tmp_path):
    shutil.copytree(GOLDEN / "claude-branches/raw", tmp_path / "raw")
    file = tmp_path / "raw/conversations.json"
    chats = json.loads(file.read_text("utf-8"))[:1]
    file.write_text(json.dumps(chats), "utf-8")
    found = proposal_of(tmp_path / "raw")
    assert layout_of(found) == "claude"
    assert found.mapping is not None
    assert document(found.mapping)["messages"][0]["content"] == {
        "any_of": ["content[*].text", "text"]
    }
    assert any("attachments[*].extracted_content" in one.why for one in found.evidence)


@pytest.mark.parametrize("never", [{"in": [1]}, {"not_in": [None]}, {"min_chars": 2}])
def test_a_condition_that_never_holds_takes_its_message_along(never):
    holds = [
        {"path": "a", "in": [None]},
        {"path": "a", "not_in": [1]},
        {"path": "a", "max_chars": 9},
    ]
    document = {"messages": [{"where": [*holds, {"path": "b", **never}]}, 0]}
    for _ in holds:
        known._drop_part(document, "/messages/0/where/0/path")
    assert document["messages"] == [{"where": [{"path": "b", **never}]}, 0]
    known._drop_part(document, "/messages/0/where/0/path")
    assert document["messages"] == [0]


def test_the_more_specific_of_two_layouts_is_taken_else_a_person_is_asked(
    monkeypatch, mapped: Mapped
):
    one = LAYOUTS["open-webui"]
    more = replace(one, name="more", required=(*one.required, "created_at"))
    monkeypatch.setattr(known, "known_layouts", lambda: (one, more))
    assert layout_of(mapped(chat_rows(), "sft").proposal) == "more"
    other = replace(one, name="other", required=(*one.required, "chat.messages[*].role"))
    monkeypatch.setattr(known, "known_layouts", lambda: (more, other))
    found = mapped(chat_rows(), "sft").proposal
    assert found.confidence < 0.6
    assert found.evidence[-1].runner_up == "other"


@pytest.mark.more
def test_an_export_is_converted_from_its_archive(tmp_path):
    archive = shutil.make_archive(str(tmp_path / "export"), "zip", GOLDEN / "chatgpt/raw")
    words = ["run", archive, "--out", str(tmp_path / "out"), *SURE, "--records", "jsonl"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 3, done.output  # two chats have parts that the layout passes over
    assert "parts passed over: 2/3" in done.output
    assert "chat.html" not in done.output.partition("error:")[2].partition("read ")[0]
    approved = ["--mapping", str(tmp_path / "out.proposal/mapping.json")]
    done = CliRunner().invoke(app, [*words, *approved])
    assert done.exit_code == 0, done.output
    assert len((tmp_path / "out/records/part-00000.jsonl").read_text().splitlines()) == 3


def test_an_assumption_waits_for_a_person(tmp_path):
    words = ["run", str(GOLDEN / "slack/raw"), "--out", str(tmp_path / "out"), *SURE]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 3, done.output
