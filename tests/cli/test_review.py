"""`ingot review` on a small repository of mappings, built with git and read by the command line."""

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ingot.agent.review.github_comment import MOST_ROWS
from ingot.agent.review.pinning.pin import pin_sample
from ingot.converters.json_yaml import violations
from ingot.converters.sources import open_source
from ingot.converters.sources.sample import draw_sample
from tests.command_line import ingot

ROWS = [
    {
        "id": n,
        "title": f"Title {n}",
        "body": f"What there is to say about number {n}. " * (1 + n % 5),
        "question": f"What is {n} + 1?",
        "answer": f"It is {n + 1}." if n else "Ask ada@example.org, she knows it.",
        "kind": "news" if n % 10 else "other",
    }
    for n in range(60)
]
TEXT = {"version": 2, "text": ["title", "body"], "meta": {"original_id": "id"}}
CHAT = {
    "version": 2,
    "messages": [
        {"role": "user", "content": "question"},
        {"role": "assistant", "content": "answer"},
    ],
    "meta": {"original_id": "id"},
}
ODD = "maps/a `b` $(touch x);\n*[1].json"
GOLDEN = {"row": ROWS[3], "records": [{"text": f"{ROWS[3]['title']}\n{ROWS[3]['body']}"}]}


def git(folder: Path, *words: str) -> str:
    told = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=no"]
    ran = subprocess.run([*told, *words], cwd=folder, check=True, capture_output=True, text=True)
    return ran.stdout.strip()


def write(folder: Path, name: str, document: Any) -> None:
    place = folder / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(document, indent=2) + "\n")


def commit(folder: Path, said: str = "x") -> str:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", said)
    return git(folder, "rev-parse", "HEAD")


def new_repository(folder: Path) -> Path:
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch", "main")
    return folder


def document(*words: object, code: int | None = None) -> dict[str, Any]:
    ran = ingot("review", "--json", *words, code=code)
    told: dict[str, Any] = json.loads(ran.stdout)
    assert violations("review", told) == []
    return told


