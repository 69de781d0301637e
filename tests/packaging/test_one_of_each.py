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
    # Also of folders. One argument, at the end of a line: `replace` of a text takes two.
    "whole-file writer": Once(
        r"(?m)\.rename\(|\.replace\([^,()=\n]+\)\s*$|\b(os|shutil)\.(replace|rename|move)\("
        r"|NamedTemporaryFile",
        {
            "converters/output/files.py",  # the writer of single files
            "converters/output/commit.py",  # a result, its old one, and its trash
            "converters/output/pieces.py",  # a piece of a job, and its files into the result
            "converters/output/object_store.py",  # local copies: their hashes are compared
            "converters/records/writers.py",  # a part of a result: the commit syncs all of it
            "converters/megatron/write/staging.py",  # the files of a data set, in a fixed order
            "converters/megatron/inspect/merge.py",  # likewise, of a merged data set
            "converters/kernels/compile.py",  # a cache: what a power cut damages is compiled again
            "converters/recsys/criteo/multihot/id_tables.py",  # a folder of tables
            "converters/recsys/criteo/multihot/job.py",  # a part, filled at many places at once
            "converters/recsys/criteo/preprocess/part_pieces.py",  # inside the draft of a piece
            "agent/review/pinning/pinned_sample.py",  # a folder that is no result
        },
        "draft.replace(path)",
    ),
    "counting of cores": Once(
        r"\bcpu_count\(|\bsched_getaffinity\(", {"converters/progress.py"}, "os.cpu_count() or 1"
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
