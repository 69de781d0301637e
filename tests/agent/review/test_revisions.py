"""The two sides of a review: what is listed, what is read, what is laid out."""

import subprocess
from collections.abc import Collection
from pathlib import Path

import pytest

from ingot.agent.review.git_repository import open_repository
from ingot.agent.review.golden_rows import golden_file
from ingot.agent.review.pinning.pinned_sample import pinned_folder
from ingot.agent.review.revisions import (
    Side,
    commit_side,
    file_side,
    is_reviewed,
    working_tree_side,
    write_sidecars,
)
from ingot.converters.mapping.bind import MAX_BYTES


def git(folder: Path, *words: str) -> str:
    told = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=no"]
    ran = subprocess.run([*told, *words], cwd=folder, check=True, capture_output=True, text=True)
    return ran.stdout.strip()


def side(files: dict[str, bytes]) -> Side:
    def contents(paths: Collection[str], most: int) -> dict[str, bytes]:
        return {path: files[path] for path in paths if len(files[path]) <= most}

    return Side(name="x", files=dict.fromkeys(files, "1"), others={}, contents=contents)


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("a.json", True),
        ("x/a.golden.jsonl", True),
        ("a.sample/data/raw.csv", True),
        ("a.sample", True),
        ("a.jsonl", False),
        ("README.md", False),
    ],
)
def test_what_a_review_reads(path: str, wanted: bool) -> None:
    assert is_reviewed(path) is wanted


@pytest.mark.parametrize("hashing", ["sha1", "sha256"])
def test_a_clean_working_tree_is_its_commit(tmp_path: Path, hashing: str) -> None:
    git(tmp_path, "init", "--quiet", f"--object-format={hashing}", ".")
    files = {"a.json": "{}", "sub/b.json": "[1]\n", "a.sample/data/x.csv": "1,2\r\n"}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(text.encode())
    (tmp_path / "link.json").symlink_to("a.json")
    (tmp_path / "other.txt").write_text("x")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "x")
    found = open_repository(tmp_path)
    commit, tree = commit_side(found, found.commit("HEAD"), "HEAD"), working_tree_side(found)
    assert dict(commit.files) == dict(tree.files)
    assert set(tree.files) == set(files)
    assert commit.others == tree.others == {"link.json": "a symbolic link to a.json"}
    for one in (commit, tree):
        read = one.contents(list(files), 100)
        assert read == {name: text.encode() for name, text in files.items()}
        assert one.contents(["a.json"], 1) == {}


def test_a_file_with_what_lies_beside_it(tmp_path: Path) -> None:
    for name in (
        "m.json",
        "m.golden.jsonl",
        "m.sample/sample.json",
        "m.sample/data/a/b.csv",
        "n.json",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "m.sample/link").symlink_to("/etc/passwd")
    (tmp_path / "m.sample/folder").symlink_to("/etc")
    (tmp_path / "n.sample").symlink_to("m.sample")
    found = file_side(tmp_path / "m.json")
    assert sorted(found.files) == [
        "m.golden.jsonl",
        "m.json",
        "m.sample/data/a/b.csv",
        "m.sample/sample.json",
    ]
    assert sorted(found.others) == ["m.sample/folder", "m.sample/link"]
    assert file_side(tmp_path / "n.json").others == {"n.sample": "a symbolic link to m.sample"}
    assert found.shown("m.sample") == f"{tmp_path}/m.sample"
    assert file_side(tmp_path / "none.json").files == {}


def test_a_file_that_no_review_reads_has_a_name_for_its_size(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_bytes(b" " * (MAX_BYTES + 1))
    found = file_side(tmp_path / "m.json")
    assert found.files["m.json"] == f"{MAX_BYTES + 1} bytes"
    assert found.contents(["m.json"], MAX_BYTES) == {}


def test_sample_and_golden_rows_are_laid_out(tmp_path: Path) -> None:
    made = side(
        {
            "x/m.json": b"0",
            "x/m.golden.jsonl": b"1",
            "x/m.sample/sample.json": b"2",
            "x/m.sample/data/ü/a.csv": b"3",
            "x/m.sample/../../../out": b"4",
            "m.sample/other": b"5",
        }
    )
    place = write_sidecars(made, "x/m.json", tmp_path / "new")
    assert golden_file(place).read_bytes() == b"1"
    assert (pinned_folder(place) / "data/ü/a.csv").read_bytes() == b"3"
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) == 3
