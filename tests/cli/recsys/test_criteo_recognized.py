"""Criteo logs and arrays in `ingot run` and `ingot map`: what they are, and the command."""

import gzip
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from ingot.cli.app import app
from tests.command_line import ingot

GOLDEN = Path(__file__).parents[2] / "golden" / "criteo"
COMMAND = "ingot criteo preprocess --input-dir {} --out DIR"


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGOT_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def told(*words: object, code: int = 0) -> Any:
    return json.loads(ingot(*words, "--json", code=code).stdout)


def raw(*names: str) -> Path:
    """A folder with days under names of one's own."""
    folder = Path("raw")
    for day, name in enumerate(names):
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(GOLDEN / f"day_{day}", place)
    return folder


def test_logs_are_irrelevant_and_the_command_is_named() -> None:
    done = told("run", raw("day_0", "day_1"), "--out", "out", "--yes")
    assert (done["status"], done["decision"]) == ("irrelevant", "irrelevant")
    assert COMMAND.format("FOLDER") in done["reason"]
    manifest = json.loads(Path("out/manifest.json").read_text())
    assert (manifest["decision"], manifest["reason"]) == ("irrelevant", done["reason"])


def test_it_is_the_content_that_says_so() -> None:
    folder = raw("a b.dat")
    (folder / "readme.txt").write_text("Where this came from.\n" * 5)
    assert COMMAND.format("FOLDER") in told("map", folder)["reason"]
    assert COMMAND.format("FOLDER") in told("map", folder / "a b.dat")["reason"]
    Path("day_0").write_text("question\tanswer\n" + "Why?\tBecause so.\n" * 9)
    assert "Criteo" not in told("map", "day_0", "--mapper", "rules", code=3)["reason"]


def test_the_folder_below_is_named() -> None:
    folder = raw("click logs/day_0")
    assert COMMAND.format("'click logs'") in told("map", folder)["reason"]


def test_compressed_and_without_labels() -> None:
    folder = raw("x")
    lines = [line.split(b"\t", 1)[1] for line in (folder / "x").read_bytes().splitlines()]
    (folder / "x").unlink()
    (folder / "test.txt.gz").write_bytes(gzip.compress(b"\n".join(lines)))
    assert COMMAND.format("FOLDER") in told("map", folder)["reason"]


def test_files_in_an_archive_are_to_be_unpacked() -> None:
    folder = raw("train.txt")
    with tarfile.open("raw.tar.gz", "w:gz") as archive:
        archive.add(folder)
    assert "train.txt lies in an archive: unpack it" in told("map", "raw.tar.gz")["reason"]


def arrays(folder: str) -> Path:
    found = np.load(GOLDEN / "torchrec_now_shuffled.npz")
    Path(folder).mkdir(parents=True)
    for name in found.files:
        np.save(Path(folder, f"{name}.npy"), found[name])
    return Path(folder)


def test_arrays_are_irrelevant_and_the_command_is_named() -> None:
    folder = arrays("out/pre processed")
    assert "ingot criteo inspect FOLDER" in told("map", folder)["reason"]
    assert "ingot criteo inspect 'pre processed'" in told("map", "out")["reason"]
    done = told("run", folder, "--out", "done", "--yes")
    assert (done["status"], done["decision"]) == ("irrelevant", "irrelevant")


@pytest.mark.parametrize("change", ["missing", "shorter", "other", "no array"])
def test_only_where_that_is_sure(change: str) -> None:
    folder = arrays("out")
    for path in [*folder.glob("*_dense.npy")]:
        if change == "missing":
            path.unlink()
        elif change == "no array":
            path.write_text("{}")
        else:
            np.save(path, np.zeros((9, 13), np.float32 if change == "shorter" else np.int32))
    ran = CliRunner().invoke(app, ["map", str(folder), "--mapper", "rules"])
    assert ran.exit_code == (3 if change == "no array" else 1)
    assert "NumPy array" in ran.output
    assert "Criteo" not in ran.output


def test_no_model_is_asked(model_saying: Callable[..., str]) -> None:
    root = model_saying({"decision": "pt"})
    words = ("--mapper", "llm", "--model", "some", "--base-url", root)
    done = told("run", raw("day_0"), "--out", "out", "--yes", *words)
    assert done["status"] == "irrelevant"
    assert not done.get("usage")


@pytest.mark.more
def test_a_given_mapping_is_tried_all_the_same() -> None:
    mapping = {"version": 2, "source": {"format": "text"}, "text": "text"}
    Path("m.json").write_text(json.dumps(mapping))
    words = ["run", str(raw("day_0")), "--mapping", "m.json", "--out", "out", "--yes"]
    assert "Criteo" not in CliRunner().invoke(app, words).output
