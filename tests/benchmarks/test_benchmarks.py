"""The benchmark scripts run: right answers pass, wrong ones do not, speeds come as a table."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.more

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
TOPICS = ("tides", "lamps", "walls", "dough", "gauges", "clips", "pears", "bells")
ROWS = [
    {
        "prompt": f"What should a beginner know about {topic}, and where does one start?",
        "completion": f"Begin with the oldest book about {topic} that the library has, then ask.",
    }
    for topic in TOPICS
]


def run(script: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, BENCHMARKS / script, *arguments]
    return subprocess.run(argv, capture_output=True, text=True, encoding="utf-8", check=False)


def case(folder: Path, mode: str, raw: str, accepted: list[dict[str, object]]) -> None:
    """A benchmark case; `folder`'s name is the case's."""
    (folder / "raw").mkdir(parents=True)
    (folder / "raw" / "data.txt").write_text(raw, encoding="utf-8")
    facts = {"name": folder.name, "mode": mode, "requested_mode": "sft", "difficulty": "easy"}
    facts |= {"tags": [], "accept": ["expected.jsonl"], "partial": []}
    (folder / "case.json").write_text(json.dumps(facts), encoding="utf-8")
    lines = "".join(json.dumps(record) + "\n" for record in accepted)
    (folder / "expected.jsonl").write_text(lines, encoding="utf-8")


def chat(row: dict[str, str]) -> dict[str, object]:
    pairs = (("user", row["prompt"]), ("assistant", row["completion"]))
    return {"messages": [{"role": role, "content": content} for role, content in pairs]}


def test_the_mapping_benchmark_tells_right_from_wrong(tmp_path):
    raw = "".join(json.dumps(row) + "\n" for row in ROWS)
    right = [chat(row) for row in ROWS]
    case(tmp_path / "right", "sft", raw, right)
    case(tmp_path / "one_wrong", "sft", raw, [*right[1:], chat(ROWS[0] | {"prompt": "Why?"})])
    case(tmp_path / "nothing", "irrelevant", "a,b\n" + "1,2\n3,4\n" * 20, [])
    done = run("mapping/run.py", tmp_path, "--json", tmp_path / "verdicts.json", "--diff", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    verdicts = json.loads((tmp_path / "verdicts.json").read_text(encoding="utf-8"))
    assert verdicts == {"right": "pass", "one_wrong": "partial", "nothing": "pass"}
    assert "decisions right: 3 of 3" in done.stdout
    assert "confidence told" in done.stdout
    assert "- ('', (('user', 'Why?', False)" in done.stdout


@pytest.mark.long
def test_convert_speed_measures_every_shape():
    done = run("convert_speed.py", "--mb", "2", "--rounds", "1")
    assert done.returncode == 0, done.stderr
    measured = [line for line in done.stdout.splitlines() if "ingot convert" in line]
    assert len(measured) == 7  # the title, and three ways of two shapes


@pytest.mark.long
def test_proposal_time_measures_every_source():
    done = run("proposal_time.py", "--gb", "0.03", "--files", "60")
    assert done.returncode == 0, done.stderr
    for name in ("one JSONL file", "one list in JSON", "one gzip file", "many text files"):
        assert name in done.stdout