@pytest.fixture(scope="module")
def pinned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pinned sample of the rows."""
    raw = tmp_path_factory.mktemp("raw") / "raw.jsonl"
    raw.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    source = open_source(str(raw))
    pin_sample(source, draw_sample(source), raw.parent / "raw.sample")
    return raw.parent / "raw.sample"


@pytest.fixture(scope="module")
def mappings(tmp_path_factory: pytest.TempPathFactory, pinned: Path) -> Path:
    """The repository: on `main` as it was, on `change` as it is."""
    root = new_repository(tmp_path_factory.mktemp("repository") / "r")
    texts = ("harmless", "same", "breaking", "additive", "broken", "gone", "linked", "examples")
    for name in texts:
        write(root, f"maps/{name}.json", TEXT)
    where = [{"path": "kind", "in": ["news"]}]
    write(root, "maps/additive.json", {**TEXT, "where": where})
    for name in ("meta", "training", "absent", "twice"):
        write(root, f"maps/{name}.json", CHAT)
    write(root, "maps/before.json", {**TEXT, "where": [{"path": "title", "min_chars": 3}]})
    write(root, "maps/moved.json", {**CHAT, "provenance": {"mapper": "rules", "note": "x" * 400}})
    write(root, "maps/lossy.json", {**TEXT, "provenance": {"mapper": "llm", "model": "m-1"}})
    write(root, ODD, TEXT)
    write(root, "package.json", {"name": "no mapping"})
    sampled = ("harmless", "breaking", "additive", "meta", "training", "lossy", "examples", "twice")
    for name in (*sampled, "moved"):
        shutil.copytree(pinned, root / f"maps/{name}.sample")
    (root / "maps/examples.golden.jsonl").write_text(json.dumps(GOLDEN) + "\n")
    commit(root, "as it was")
    git(root, "checkout", "--quiet", "-b", "change")
    _change(root)
    commit(root, "as it is")
    git(root, "checkout", "--quiet", "main")
    write(root, "maps/others.json", TEXT)
    commit(root, "what others did meanwhile")
    git(root, "checkout", "--quiet", "change")
    return root


def _change(root: Path) -> None:
    write(root, "maps/harmless.json", {**TEXT, "text": [{"path": "$.title"}, "['body']"]})
    write(root, "maps/breaking.json", {**TEXT, "text": ["body", "title"]})
    write(
        root, "maps/additive.json", {**TEXT, "where": [{"path": "kind", "in": ["news", "other"]}]}
    )
    write(
        root,
        "maps/meta.json",
        {**CHAT, "meta": {"original_id": "id", "language": {"literal": "en"}}},
    )
    trained = {**CHAT["messages"][0], "loss_mask": True}
    write(root, "maps/training.json", {**CHAT, "messages": [trained, CHAT["messages"][1]]})
    lossy = {**TEXT, "where": [{"path": "kind", "in": ["news"]}]}
    write(root, "maps/lossy.json", {**lossy, "provenance": {"mapper": "edited", "edited": True}})
    (root / "maps/broken.json").write_text('{"version": 2,\n "text": ["title",\n}')
    (root / "maps/gone.json").unlink()
    (root / "maps/linked.json").unlink()
    (root / "maps/linked.json").symlink_to("/etc/passwd")
    (root / "maps/before.json").rename(root / "maps/größe.json")
    (root / "maps/moved.json").rename(root / "maps/moved away.json")
    (root / "maps/moved.sample").rename(root / "maps/moved away.sample")
    moved = json.loads((root / "maps/moved away.json").read_text())
    del moved["meta"]
    write(root, "maps/moved away.json", moved)
    swapped = [{"role": "user", "content": "answer"}, {"role": "assistant", "content": "question"}]
    write(root, "maps/absent.json", {**CHAT, "messages": swapped})
    write(root, "maps/twice.json", {**CHAT, "messages": [*swapped, *swapped]})
    write(root, "maps/added.json", CHAT)
    write(root, "claims.json", {"version": 2, "text": "no path ["})
    write(root, ODD, {**TEXT, "text": "body"})
    write(root, "package.json", {"name": "still none"})
    write(root, "out/manifest.json", {"version": 1, "files": []})
    wrong = {**GOLDEN, "records": [{"text": "something else"}]}
    (root / "maps/examples.golden.jsonl").write_text(json.dumps(wrong) + "\n")
    git(root, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},vendor/x.json")


@pytest.fixture
def inside(mappings: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(mappings)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    return mappings


@pytest.fixture(scope="module")
def reviewed(mappings: Path) -> dict[str, Any]:
    """The review of both branches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(mappings)
        patch.delenv("GITHUB_ACTIONS", raising=False)
        return document("--base", "main", "--head", "change", code=1)


def of(reviewed: dict[str, Any], name: str) -> dict[str, Any]:
    [found] = [one for one in reviewed["mappings"] if one["path"] == name]
    return dict(found)


def rules(mapping: dict[str, Any]) -> set[tuple[str, str]]:
    return {(one["level"], one["rule"]) for one in mapping["reasons"]}


@pytest.mark.more
def test_what_differs_is_reviewed_and_nothing_else(reviewed: dict[str, Any]) -> None:
    told = {
        one["path"]: (one["status"], one["verdict"], one["class"]) for one in reviewed["mappings"]
    }
    assert told == {
        ODD: ("modified", "block", "breaking"),
        "claims.json": ("broken", "block", None),
        "maps/absent.json": ("modified", "block", "breaking"),
        "maps/added.json": ("added", "warn", None),
        "maps/additive.json": ("modified", "pass", "additive"),
        "maps/breaking.json": ("modified", "block", "breaking"),
        "maps/broken.json": ("broken", "block", None),
        "maps/examples.json": ("modified", "block", "none"),
        "maps/gone.json": ("removed", "warn", None),
        "maps/größe.json": ("renamed", "warn", "none"),
        "maps/harmless.json": ("modified", "pass", "none"),
        "maps/linked.json": ("broken", "block", None),
        "maps/lossy.json": ("modified", "block", "breaking"),
        "maps/meta.json": ("modified", "warn", "meta"),
        "maps/moved away.json": ("renamed", "warn", "meta"),
        "maps/training.json": ("modified", "warn", "training"),
        "maps/twice.json": ("modified", "block", "breaking"),
    }
    assert [one["path"] for one in reviewed["mappings"]] == sorted(told)
    assert (reviewed["base"], reviewed["head"], reviewed["verdict"]) == ("main", "change", "block")


