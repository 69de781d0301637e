"""action.yml, the hook of pre-commit and the example workflow: valid, and run for real.

The shell of the action's steps is run as a job runs it, in a repository with a merge commit like
that of a pull request; `gh` is a program that writes down what it was asked.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from ingot.precommit import find_mapping, main

pytestmark = pytest.mark.more

ROOT = Path(__file__).resolve().parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"] if "name" in step}
WORKFLOW = ROOT / "examples" / "github" / "mappings.yml"
EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}")
BASH = ["bash", "--noprofile", "--norc", "-eo", "pipefail"]
ROWS = [
    {"title": f"A title {n}", "body": f"The body of text {n} in some words."} for n in range(20)
]
MAPPING = {"version": 2, "text": ["title", "body"], "meta": {"language": {"literal": "en"}}}
GH = """#!{python} -I
import json, os, sys
from pathlib import Path

place = Path(os.environ["GH_PLACE"])
with (place / "log").open("a") as log:
    log.write(json.dumps(sys.argv[1:]) + "\\n")
for argument in sys.argv:
    if argument.startswith("body=@"):
        (place / "body").write_text(Path(argument[6:]).read_text("utf-8"), "utf-8")
if (place / "refuse").exists():
    sys.exit("HTTP 403: Resource not accessible by integration")
if "--paginate" in sys.argv and (place / "found").exists():
    print((place / "found").read_text())
"""


@pytest.mark.parametrize(
    ("schema", "file"),
    [("github-actions", ROOT / "action.yml"), ("github-workflows", WORKFLOW)],
    ids=["action", "workflow"],
)
def test_files_are_as_published(schema, file):
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    run = subprocess.run([*check, str(file)], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout


def test_the_hook_is_as_pre_commit_wants_it():
    file = str(ROOT / ".pre-commit-hooks.yaml")
    check = [sys.executable, "-m", "pre_commit", "validate-manifest", file]
    run = subprocess.run(check, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout


@pytest.mark.parametrize("name", STEPS)
def test_nothing_from_outside_is_pasted_into_a_shell(name):
    assert not EXPRESSION.search(STEPS[name]["run"])
    assert subprocess.run([*BASH, "-n", "-c", STEPS[name]["run"]]).returncode == 0


def test_the_workflow_names_inputs_of_the_action():
    workflow = yaml.safe_load(WORKFLOW.read_text("utf-8"))
    (step,) = [one for one in workflow["jobs"]["review"]["steps"] if "ingot@" in one["uses"]]
    assert set(step["with"]) <= set(ACTION["inputs"])


def test_a_label_starts_the_workflow():
    workflow = yaml.safe_load(WORKFLOW.read_text("utf-8"))
    (started,) = (workflow[key] for key in workflow if key in ("on", True))  # YAML 1.1: on is true
    usual = {"opened", "synchronize", "reopened"}
    assert set(started["pull_request"]["types"]) == {*usual, "labeled", "unlabeled"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A runner that has checked out a pull request."""

    place: Path

    @property
    def work(self) -> Path:
        return self.place / "work"

    def git(self, *arguments: str) -> str:
        run = subprocess.run(
            ["git", *arguments], cwd=self.work, capture_output=True, text=True, check=True
        )
        return run.stdout.strip()

    def commit(self, name: str) -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", name)
        return self.git("rev-parse", "HEAD")

    def write(self, file: str, content: Any) -> None:
        path = self.work / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=1), encoding="utf-8")

    def step(
        self, name: str, context: dict[str, str], **given: str
    ) -> subprocess.CompletedProcess[str]:
        """A step as a job runs it: expressions in its environment, never in its shell."""
        stated = {
            key: EXPRESSION.sub(lambda found: valued(found[1], context), value)
            for key, value in STEPS[name].get("env", {}).items()
        }
        env = {**os.environ, **self.env(), **stated, **given}
        command = [*BASH, "-c", STEPS[name]["run"]]
        return subprocess.run(command, cwd=self.work, env=env, capture_output=True, text=True)

    def env(self) -> dict[str, str]:
        return {
            "RUNNER_TEMP": str(self.place / "temp"),
            "GITHUB_ACTIONS": "true",
            "GITHUB_OUTPUT": str(self.place / "output"),
            "GITHUB_STEP_SUMMARY": str(self.place / "summary"),
            "GITHUB_REPOSITORY": "owner/name",
            "GITHUB_REF": "refs/pull/7/merge",
            "GITHUB_SHA": self.git("rev-parse", "HEAD"),
            "GH_PLACE": str(self.place),
            "PATH": f"{self.place / 'bin'}:{os.environ['PATH']}",
        }

    def outputs(self) -> dict[str, str]:
        lines = (self.place / "output").read_text("utf-8").splitlines()
        return dict(line.split("=", 1) for line in lines)

    def asked(self) -> list[list[str]]:
        log = self.place / "log"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def valued(expression: str, context: dict[str, str]) -> str:
    """`a || b` of names with values."""
    values = (context.get(name.strip(), "") for name in expression.split("||"))
    return next((value for value in values if value), "")


