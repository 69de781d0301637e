"""Data sets of clicks in `ingot run` and `ingot map`: what they are, and the command for them."""

import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import ingot

GOLDEN = Path(__file__).parents[2] / "golden" / "ctr"
COMMAND = "ingot ctr build --skeleton {} --common {} --featuremap aliccp --out DIR"


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGOT_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def told(*words: object, code: int = 0) -> Any:
    return json.loads(ingot(*words, "--json", code=code).stdout)


def raw(**names: str) -> Path:
    """A folder with the raw files under names of one's own."""
    folder = Path("raw")
    for kind, name in names.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        found = {"skeleton": "sample_skeleton_train.csv", "common": "common_features_train.csv"}
        shutil.copy(GOLDEN / found[kind.split("_")[0]], place)
    return folder


def test_raw_files_are_irrelevant_and_the_command_is_named() -> None:
    folder = raw(skeleton="sample_skeleton_train.csv", common="common_features_train.csv")
    done = told("run", folder, "--out", "out", "--yes")
    assert (done["status"], done["decision"]) == ("irrelevant", "irrelevant")
    wanted = COMMAND.format("sample_skeleton_train.csv", "common_features_train.csv")
    assert wanted in done["reason"]
    manifest = json.loads(Path("out/manifest.json").read_text())
    assert (manifest["decision"], manifest["reason"]) == ("irrelevant", done["reason"])
    assert wanted in " ".join(ingot("run", folder, "--out", "out2").stdout.split())


def test_it_is_the_content_that_says_so() -> None:
    folder = raw(skeleton="a b.txt", common="part-0.dat")
    (folder / "README.md").write_text("Where this came from.\n")
    assert COMMAND.format("'a b.txt'", "part-0.dat") in told("map", folder)["reason"]
    Path("sample_skeleton_train.csv").write_text("question,answer\n" + "Why?,Because so.\n" * 9)
    said = told("map", "sample_skeleton_train.csv", "--mapper", "rules", code=3)
    assert "Ali-CCP" not in said["reason"]


def test_pairs_of_files_belong_together() -> None:
    folder = raw(
        skeleton_a="test/sample_skeleton_test.csv",
        common_a="test/common_features_test.csv",
        skeleton_b="train/sample_skeleton_train.csv",
        common_b="train/common_features_train.csv",
    )
    reason = told("map", folder)["reason"]
    wanted = "train/sample_skeleton_train.csv", "train/common_features_train.csv"
    assert COMMAND.format(*wanted) in reason
    assert "test/sample_skeleton_test.csv with test/common_features_test.csv" in reason


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("skeleton", ("it.csv", "FILE")),
        ("common", ("FILE", "it.csv")),
    ],
)
def test_one_file_of_the_two(name: str, files: tuple[str, str]) -> None:
    folder = raw(**{name: "it.csv"})
    assert COMMAND.format(*files) in told("map", folder / "it.csv")["reason"]


def test_files_in_an_archive_are_to_be_unpacked() -> None:
    folder = raw(skeleton="sample_skeleton_train.csv", common="common_features_train.csv")
    with tarfile.open("raw.tar.gz", "w:gz") as archive:
        archive.add(folder)
    reason = told("map", "raw.tar.gz")["reason"]
    assert "lies in an archive: unpack it" in reason


def test_no_model_is_asked(model_saying: Callable[..., str]) -> None:
    folder = raw(skeleton="sample_skeleton_train.csv", common="common_features_train.csv")
    root = model_saying({"decision": "pt"})
    words = ("--mapper", "llm", "--model", "some", "--base-url", root)
    done = told("run", folder, "--out", "out", "--yes", *words)
    assert done["status"] == "irrelevant"
    assert not done.get("usage")


@pytest.mark.more
def test_a_given_mapping_is_tried_all_the_same() -> None:
    folder = raw(common="common_features_train.csv")
    mapping = {"version": 2, "source": {"format": "text"}, "text": "text"}
    Path("m.json").write_text(json.dumps(mapping))
    done = ingot("run", folder, "--mapping", "m.json", "--out", "out", "--yes")
    assert "Ali-CCP" not in done.output


LOG = "uid,item_id,clk,price\n" + "".join(f"u{n % 9},i{n % 7},{n % 2},{n}\n" for n in range(60))


def test_a_log_of_clicks_points_to_draft() -> None:
    Path("log.csv").write_text(LOG)
    assert "ingot ctr draft log.csv -o featuremap.yaml" in told("map", "log.csv")["reason"]


@pytest.mark.parametrize("change", [("clk", "size"), ("uid", "city"), (",1,", ",7,")])
def test_only_where_that_is_sure(change: tuple[str, str]) -> None:
    Path("log.csv").write_text(LOG.replace(*change))
    assert "ctr draft" not in told("map", "log.csv", "--mapper", "rules")["reason"]
