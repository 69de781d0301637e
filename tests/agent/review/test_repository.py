"""A git repository as it is read: revisions, trees, objects, renames, names of every kind."""

import subprocess
from pathlib import Path

import pytest

from ingot.agent.review.changed_mappings import find_changed
from ingot.agent.review.git_repository import Repository, find_renames, open_repository
from ingot.agent.review.revisions import commit_side, require_inside, working_tree_side
from ingot.converters.errors import RevisionError

NAMES = ["a.json", "with blank.json", "tab\there.json", "line\nbreak.json", "-o.json", "ü/é.json"]


def git(folder: Path, *words: str) -> str:
    told = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=no"]
    ran = subprocess.run([*told, *words], cwd=folder, check=True, capture_output=True, text=True)
    return ran.stdout.strip()


@pytest.fixture
def made(tmp_path: Path) -> Repository:
    """A repository with one commit on `main`."""
    root = tmp_path / "r"
    root.mkdir()
    git(root, "init", "--quiet", "--initial-branch", "main")
    for number, name in enumerate(NAMES):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(f"{number}\n")
    save(root)
    return open_repository(root)


def save(root: Path) -> str:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "x")
    return git(root, "rev-parse", "HEAD")


def test_paths_are_what_they_are(made: Repository) -> None:
    tree = made.tree(made.commit("main"))
    assert sorted(tree) == sorted(NAMES)
    read = made.read((one.blob for one in tree.values()), max_bytes=100)
    assert {name: read[tree[name].blob] for name in NAMES} == {
        name: f"{number}\n".encode() for number, name in enumerate(NAMES)
    }
    assert made.names() == sorted(NAMES)


def test_a_repository_is_found_from_inside(made: Repository, tmp_path: Path) -> None:
    assert open_repository(made.root / "ü").root == made.root
    with pytest.raises(RevisionError, match="not a git repository"):
        open_repository(tmp_path)


def test_a_folder_of_the_tree_is_no_repository_of_its_own(made: Repository) -> None:
    inside = made.root / "maps"
    inside.mkdir()
    git(inside, "init", "--quiet", "--bare", ".")
    with pytest.raises(RevisionError, match="is not the folder of a git repository"):
        open_repository(inside)


def test_a_repository_may_not_name_another_working_tree(made: Repository) -> None:
    git(made.root, "config", "core.worktree", str(made.root.parent))
    with pytest.raises(RevisionError, match="is not the folder of a git repository"):
        open_repository(made.root)


