"""What the whole tree does in one place: the modules that may do it by hand, and nobody else."""

import re
from collections.abc import Mapping
from typing import NamedTuple

import pytest

from tests.packaging.house import ROOT, modules


class Once(NamedTuple):
    """How something looks in the code, where it may stand, and a text that does it anew."""

    pattern: str
    places: set[str]
    planted: str


ONCE = {
    "lock": Once(
        r"\bfcntl\.(flock|lockf)\b", {"converters/output/files.py"}, "fcntl.flock(file, LOCK_EX)"
    ),
    "worker pool": Once(
        r"\bimport multiprocessing\b|\bfrom multiprocessing\b|ProcessPoolExecutor",
        {"converters/output/worker_pool.py"},
        "from concurrent.futures import ProcessPoolExecutor",
    ),
    "whole-file writer": Once(
        r"\bos\.(replace|rename)\(|NamedTemporaryFile", set(), "os.replace(part, path)"
    ),
    "folder commit": Once(
        r"renameat2|\bexchange_folders\(",
        {"converters/output/commit.py"},
        "libc.renameat2(-100, a, -100, b, 2)",
    ),
    "reading of a JSON object": Once(
        r"json\.loads?\([^)\n]*\.read_(bytes|text)\(",
        {"converters/json_yaml.py"},
        'json.loads(path.read_text("utf-8"))',
    ),
    "cutting of a text for display": Once(
        r"if len\((\w+)\) <= [^:\n]* else f\"\{\1\[",
        {
            "converters/json_yaml.py",
            "agent/privacy/redaction.py",  # names, with how much is left out
            "agent/proposing/llm/reply.py",  # a value in a prompt
            "agent/review/golden_rows.py",  # around the first difference
        },
        'text if len(text) <= 40 else f"{text[:40]}..."',
    ),
    "step of a run by hand": Once(
        r"agent\.steps(\.(?!(?:course|order_schema)\b)\w+)? import",
        {"agent/steps/course.py"},
        "from ingot.agent.steps.propose import validate",
    ),
    "approval of a run": Once(
        r'Review\(decision="approve"',
        {"agent/steps/course.py", "agent/judging/policy.py"},  # who decides it is the policy
        'Review(decision="approve")',
    ),
    "LangGraph": Once(
        r"\b(from|import) langgraph(\.|\s)",
        {"agent/served/graph.py"},
        "from langgraph.types import interrupt",
    ),
    "URL redaction": Once(r"_SECRET\.sub\(", {"converters/errors.py"}, '_SECRET.sub("***", url)'),
    "run identity": Once(
        r"sha256\(\s*json\.dumps\([^)\n]*sort_keys=True\)",
        {"converters/json_yaml.py", "agent/proposing/llm/mapper.py"},
        "sha256(json.dumps(facts, sort_keys=True).encode())",
    ),
}


def places_of(pattern: str, texts: Mapping[str, str]) -> set[str]:
    """Return the modules, by their place, whose text does what a pattern looks for."""
    return {place for place, text in texts.items() if re.search(pattern, text)}


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """Return the text of every module by its place."""
    return {
        file.relative_to(ROOT).as_posix(): file.read_text("utf-8") for file in modules().values()
    }


@pytest.mark.parametrize("what", ONCE)
def test_it_stands_in_one_place(what: str, texts: dict[str, str]) -> None:
    assert places_of(ONCE[what].pattern, texts) == ONCE[what].places


@pytest.mark.parametrize("what", ONCE)
def test_a_second_place_is_found(what: str, texts: dict[str, str]) -> None:
    planted = {**texts, "agent/planted.py": ONCE[what].planted}
    assert places_of(ONCE[what].pattern, planted) == {*ONCE[what].places, "agent/planted.py"}
