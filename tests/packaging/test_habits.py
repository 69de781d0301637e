"""What runs elsewhere is what runs here: workflow, hooks, templates and dependency updates."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
GITHUB = ROOT / ".github"
WORKFLOW = GITHUB / "workflows/ci.yml"
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
PUBLISHED = {
    "vendor.github-workflows": [WORKFLOW],
    "vendor.dependabot": [GITHUB / "dependabot.yml"],
    "vendor.github-issue-config": [GITHUB / "ISSUE_TEMPLATE/config.yml"],
    "vendor.github-issue-forms": [
        *(GITHUB / f"ISSUE_TEMPLATE/{name}.yml" for name in ("bug", "idea")),
    ],
}


def made_targets(text: str) -> list[tuple[str, str]]:
    """Return what a script makes, in order: the name of the environment, and the target."""
    return re.findall(r'\bmake .*?VENV="\$\w+/(\w+)" ([a-z-]+)', text)


def script_of(workflow: Any) -> str:
    """Return the commands of all steps of a workflow."""
    steps = (step for job in workflow["jobs"].values() for step in job["steps"])
    return "\n".join(step.get("run", "") for step in steps)


def unknown_targets(targets: list[str], makefile: str) -> list[str]:
    """Return the targets that a Makefile does not have."""
    known = set(re.findall(r"^([a-z][\w-]*):", makefile, flags=re.M))
    return [target for target in targets if target not in known]


def supported_pythons() -> list[str]:
    """Return the versions of Python that the package names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found = (re.fullmatch(r".* :: (3\.\d+)", line) for line in project["classifiers"])
    return [match[1] for match in found if match]


def hooks() -> Iterator[dict[str, Any]]:
    """Yield the hooks of pre-commit."""
    for repo in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]:
        yield from repo["hooks"]


def test_the_workflow_makes_what_ci_runs() -> None:
    made = made_targets(script_of(yaml.safe_load(WORKFLOW.read_text("utf-8"))))
    assert made == made_targets((ROOT / ".ci/run").read_text("utf-8"))
    assert len(made) > 5
    assert unknown_targets([target for _, target in made], MAKEFILE) == []


def test_the_workflow_runs_on_all_that_is_supported() -> None:
    (job,) = yaml.safe_load(WORKFLOW.read_text("utf-8"))["jobs"].values()
    assert job["strategy"]["matrix"] == {
        "system": ["ubuntu-latest", "macos-latest"],
        "python": supported_pythons(),
    }


@pytest.mark.more
def test_hooks_are_targets_of_the_makefile() -> None:
    entries = [hook["entry"].split() for hook in hooks()]
    assert {entry[0] for entry in entries} == {"make"}
    assert unknown_targets([target for entry in entries for target in entry[1:]], MAKEFILE) == []
    file = str(ROOT / ".pre-commit-config.yaml")
    check = [sys.executable, "-m", "pre_commit", "validate-config", file]
    run = subprocess.run(check, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout


@pytest.mark.more
@pytest.mark.parametrize("schema", PUBLISHED)
def test_files_are_as_github_publishes_them(schema: str) -> None:
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema]
    run = subprocess.run([*check, *map(str, PUBLISHED[schema])], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout


def test_every_file_for_github_is_checked() -> None:
    checked = {file for files in PUBLISHED.values() for file in files}
    assert {*GITHUB.rglob("*.yml"), *GITHUB.rglob("*.yaml")} == checked


def test_a_check_that_is_left_out_or_gone_is_found() -> None:
    steps = [
        {"uses": "x"},
        {"run": 'make VENV="$A/core" demo'},
        {"run": 'make P=q VENV="$A/dev" li'},
    ]
    made = made_targets(script_of({"jobs": {"one": {"steps": steps}}}))
    assert made == [("core", "demo"), ("dev", "li")]
    assert unknown_targets(["demo", "li"], "demo: x ## a\nlint:\n") == ["li"]


def long_sections(changelog: str, most: int = 10) -> list[str]:
    """Return the sections of a changelog that hold more lines than a user reads."""
    sections = re.split(r"^### ", changelog, flags=re.MULTILINE)[1:]
    bodies = {one.splitlines()[0]: [*filter(None, one.splitlines()[1:])] for one in sections}
    return [name for name, lines in bodies.items() if len(lines) > most]


def test_the_changelog_can_be_read() -> None:
    assert long_sections((ROOT / "CHANGELOG.md").read_text("utf-8")) == []


def test_a_long_section_is_found() -> None:
    assert long_sections("## [1]\n\n### Added\n\n- a\n\n### Fixed\n\n- b\n  c\n", 1) == ["Fixed"]