def test_renamed_files_are_compared_with_what_they_were(reviewed: dict[str, Any]) -> None:
    assert of(reviewed, "maps/größe.json")["old_path"] == "maps/before.json"
    moved = of(reviewed, "maps/moved away.json")
    assert moved["old_path"] == "maps/moved.json"
    assert [one["rule"] for one in moved["changes"]] == ["meta_original_id"]
    assert moved["sample"]["place"] == "maps/moved away.sample"
    assert (moved["same"], moved["of"]) == (0, 60)


def test_records_are_compared_place_by_place(reviewed: dict[str, Any]) -> None:
    figures = {
        name: (one["same"], one["of"], one["old"]["records"], one["new"]["records"])
        for name in ("harmless", "additive", "breaking", "lossy", "meta", "training")
        if (one := of(reviewed, f"maps/{name}.json"))
    }
    assert figures == {
        "harmless": (60, 60, 60, 60),
        "additive": (54, 60, 54, 60),
        "breaking": (0, 60, 60, 60),
        "lossy": (54, 60, 60, 54),
        "meta": (0, 60, 60, 60),
        "training": (0, 60, 60, 60),
    }
    assert of(reviewed, "maps/lossy.json")["new"]["failures"] == {"filtered": 6}
    assert of(reviewed, "maps/training.json")["new"]["roles"] == {"assistant": 60, "user": 60}
    old, new = (of(reviewed, "maps/training.json")[side] for side in ("old", "new"))
    assert old["trained_chars"] < new["trained_chars"] == new["chars"] == old["chars"]


def test_lost_records_block(reviewed: dict[str, Any]) -> None:
    lossy = of(reviewed, "maps/lossy.json")
    assert rules(lossy) == {("block", "where_tightened"), ("block", "lost_records")}
    [lost] = [one for one in lossy["reasons"] if one["rule"] == "lost_records"]
    assert lost["text"] == "records: 60 → 54 (-10.0 %)"
    assert [one["kind"] for one in lossy["examples"]] == ["lost"] * 3
    assert [one["place"] for one in lossy["examples"]] == [
        f"raw.jsonl row {n}" for n in (0, 10, 20)
    ]
    assert ("pass", "gained_records") in rules(of(reviewed, "maps/additive.json"))


def test_reasons_name_the_line_of_the_new_file(reviewed: dict[str, Any], mappings: Path) -> None:
    found = 0
    for name, word in (("breaking", "text"), ("meta", "language"), ("training", "loss_mask")):
        lines = (mappings / f"maps/{name}.json").read_text().split("\n")
        for one in of(reviewed, f"maps/{name}.json")["changes"]:
            found += 1
            assert word in lines[one["line"] - 1]
    assert found == 3
    broken = of(reviewed, "maps/broken.json")["reasons"][0]
    assert (broken["rule"], broken["line"]) == ("broken", 3)


def test_links_are_not_followed(reviewed: dict[str, Any]) -> None:
    [reason] = of(reviewed, "maps/linked.json")["reasons"]
    assert "a symbolic link" in reason["text"]
    assert "root:" not in json.dumps(reviewed)


def test_examples_show_no_secret(reviewed: dict[str, Any]) -> None:
    assert "ada@example.org" not in json.dumps(reviewed)
    changed = of(reviewed, "maps/training.json")["examples"][0]
    assert changed["old"][0][0] == "user"
    assert changed["new"][0][0] == "user (trained)"
    assert "[email]" in changed["old"][1][1]


def test_without_a_sample_nothing_is_replayed(reviewed: dict[str, Any]) -> None:
    absent = of(reviewed, "maps/absent.json")
    assert (absent["sample"]["kind"], absent["old"], absent["same"]) == ("none", None, None)
    assert "absent.sample" in absent["sample"]["why"]
    assert ("warn", "not_replayed") in rules(absent)


