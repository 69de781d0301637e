"""`ingot map --pin-sample`, and `ingot check` without the data: on a pinned sample, golden rows."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import ingot

ROWS = [
    {
        "question": f"What is there to say about number {n}, asked by user{n}@host.example?",
        "answer": f"Number {n} is one more than {n - 1}, and nothing else is to be said of it.",
    }
    for n in range(30)
]
GOLDEN = {
    "row": {"question": "Why?", "answer": "So."},
    "records": [
        {
            "messages": [
                {"role": "user", "content": "Why?"},
                {"role": "assistant", "content": "So."},
            ]
        }
    ],
}


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGOT_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    write(ROWS)


def write(rows: list[Any], name: str = "raw.jsonl") -> None:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def pinned(*more: str) -> Any:
    return ingot("map", "raw.jsonl", "--mapper", "rules", "-o", "m.json", "--pin-sample", *more)


def test_a_sample_is_pinned_beside_the_mapping() -> None:
    ran = pinned()
    assert "raw rows pinned, redacted: m.sample" in ran.stderr
    names = sorted(str(p) for p in Path("m.sample").rglob("*") if p.is_file())
    assert names == ["m.sample/data/raw.jsonl", "m.sample/sample.json"]
    assert "host.example" not in Path("m.sample/data/raw.jsonl").read_text()
    assert json.loads(Path("m.sample/sample.json").read_text())["rows"] == 30


@pytest.mark.more
def test_an_old_sample_is_replaced_with_overwrite_only() -> None:
    pinned()
    Path("m.json").unlink()
    write(ROWS[:20])
    assert "m.sample: is there already" in pinned_again(code=1).stderr
    assert not Path("m.json").exists()
    pinned_again("--overwrite")
    assert json.loads(Path("m.sample/sample.json").read_text())["rows"] == 20


def pinned_again(*more: str, code: int = 0) -> Any:
    words = ("map", "raw.jsonl", "--mapper", "rules", "-o", "m.json", "--pin-sample")
    return ingot(*words, *more, code=code)


def test_what_is_asked_for_follows_share_values() -> None:
    assert "as they are: m.sample" in pinned("--share-values", "raw").stderr
    assert Path("m.sample/data/raw.jsonl").read_bytes() == Path("raw.jsonl").read_bytes()
    ran = pinned_again("--share-values", "none", "--overwrite", code=2)
    assert "--share-values none forbids it" in ran.stderr


def test_it_needs_a_mapping_file() -> None:
    ran = ingot("map", "raw.jsonl", "--pin-sample", code=2)
    assert "give --output" in ran.stderr
    assert sorted(path.name for path in Path().iterdir() if path.name != "state") == ["raw.jsonl"]


def test_irrelevant_data_pins_nothing() -> None:
    Path("raw.jsonl").unlink()
    Path("only").mkdir()
    Path("only/README.md").write_text("Nothing to see.")
    ingot("map", "only", "--mapper", "rules", "-o", "m.json", "--pin-sample")
    assert not Path("m.sample").exists()


@pytest.mark.more
def test_check_takes_the_pinned_sample_where_no_source_is_given() -> None:
    pinned()
    on_source = json.loads(ingot("check", "m.json", "raw.jsonl", "--json").stdout)
    Path("raw.jsonl").unlink()
    told = json.loads(ingot("check", "m.json", "--json").stdout)
    for key in ("rows", "ok_rows", "records", "failures", "drift"):
        assert told["check"][key] == on_source["check"][key]
    document = json.loads(Path("m.json").read_text())
    document["messages"][1]["content"] = "nowhere"
    Path("m.json").write_text(json.dumps(document))
    assert "on a sample of m.sample/data/raw.jsonl" in ingot("check", "m.json", code=1).stderr


def test_check_without_anything_to_check_on_is_a_usage_error() -> None:
    ingot("map", "raw.jsonl", "--mapper", "rules", "-o", "m.json")
    ran = ingot("check", "m.json", code=2)
    assert "no pinned sample beside m.json" in ran.stderr


def test_golden_rows_need_no_data() -> None:
    ingot("map", "raw.jsonl", "--mapper", "rules", "-o", "m.json")
    write([GOLDEN], "m.golden.jsonl")
    assert ingot("check", "m.json", "--golden").stdout == "Golden rows: 1 of 1 pass\n"
    told = json.loads(ingot("check", "m.json", "--golden", "--json").stdout)
    assert told == {"golden": {"file": "m.golden.jsonl", "rows": 1, "failed": []}}


@pytest.mark.more
def test_failing_golden_rows_fail_and_say_why() -> None:
    pinned()
    bad = {**GOLDEN, "row": {"question": "Why?", "answer": "\u001b[31mNo."}}
    write([GOLDEN, bad], "m.golden.jsonl")
    ran = ingot("check", "m.json", "--golden", code=1)
    assert "Sample 30/30 rows" in ran.stdout
    assert "line 2: messages 2 content: expected" in ran.stdout
    assert "\u001b" not in ran.stdout
    assert ran.stderr == "error: m.json: 1 of 2 golden rows fails\n"
    told = json.loads(ingot("check", "m.json", "raw.jsonl", "--golden", "--json", code=1).stdout)
    assert sorted(told) == ["check", "gates", "golden", "problems"]
    assert [one["line"] for one in told["golden"]["failed"]] == [2]


def test_golden_without_golden_rows_is_an_error() -> None:
    pinned()
    assert "there are no golden rows" in ingot("check", "m.json", "--golden", code=1).stderr


def test_quietly_only_what_is_wrong_is_printed() -> None:
    pinned()
    assert ingot("check", "m.json", "--quiet").stdout == ""
    document = json.loads(Path("m.json").read_text())
    document["messages"][0]["content"] = "nowhere"
    del document["provenance"]
    Path("m.json").write_text(json.dumps(document))
    ran = ingot("check", "m.json", "--quiet", code=1)
    assert ran.stdout
    assert all(line.startswith(("problem: ", " ")) for line in ran.stdout.splitlines())
    assert "Gates" not in ran.stdout


def test_that_nothing_is_pinned_is_said() -> None:
    write([{"id": n, "value": 2 * n} for n in range(20)])
    assert "no sample is pinned: nothing of the data is converted" in pinned().stderr
    assert not Path("m.sample").exists()