def script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


@pytest.fixture
def job(tmp_path) -> Job:
    """A mapping with golden rows on main, checked out."""
    made = Job(place=tmp_path)
    script(tmp_path / "bin" / "gh", GH.format(python=sys.executable))
    ingot = f'#!/bin/sh\nexec {sys.executable} -P -m ingot "$@"\n'
    script(tmp_path / "temp" / "ingot-review" / "bin" / "ingot", ingot)
    made.work.mkdir()
    made.git("init", "--quiet", "--initial-branch=main")
    made.git("config", "user.name", "x")
    made.git("config", "user.email", "x@localhost")
    made.write("mappings/a.json", MAPPING)
    rows = [json.dumps({"row": row, "records": records(row)}) for row in ROWS[:2]]
    (made.work / "mappings" / "a.golden.jsonl").write_text("\n".join(rows) + "\n")
    made.commit("Mappings")
    return made


def records(row: dict[str, str]) -> list[dict[str, Any]]:
    text = f"{row['title']}\n{row['body']}"
    meta = {"source": "a", "language": "en", "timestamp": None, "original_id": None}
    return [{"text": text, "meta": meta}]


def pulled(job: Job, mapping: dict[str, Any]) -> dict[str, str]:
    """A pull request that changes the mapping, merged into a main that has moved on."""
    base = job.git("rev-parse", "HEAD")
    job.git("switch", "--quiet", "--create", "change")
    job.write("mappings/a.json", mapping)
    job.commit("Change")
    job.git("switch", "--quiet", "main")
    job.write("mappings/other.json", {"version": 2, "text": "of somebody else"})
    job.commit("Meanwhile")
    job.git("switch", "--quiet", "--detach")
    job.git("merge", "--quiet", "--no-edit", "change")
    return {
        "inputs.head": "HEAD",
        "inputs.comment": "true",
        "inputs.allow-breaking": "false",
        "github.event.pull_request.base.sha": base,
        "github.event.pull_request.number": "7",
    }


def stepped(job: Job, context: dict[str, str]) -> dict[str, str]:
    """The context after the step of the review, which must not fail."""
    run = job.step("Review", context)
    assert run.returncode == 0, run.stdout + run.stderr
    told = {f"steps.review.outputs.{key}": value for key, value in job.outputs().items()}
    return {**context, **told}


def test_a_review_that_blocks(job):
    context = stepped(job, pulled(job, {**MAPPING, "text": "title"}))
    assert job.outputs()["verdict"] == "block"
    assert job.outputs()["mappings"] == "1"  # not what main got meanwhile
    report = Path(job.outputs()["report"]).read_text("utf-8")
    assert report.startswith("<!-- ingot-review -->\n")
    assert "mappings/a.json" in (job.place / "summary").read_text("utf-8")
    # Not the merge commit, which nobody has.
    head, base = job.git("rev-parse", "change"), job.git("rev-parse", "main")
    assert job.outputs()["commit"] == head
    assert f"ingot review --base {base} --head {head} --mappings mappings/a.json" in report
    assert job.step("Comment", context).returncode == 0
    listed, posted = job.asked()
    assert listed[:3] == ["api", "graphql", "--paginate"]
    assert {"owner=owner", "name=name", "number=7"} <= set(listed)
    assert posted[:4] == ["api", "--method", "POST", "repos/owner/name/issues/7/comments"]
    assert (job.place / "body").read_text("utf-8") == report
    assert job.step("Verdict", context).returncode == 1