def test_golden_rows_that_fail_block(reviewed: dict[str, Any]) -> None:
    one = of(reviewed, "maps/examples.json")
    assert (one["golden"]["file"], one["golden"]["rows"]) == ("maps/examples.golden.jsonl", 1)
    assert "something else" in one["golden"]["failed"][0]["why"]
    assert rules(one) == {("pass", "no_change"), ("pass", "golden_changed"), ("block", "golden")}


def test_provenance_is_told(reviewed: dict[str, Any]) -> None:
    told = of(reviewed, "maps/lossy.json")["provenance"]
    assert (told["old"]["mapper"], told["old"]["model"]) == ("llm", "m-1")
    assert (told["new"]["mapper"], told["new"]["edited"], told["new"]["cost"]) == (
        "edited",
        True,
        None,
    )


@pytest.mark.more
def test_breaking_changes_can_be_allowed(inside: Path) -> None:
    words = ("--base", "main", "--head", "change", "--allow-breaking")
    told = document(*words, "--mappings", "maps/[bl]*[gy].json", code=0)
    assert told["verdict"] == "warn"
    assert {one["path"]: one["verdict"] for one in told["mappings"]} == {
        "maps/breaking.json": "warn",
        "maps/lossy.json": "warn",
    }
    assert document(*words, code=1)["verdict"] == "block"  # broken files and golden rows do


@pytest.mark.more
def test_the_command_that_reproduces_it_does(inside: Path, reviewed: dict[str, Any]) -> None:
    for one in reviewed["mappings"]:
        program, command, *words = shlex.split(one["reproduce"])
        assert (program, command) == ("ingot", "review")
        assert document(*words)["mappings"] == [one]
    assert not (inside / "x").exists()


def test_commits_are_named_by_their_ids(inside: Path, reviewed: dict[str, Any]) -> None:
    ids = [git(inside, "rev-parse", name) for name in ("main", "change~1", "change")]
    assert reviewed["commits"] == dict(zip(("base", "fork", "head"), ids, strict=True))
    assert reviewed["reproduce"] == f"ingot review --base {ids[0]} --head {ids[2]}"
    told = document("--base", "main", "--mappings", "maps/gone.json")
    assert told["commits"]["head"] is None


@pytest.mark.more
def test_the_same_commits_give_the_same_bytes(inside: Path, tmp_path: Path) -> None:
    words = ("review", "--base", "main", "--head", "change")
    for form in ("json", "markdown"):
        first, second = tmp_path / f"1.{form}", tmp_path / f"2.{form}"
        for file in (first, second):
            ran = ingot(*words, "--format", form, "-o", file, code=1)
            assert ran.stdout == ""
        assert first.read_bytes() == second.read_bytes()
    assert "ingot-review" in (tmp_path / "1.markdown").read_text()
    assert json.loads((tmp_path / "1.json").read_text())["verdict"] == "block"


def test_what_others_did_meanwhile_is_not_reviewed(inside: Path) -> None:
    told = document(
        "--base", "main", "--head", "change", "--mappings", "maps/[os][ta]*.json", code=0
    )
    assert (told["mappings"], told["verdict"]) == ([], "pass")


def test_a_stated_glob_makes_every_file_a_mapping(inside: Path) -> None:
    told = document("--base", "main", "--head", "change", "--mappings", "package.json", code=1)
    assert [(one["path"], one["status"]) for one in told["mappings"]] == [
        ("package.json", "broken")
    ]


def test_the_working_tree_is_reviewed_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pinned: Path
) -> None:
    root = new_repository(tmp_path / "r")
    write(root, "a.json", TEXT)
    write(root, "sub/b.json", TEXT)
    shutil.copytree(pinned, root / "a.sample")
    (root / ".gitignore").write_text("ignored.json\n")
    commit(root)
    monkeypatch.chdir(root / "sub")
    assert document(code=0)["mappings"] == []
    write(root, "a.json", {**TEXT, "text": "body"})
    write(root, "new.json", CHAT)
    write(root, "ignored.json", TEXT)
    (root / "sub/b.json").rename(root / "sub/c.json")
    before = sorted(path for path in (root / ".git").rglob("*"))
    told = document(code=1)
    assert (told["base"], told["head"]) == ("main", "working tree")
    assert {one["path"]: one["status"] for one in told["mappings"]} == {
        "a.json": "modified",
        "new.json": "added",
        "sub/c.json": "renamed",
    }
    assert of(told, "a.json")["same"] == 0
    assert sorted(path for path in (root / ".git").rglob("*")) == before  # nothing was written


