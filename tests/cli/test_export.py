"""`ingot export` through its public entry: what it prints, and how its errors end."""

import json
import shutil
from pathlib import Path

import pytest

from tests.command_line import ingot

ROWS = [
    {"q": "What is a river?", "a": "Water that runs.", "b": "It runs to the sea.", "w": True},
    {"q": "What is a bridge?", "a": "A way over water.", "b": "It stands still.", "w": False},
]
MAPPING = {
    "version": 2,
    "messages": [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "a"},
        {"role": "user", "content": {"literal": "More?"}},
        {"role": "assistant", "content": "b", "loss_mask": "w"},
    ],
}


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGOT_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def result(tmp_path: Path) -> Path:
    (tmp_path / "raw.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    (tmp_path / "mapping.json").write_text(json.dumps(MAPPING))
    ingot("convert", "mapping.json", "raw.jsonl", "--out", "result")
    return tmp_path / "result"


def test_an_export_says_what_was_written_and_how_to_start(result):
    said = ingot("export", result, "--to", "swift", "--out", "out").stdout
    assert "For swift 4.6.0" in said
    assert "2 read, 2 written" in said
    assert "1: messages after the last trained one are cut off" in said
    assert "swift sft --custom_dataset_info out/dataset_info.json --dataset result_ingot" in said
    assert Path("out/data/train-00000.parquet").is_file()
    assert "nothing to do" in ingot("export", result, "--to", "swift", "--out", "out").stdout


def test_json_is_one_object(result):
    told = json.loads(ingot("export", result, "--to", "trl", "--out", "out", "--json").stdout)
    assert told["manifest"] == json.loads(Path("out/manifest.json").read_text())
    assert (told["already_done"], told["notes"]) == (False, [])
    assert Path(told["out"]).samefile("out")


@pytest.mark.more
def test_other_masks_are_an_error_and_a_note_with_lossy(result):
    # Cut after its first answer the second record fits; with the first answer masked it does not.
    ingot("export", result, "--to", "llamafactory", "--out", "out")
    upside = json.loads(json.dumps(MAPPING))
    upside["messages"][1]["loss_mask"] = "w"
    upside["messages"][3]["loss_mask"] = True
    Path("up.json").write_text(json.dumps(upside))
    ingot("convert", "up.json", "raw.jsonl", "--out", "up")
    ran = ingot("export", "up", "--to", "llamafactory", "--out", "lost", code=1)
    assert ran.stderr.startswith("error: up: llamafactory cannot train on all records as they are")
    assert "masks 1: the trainer trains on other messages than the record says" in ran.stderr
    assert not Path("lost").exists()
    told = ingot("export", "up", "--to", "llamafactory", "--out", "lost", "--lossy").stdout
    assert "1: the trainer trains on other messages" in told
    assert json.loads(Path("lost/manifest.json").read_text())["notes"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["nowhere", "--to", "trl", "--out", "out"], 2, "does not exist"),
        (["raw.jsonl", "--to", "trl", "--out", "out"], 2, "is a file"),
        (["result", "--to", "nemo", "--out", "out"], 2, "'nemo' is not one of"),
        (["result", "--out", "out"], 2, "Missing option '--to'"),
        (["result", "--to", "trl"], 2, "Missing option '--out'"),
        (["result", "--to", "trl", "--out", "out", "--split-name", "../x"], 2, "letters, digits"),
        (["result", "--to", "trl", "--out", "out", "--name", "-alpaca"], 2, "a letter or digit"),
        (["result/records", "--to", "trl", "--out", "out"], 1, "no finished result"),
        (["result", "--to", "trl", "--out", "result", "--overwrite"], 1, "overlaps the folder"),
        (["result", "--to", "trl", "--out", "taken"], 1, "holds files that ingot did not write"),
        (["result", "--to", "trl", "--out", "raw.jsonl"], 1, "is a file"),
    ],
)
def test_mistakes(result, words, code, said):
    Path("taken").mkdir()
    Path("taken/mine.txt").write_text("mine")
    ran = ingot("export", *words, code=code)
    assert ran.stderr.startswith("error: ")
    assert said in ran.stderr
    assert not Path("out").exists()


def test_a_folder_of_results_names_some_of_them(result):
    for place in ("lake/sets/books", "lake/sets/talks", "lake/corpus/train/books"):
        shutil.copytree(result, place)
    told = ingot("export", "lake", "--to", "trl", "--out", "out", code=1).stderr
    assert "export a result below it, such as lake/corpus/train/books, lake/sets/books)" in told
    told = ingot("export", "lake/corpus/train", "--to", "trl", "--out", "out", code=1).stderr
    assert "such as lake/corpus/train/books)" in told