def test_no_program_that_the_repository_names_runs(made: Repository, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\ncat\n")
    program.chmod(0o755)
    for name in ("core.fsmonitor", "diff.external", "diff.x.textconv", "filter.x.clean"):
        git(made.root, "config", name, str(program))
    git(made.root, "config", "core.pager", str(program))
    (made.root / ".gitattributes").write_text("*.json diff=x filter=x\n")
    (made.root / "a.json").write_text('{"version": 2, "text": "t"}')
    found = open_repository(made.root)
    base, head = commit_side(found, found.commit("HEAD"), "HEAD"), working_tree_side(found)
    assert [one.path for one in find_changed(base, head, None)] == ["a.json"]
    assert not (tmp_path / "ran").exists()


LINKED = {"a file": "data/x.jsonl", "the folder": "data", "a folder in it": "data/more"}


@pytest.mark.parametrize("place", LINKED.values(), ids=LINKED)
def test_data_of_the_repository_lie_in_it(
    made: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.jsonl").write_text('{"text": "canary"}\n')
    (made.root / place).parent.mkdir(exist_ok=True)
    (made.root / place).symlink_to(outside / "x.jsonl" if "." in place else outside)
    monkeypatch.chdir(made.root)
    (tmp_path / "again").symlink_to(made.root)
    for source in ("data", f"file://{made.root}/data", str(tmp_path / "again/data")):
        with pytest.raises(RevisionError, match="leads out of the repository"):
            require_inside(source, made)
    require_inside(str(outside), made)  # the user typed it
    require_inside("https://example.org/x.jsonl", made)


def test_large_objects_are_not_read(made: Repository) -> None:
    (made.root / "large.json").write_text("x" * 1000)
    blob = made.tree(save(made.root))["large.json"].blob
    assert made.sizes([blob]) == {blob: 1000}
    assert made.read([blob], max_bytes=999) == {}
    assert made.read([], max_bytes=10) == {}


def test_an_object_that_is_not_here(made: Repository) -> None:
    with pytest.raises(RevisionError, match=r"1{40} is missing"):
        made.read(["1" * 40], max_bytes=10)


@pytest.mark.parametrize(
    "name", ["", "none", "--all", "-q", "HEAD:a.json", "main..HEAD", "a\0b", "HEAD^{tree}"]
)
def test_no_such_revision(made: Repository, name: str) -> None:
    with pytest.raises(RevisionError, match="no such revision"):
        made.commit(name)


def test_the_branch_that_others_are_merged_into(made: Repository, tmp_path: Path) -> None:
    assert made.main() == "main"
    git(tmp_path, "clone", "--quiet", str(made.root), "clone")
    assert open_repository(tmp_path / "clone").main() == "origin/main"
    git(made.root, "branch", "--quiet", "-m", "main", "other")
    with pytest.raises(RevisionError, match="--base REF"):
        made.main()


def test_where_a_branch_began(made: Repository) -> None:
    began = made.commit("main")
    git(made.root, "checkout", "--quiet", "-b", "side")
    (made.root / "b.json").write_text("side")
    side = save(made.root)
    git(made.root, "checkout", "--quiet", "main")
    (made.root / "c.json").write_text("main")
    main = save(made.root)
    assert made.merge_base(main, side) == began
    lonely = git(made.root, "commit-tree", "-m", "x", git(made.root, "write-tree"))
    assert made.merge_base(lonely, side) == lonely


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ({}, {"b": b"x\n"}, {}),
        ({"a": b"x\n" * 9}, {}, {}),
        ({"a": b"x\n" * 9}, {"b": b"x\n" * 9}, {"b": "a"}),
        ({"a": b"1\n2\n3\n4\n5\n6\n"}, {"b": b"1\n2\n3\n4\n5\n7\n"}, {"b": "a"}),
        ({"a": b"1\n2\n3\n4\n5\n6\n"}, {"b": b"a\nb\nc\nd\ne\nf\n"}, {}),
        ({"x/-o": b"y\n" * 9}, {"line\nbreak": b"y\n" * 9}, {"line\nbreak": "x/-o"}),
        (
            {"a": b"x\n" * 9, "b": b"y\n" * 9},
            {"c": b"y\n" * 9, "d": b"x\n" * 9},
            {"c": "b", "d": "a"},
        ),
        (  # the same content: the name decides
            {"old/a": b"x\n" * 9, "old/b": b"x\n" * 9},
            {"new/b": b"x\n" * 9, "new/c": b"x\n" * 9},
            {"new/b": "old/b", "new/c": "old/a"},
        ),
        (  # a name that occurs once counts before what is more alike
            {"old/a": b"1\n2\n3\n4\n5\n6\n7\n8\n"},
            {"new/a": b"1\n2\n3\n4\n5\n6\n7\nX\n", "new/b": b"1\n2\n3\n4\n5\n6\n7\n8\n9\n"},
            {"new/a": "old/a"},
        ),
    ],
)
def test_renames(before: dict[str, bytes], after: dict[str, bytes], found: dict[str, str]) -> None:
    assert find_renames(before, after) == found


def test_a_bare_repository_has_revisions_but_no_working_tree(
    made: Repository, tmp_path: Path
) -> None:
    git(tmp_path, "clone", "--quiet", "--bare", str(made.root), "bare")
    bare = open_repository(tmp_path / "bare")
    assert bare.commit(bare.main()) == made.commit("main")
    assert sorted(bare.tree(bare.commit("main"))) == sorted(NAMES)
    with pytest.raises(RevisionError, match="no working tree"):
        bare.names()


def test_a_repository_without_commits(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    empty = open_repository(tmp_path)
    with pytest.raises(RevisionError, match="has no commit yet"):
        empty.main()
    with pytest.raises(RevisionError, match="has no commit yet"):
        empty.commit("HEAD")
