"""The review document as a whole: its schema, two files, data of several mappings."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from ingot.agent.review.mapping_review import ReviewOptions, review_files, review_mappings
from ingot.agent.review.revisions import Side
from ingot.converters.errors import MappingError, RevisionError
from ingot.converters.json_yaml import violations

TEXT = {"version": 2, "text": "body"}
ROWS = [{"id": n, "title": "A", "body": f"Text number {n}."} for n in range(20)]
PROVENANCE = {
    "mapper": "llm",
    "model": "m of ada@example.org",
    "prompt_sha256": "0" * 64,
    "confidence": 0.9,
    "repaired": ["quotes"],
    "cost": {"calls": 2, "tokens_in": 10, "usd": "much"},
}


def side(name: str, files: dict[str, Any]) -> Side:
    data = {
        path: one if isinstance(one, bytes) else json.dumps(one, indent=1).encode()
        for path, one in files.items()
    }

    def contents(paths: Collection[str], most: int) -> dict[str, bytes]:
        return {path: data[path] for path in paths if len(data[path]) <= most}

    named = {path: str(hash(one)) for path, one in data.items()}
    return Side(name=name, files=named, others={}, contents=contents)


def reviewed(old: dict[str, Any], new: dict[str, Any], **wish: Any) -> dict[str, Any]:
    told = review_mappings(side("main", old), side("HEAD", new), ReviewOptions(**wish))
    assert violations("review", told) == []
    return told


def test_nothing_differs() -> None:
    assert reviewed({"a.json": TEXT}, {"a.json": TEXT}) == {
        "version": 1,
        "base": "main",
        "head": "HEAD",
        "commits": {"base": None, "fork": None, "head": None},
        "verdict": "pass",
        "allow_breaking": False,
        "reproduce": "ingot review --base main --head HEAD",
        "mappings": [],
    }


def test_the_worst_mapping_decides() -> None:
    old = {"a.json": TEXT, "b.json": TEXT, "c.json": TEXT}
    new = {"a.json": {**TEXT, "text": "title"}, "c.json": {**TEXT, "meta": {"original_id": "id"}}}
    told = reviewed(old, new)
    assert [one["verdict"] for one in told["mappings"]] == ["block", "warn", "warn"]
    assert told["verdict"] == "block"
    assert reviewed(old, new, allow_breaking=True)["verdict"] == "warn"
    assert "--allow-breaking" in reviewed(old, new, allow_breaking=True)["reproduce"]


def test_data_are_those_of_one_mapping(tmp_path: Path) -> None:
    raw = tmp_path / "raw.jsonl"
    raw.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    old = {"a.json": TEXT, "b.json": TEXT, "gone.json": TEXT}
    new = {"a.json": {**TEXT, "text": "title"}, "b.json": {**TEXT, "text": "title"}}
    with pytest.raises(RevisionError, match="2 are to be replayed"):
        reviewed(old, new, source=str(raw))
    told = reviewed(old, {**new, "b.json": TEXT}, source=str(raw))
    kinds = {one["path"]: one["sample"]["kind"] for one in told["mappings"]}
    assert kinds == {"a.json": "source", "gone.json": "none"}


def test_secrets_known_by_their_key_are_hidden_in_records(tmp_path: Path) -> None:
    raw = tmp_path / "raw.jsonl"
    rows = [{**row, "password": f"hunter{row['id']}abc", "pin": 7} for row in ROWS]
    raw.write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = reviewed({"a.json": TEXT}, {"a.json": {"text": ["title", "password"]}}, source=str(raw))
    [one] = told["mappings"]
    shown = [shown["new"][0][1] for shown in one["examples"]]
    assert all(text.startswith("A\n[secret") for text in shown)
    assert len(shown) == 3
    assert "hunter" not in json.dumps(told)


def test_version_1_is_settled_on_the_rows(tmp_path: Path) -> None:
    raw = tmp_path / "raw.jsonl"
    raw.write_text("".join(json.dumps({**row, "en": "x"}) + "\n" for row in ROWS))
    old = {"text": "body", "meta": {"language": "fr", "source": "title"}}
    same = {
        "version": 2,
        "text": "body",
        "meta": {"language": {"literal": "fr"}, "source": "title"},
    }
    [one] = reviewed({"a.json": old}, {"a.json": same}, source=str(raw))["mappings"]
    assert (one["class"], one["same"], one["of"], one["verdict"]) == ("none", 20, 20, "pass")


def test_provenance_is_what_it_should_be() -> None:
    old = {**TEXT, "provenance": PROVENANCE}
    new = {**TEXT, "provenance": {"mapper": 1, "confidence": True, "cost": 3, "edited": "no"}}
    [one] = reviewed({"a.json": old}, {"a.json": new})["mappings"]
    assert one["class"] == "none"
    assert one["provenance"]["old"] == {
        "mapper": "llm",
        "model": "m of [email]",
        "prompt_sha256": "0" * 64,
        "confidence": 0.9,
        "edited": None,
        "repaired": True,
        "cost": {"calls": 2, "tokens_in": 10, "tokens_out": None, "usd": None},
    }
    assert set(one["provenance"]["new"].values()) == {None}


def test_golden_rows_run_without_a_sample() -> None:
    golden = [
        {"row": ROWS[0], "records": [{"text": ROWS[0]["body"]}]},
        {"row": {}, "records": [{"text": "x"}]},
    ]
    rows = "".join(json.dumps(one) + "\n" for one in golden).encode()
    files = {"a.json": TEXT, "a.golden.jsonl": rows}
    [one] = reviewed({}, files)["mappings"]
    assert (one["golden"]["rows"], [f["line"] for f in one["golden"]["failed"]]) == (2, [2])
    assert one["verdict"] == "block"
    [one] = reviewed({}, {**files, "a.golden.jsonl": b"\n"})["mappings"]
    [reason] = [reason for reason in one["reasons"] if reason["rule"] == "golden"]
    assert reason["text"] == (
        "golden rows: a.golden.jsonl: it holds no golden row (a line holds a row and its records)"
    )
    changed = {"a.json": {**TEXT, "text": "title"}}
    [one] = reviewed(files, changed)["mappings"]
    assert "golden_removed" in {reason["rule"] for reason in one["reasons"]}


def test_a_broken_file_is_told_by_line() -> None:
    broken = b'{"version": 2,\n "text": "body",\n "mesages": []}'
    [one] = reviewed({"a.json": TEXT}, {"a.json": broken})["mappings"]
    assert (one["status"], one["class"], one["new"]) == ("broken", None, None)
    assert {reason["line"] for reason in one["reasons"]} == {3}
    [one] = reviewed({"a.json": TEXT}, {"a.json": b'{"version": 2,\n"text":\n\n}'})["mappings"]
    assert [reason["line"] for reason in one["reasons"]] == [4]


def test_hostile_names_and_texts_fit_the_document() -> None:
    names = ["a\x1b[31m.json", "x\ny.json", "@all #1.json", "<b>.json", "\udcff.json"]
    hostile = {
        "version": 2,
        "text": ["body", {"literal": "\x1b]0;x\x07 @all <script> ada@example.org"}],
    }
    told = reviewed(dict.fromkeys(names, TEXT), dict.fromkeys(names, hostile))
    text = json.dumps(told, ensure_ascii=False)
    assert text.encode()
    assert "ada@example.org" not in text
    assert len(told["mappings"]) == len(names)


def test_two_files(tmp_path: Path) -> None:
    raw = tmp_path / "raw.jsonl"
    raw.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(json.dumps(TEXT))
    new.write_text(json.dumps({**TEXT, "text": ["title", "body"]}))
    told = review_files(old, new, ReviewOptions(source=str(raw)))
    assert violations("review", told) == []
    [one] = told["mappings"]
    assert (one["old_path"], one["path"]) == (str(old), str(new))
    assert (one["verdict"], one["class"], one["of"]) == ("block", "breaking", 20)
    new.write_text("{")
    assert review_files(old, new, ReviewOptions())["mappings"][0]["status"] == "broken"
    with pytest.raises(MappingError):
        review_files(new, old, ReviewOptions())
    with pytest.raises(RevisionError):
        review_files(old, tmp_path / "none.json", ReviewOptions())