def test_the_comment_is_written_anew(job):
    context = stepped(job, pulled(job, {**MAPPING, "meta": {"language": "title"}}))
    (job.place / "found").write_text("IC_first\nIC_second")
    assert job.step("Comment", context).returncode == 0
    _, updated = job.asked()
    assert updated[:2] == ["api", "graphql"]
    assert "id=IC_first" in updated
    assert any("updateIssueComment" in one for one in updated)
    assert (job.place / "body").read_text("utf-8").startswith("<!-- ingot-review -->\n")


@pytest.mark.parametrize("found", ["IC_first", ""])
def test_a_review_that_fails_leaves_no_old_comment(job, found):
    context = pulled(job, {**MAPPING, "text": "title"})
    assert job.step("Review", {**context, "inputs.base": "nowhere"}).returncode == 2
    (job.place / "found").write_text(found)
    commit = job.outputs()["commit"]
    context |= {"steps.review.outputs.commit": commit, "github.run_id": "5"}
    assert "failure()" in STEPS["Comment"]["if"]
    assert job.step("Comment", context).returncode == 0
    assert len(job.asked()) == 1 + bool(found)  # there is no first comment that says nothing
    if found:
        body = (job.place / "body").read_text("utf-8")
        assert body.startswith(f"<!-- ingot-review -->\nThere was no review of `{commit}`: [")
        assert "/actions/runs/5)" in body


def test_a_token_that_may_not_write_fails_nothing(job):
    context = stepped(job, pulled(job, {**MAPPING, "text": "title"}))
    (job.place / "refuse").touch()
    run = job.step("Comment", context)
    assert run.returncode == 0
    assert run.stdout.startswith("::notice title=ingot review::no comment:")


def test_where_no_mapping_changed_there_is_no_first_comment(job):
    context = stepped(job, pulled(job, MAPPING))
    assert job.outputs()["verdict"] == "pass"
    assert job.step("Comment", context).returncode == 0
    assert [one[:2] for one in job.asked()] == [["api", "graphql"]]
    assert job.step("Verdict", context).returncode == 0


def test_breaking_changes_can_be_allowed(job):
    context = pulled(job, {**MAPPING, "text": ["body", "title"]})
    (job.work / "mappings" / "a.golden.jsonl").unlink()
    job.commit("No golden rows")
    stepped(job, {**context, "inputs.allow-breaking": "true"})
    assert job.outputs()["verdict"] == "warn"


def test_inputs_are_words_and_nothing_else(job):
    context = pulled(job, {**MAPPING, "text": "title"})
    hostile = '$(touch "$GH_PLACE/ran"); `touch "$GH_PLACE/ran"`\n--output=/x'
    names = [f"inputs.{name}" for name in ("base", "head", "mappings", "source")]
    for said in (hostile, "--help"):
        job.step("Review", {**context, **dict.fromkeys(names, said)})
    assert not (job.place / "ran").exists()


def test_a_repository_runs_none_of_its_modules(job):
    for name in ("venv", "ingot", "json", "sitecustomize"):
        (job.work / f"{name}.py").write_text(f"open({str(job.place / 'ran')!r}, 'w')\n")
    stepped(job, pulled(job, {**MAPPING, "text": "title"}))
    assert not (job.place / "ran").exists()


def test_a_missing_base_is_explained(job):
    context = {**pulled(job, MAPPING), "inputs.base": "no-such-branch"}
    run = job.step("Review", context)
    assert run.returncode != 0
    assert "fetch-depth: 0" in run.stdout