def test_a_folder_that_became_a_link_is_not_entered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = new_repository(tmp_path / "r")
    write(root, "maps/a.json", TEXT)
    commit(root)
    write(tmp_path, "elsewhere/a.json", CHAT)
    shutil.rmtree(root / "maps")
    (root / "maps").symlink_to(tmp_path / "elsewhere")
    monkeypatch.chdir(root)
    told = document(code=0)
    assert [(one["path"], one["status"]) for one in told["mappings"]] == [
        ("maps/a.json", "removed")
    ]


def test_a_sample_of_the_data_serves(inside: Path, tmp_path: Path) -> None:
    raw = tmp_path / "elsewhere.jsonl"
    raw.write_text("".join(json.dumps(row) + "\n" for row in ROWS[:30]))
    words = ("--base", "main", "--head", "change", "--source", raw)
    told = document(*words, "--mappings", "maps/absent.json", code=1)
    [one] = told["mappings"]
    assert (one["sample"]["kind"], one["sample"]["rows"], one["sample"]["sha256"]) == (
        "source",
        30,
        None,
    )
    assert (one["same"], one["of"]) == (0, 30)
    ran = ingot("review", *words, code=2)
    assert "--mappings" in ran.stderr


def test_offline_no_other_machine_is_asked(inside: Path) -> None:
    words = ("--base", "main", "--head", "change", "--mappings", "maps/absent.json")
    told = document(*words, "--source", "https://data.invalid/a.jsonl", "--offline")
    assert "--offline" in told["mappings"][0]["sample"]["why"]


def test_data_that_cannot_be_read_end_it(inside: Path) -> None:
    words = ("--base", "main", "--head", "change", "--mappings", "maps/absent.json")
    ran = ingot("review", *words, "--source", "nowhere.jsonl", code=1)
    assert "no such file" in ran.stderr
    assert ran.stdout == ""


def test_two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pinned: Path) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "was.json", TEXT)
    write(tmp_path, "new/is.json", {**TEXT, "text": "body"})
    shutil.copytree(pinned, tmp_path / "was.sample")
    [one] = document("was.json", "new/is.json", code=1)["mappings"]
    assert (one["path"], one["old_path"], one["status"]) == ("new/is.json", "was.json", "modified")
    assert (one["sample"]["place"], one["same"], one["of"]) == (
        "was.sample of was.json",
        0,
        60,
    )
    assert one["reproduce"] == "ingot review was.json new/is.json"
    shutil.move(tmp_path / "was.sample", tmp_path / "new/is.sample")
    [one] = document("was.json", "new/is.json", code=1)["mappings"]
    assert one["sample"]["place"] == "new/is.sample"


@pytest.mark.more
def test_the_whole_is_longer_than_a_comment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, word in (("was", "a"), ("is", "b")):
        variants = [
            {"text": {"path": f"{word}{n}", "map": {str(k): word * 90 for k in range(12)}}}
            for n in range(MOST_ROWS)
        ]
        write(tmp_path, f"{name}.json", {"version": 2, "any_of": variants})
    monkeypatch.setattr("ingot.agent.review.github_comment.COMMENT_LIMIT", 9_000)
    short = ingot("review", "was.json", "is.json", code=1).stdout
    assert "The rest is left out" in short
    again = shlex.split(short.split("```sh\n")[-1].split("\n")[0])
    whole = ingot(*again[1:], code=1).stdout
    assert "The rest is left out" not in whole
    assert len(whole) > len(short)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--base", "nothing"], "'nothing': no such revision"),
        (["--base=--output=x"], "no such revision"),
        (["--head", "HEAD:maps"], "no such revision"),
        (["one.json"], "two files are compared"),
        (["one.json", "two.json"], "no such file"),
        (["one.json", "two.json", "--base", "main"], "--base is for revisions"),
        (["--format", "html"], "html"),
    ],
)
def test_usage(inside: Path, words: list[str], said: str) -> None:
    ran = ingot("review", *words, code=2)
    assert said in ran.stderr
    assert not (inside / "x").exists()