@pytest.mark.skipif(not shutil.which("jq"), reason="needs jq")
def test_only_own_comments_with_the_marker_are_found():
    own = re.search(r"own='(.*?)'", STEPS["Comment"]["run"], re.DOTALL)
    assert own
    nodes = [
        {"id": "1", "viewerDidAuthor": True, "body": "Hello"},
        {"id": "2", "viewerDidAuthor": False, "body": "<!-- ingot-review -->\nmine now"},
        {"id": "3", "viewerDidAuthor": True, "body": "<!-- ingot-review -->\nold"},
    ]
    answer = {"data": {"repository": {"pullRequest": {"comments": {"nodes": nodes}}}}}
    run = subprocess.run(
        ["jq", "--raw-output", own[1]], input=json.dumps(answer), capture_output=True, text=True
    )
    assert run.stdout == "3\n"


@pytest.mark.parametrize(
    ("file", "mapping"),
    [
        ("mappings/a.json", "mappings/a.json"),
        ("mappings/a.golden.jsonl", "mappings/a.json"),
        ("mappings/a.sample/data/x.json", "mappings/a.json"),
        ("mappings/a.sample/sample.json", "mappings/a.json"),
        ("mappings/README.md", None),
        ("mappings/x.jsonl", None),
    ],
)
def test_the_mapping_that_a_file_belongs_to(file, mapping):
    assert find_mapping(Path(file)) == (Path(mapping) if mapping else None)


def test_the_hook_checks_what_changed(job, monkeypatch, capfd):
    monkeypatch.chdir(job.work)
    files = ["mappings/a.json", "mappings/a.golden.jsonl", "mappings/gone.json", "README.md"]
    assert main(files) == 0
    assert capfd.readouterr().out == ""
    job.write("mappings/a.json", {**MAPPING, "text": "title"})
    assert main(files) == 1
    assert capfd.readouterr().out.count("Golden rows: 0 of 2 pass") == 1
    job.write("mappings/b.json", {"version": 2, "txt": "title"})
    assert main(["mappings/b.json"]) == 1
    assert "mappings/b.json" in capfd.readouterr().err
    job.write("mappings/b.json", MAPPING)
    assert main(["mappings/b.json"]) == 0


@pytest.mark.long
def test_pre_commit_runs_the_hook(job, tmp_path):
    """With pre-commit itself, which clones ingot and installs it into an environment of its own."""
    clone = tmp_path / "ingot"
    copied(clone)
    config = {"repos": [{"repo": str(clone), "rev": "HEAD", "hooks": [{"id": "ingot-check"}]}]}
    (job.work / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    command = [sys.executable, "-m", "pre_commit", "run", "--all-files", "--verbose"]
    env = {**os.environ, "PRE_COMMIT_HOME": str(tmp_path / "cache")}
    for mapping, code in ((MAPPING, 0), ({**MAPPING, "text": "title"}, 1)):
        job.write("mappings/a.json", mapping)
        job.git("add", "--all")
        run = subprocess.run(command, cwd=job.work, env=env, capture_output=True, text=True)
        assert run.returncode == code, run.stdout + run.stderr
        assert ("Golden rows: 0 of 2 pass" in run.stdout) == bool(code)


@pytest.mark.long
def test_the_action_installs_itself(job, tmp_path):
    """The step that installs, then a review with what it installed."""
    clone = tmp_path / "ingot"
    copied(clone)
    shutil.rmtree(tmp_path / "temp" / "ingot-review")
    run = job.step("Install ingot", {}, GITHUB_ACTION_PATH=str(clone))
    assert run.returncode == 0, run.stdout + run.stderr
    stepped(job, pulled(job, {**MAPPING, "text": "title"}))
    assert job.outputs()["verdict"] == "block"


def copied(clone: Path) -> None:
    """The files of this tree that git knows, as a repository."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        if os.path.lexists(ROOT / name):
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, clone / name, follow_symlinks=False)
    there = ["git", "-c", "user.name=x", "-c", "user.email=x@localhost", "-C", str(clone)]
    for words in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "-m", "Tree"]):
        subprocess.run([*there, *words], check=True)