def test_no_repository_no_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert "not a git repository" in ingot("review", code=2).stderr
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "install git" in ingot("review", code=2).stderr


@pytest.mark.more
def test_a_job_of_github_is_told(
    inside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    (tmp_path / "summary.md").write_text("before\n")
    words = ("review", "--base", "main", "--head", "change")
    lines = ingot(*words, code=1).stdout.splitlines()
    stop = next(line for line in lines if line.startswith("::stop-commands::"))
    token = stop.rpartition("::")[2]
    inner = lines[lines.index(stop) + 1 : lines.index(f"::{token}::")]
    assert "<!-- ingot-review -->" in inner
    after = lines[lines.index(f"::{token}::") + 1 :]
    assert any(line.startswith("::error file=maps/breaking.json,line=") for line in after)
    summary = (tmp_path / "summary.md").read_text()
    assert summary.startswith("before\n")
    assert "maps/breaking.json" in summary
    assert json.loads(ingot(*words, "--json", code=1).stdout)["verdict"] == "block"


def test_nothing_of_a_repository_is_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pinned: Path
) -> None:
    root = new_repository(tmp_path / "r")
    trap = tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\ncat\n")
    trap.chmod(0o755)
    for key in ("core.fsmonitor", "core.pager", "diff.external", "diff.x.textconv"):
        git(root, "config", key, str(trap))
    write(root, "a.json", TEXT)
    commit(root)
    for key in ("filter.x.clean", "filter.x.smudge", "filter.x.process"):
        git(root, "config", key, str(trap))
    (root / ".gitattributes").write_text("*.json filter=x diff=x\n")
    for hook in ("post-index-change", "post-checkout"):
        shutil.copy(trap, root / ".git/hooks" / hook)
    (tmp_path / "sprung").unlink(missing_ok=True)  # by the commit
    write(root, "a.json", CHAT)
    write(root, "b.json", CHAT)
    monkeypatch.chdir(root)
    assert len(document(code=1)["mappings"]) == 2
    assert not (tmp_path / "sprung").exists()


def test_a_hook_may_review(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = new_repository(tmp_path / "r")
    write(root, "a.json", TEXT)
    commit(root)
    (root / "a.json").rename(root / "b.json")
    monkeypatch.chdir(root)
    for name, value in (("GIT_DIR", ".git"), ("GIT_INDEX_FILE", ".git/index")):
        monkeypatch.setenv(name, value)
    index = (root / ".git/index").read_bytes()
    [one] = document(code=0)["mappings"]
    assert (one["old_path"], one["path"]) == ("a.json", "b.json")
    assert (root / ".git/index").read_bytes() == index


def test_names_that_are_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = new_repository(tmp_path / "r")
    commit_of_nothing = git(root, "commit-tree", "-m", "x", git(root, "write-tree"))
    git(root, "update-ref", "refs/heads/main", commit_of_nothing)
    (root / os.fsdecode(b"a\xff.json")).write_text(json.dumps(TEXT))
    monkeypatch.chdir(root)
    [one] = document(code=0)["mappings"]
    assert (one["path"], one["status"]) == ("a\\xff.json", "added")
    assert document(*shlex.split(one["reproduce"])[2:])["mappings"] == [one]
    assert "a\\xff.json" in ingot("review", code=0).stdout
    (root / os.fsdecode(b"a\xff.json")).rename(root / "two\nlines \u202e.json")
    [one] = document(code=0)["mappings"]
    assert one["reproduce"].isprintable()
    assert document(*shlex.split(one["reproduce"])[2:])["mappings"] == [one]
    write(root, "b.json", TEXT)
    assert document("two\nlines \u202e.json", "b.json")["reproduce"] is None
