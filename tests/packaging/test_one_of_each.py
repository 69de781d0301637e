"""What the whole tree has once: the modules that may do it by hand, and nobody else."""

import re

import pytest

from tests.packaging.house import ROOT, modules

# What is done, how it looks in the code, and where it stands.
ONCE = {
    "lock": (r"\bfcntl\.flock\b", {"converters/output/files.py"}),
    "worker pool": (
        r"\bimport multiprocessing\b|\bfrom multiprocessing\b|ProcessPoolExecutor",
        {"converters/output/worker_pool.py"},
    ),
    "whole-file writer": (r"\bos\.(replace|rename)\(|NamedTemporaryFile", set()),
    "folder commit": (r"renameat2|\bexchange_folders\(", {"converters/output/commit.py"}),
    "reading of a JSON object": (
        r"json\.loads?\([^)\n]*\.read_(bytes|text)\(",
        {"converters/json_yaml.py"},
    ),
    "cutting of a text for display": (
        r"if len\((\w+)\) <= [^:\n]* else f\"\{\1\[",
        {
            "converters/json_yaml.py",
            "agent/privacy/redaction.py",  # names, with how much is left out
            "agent/proposing/llm/reply.py",  # a value in a prompt
            "agent/review/golden_rows.py",  # around the first difference
        },
    ),
    "URL redaction": (r"_SECRET\.sub\(", {"converters/errors.py"}),
    "run identity": (
        r"sha256\(\s*json\.dumps\([^)\n]*sort_keys=True\)",
        {"converters/json_yaml.py", "agent/proposing/llm/mapper.py"},
    ),
    "input list with stamps": (r"def input_(stamp|entry)\(", {"converters/sources/facts.py"}),
    "walk over a mapping": (r"def path_uses\(", {"converters/mapping/path_uses.py"}),
    "mapping in words": (r"def mapping_branches\(", {"agent/reporting/mapping_words.py"}),
    "recognizer of raw data": (
        r"\bRECOGNIZERS\b.* = \{",
        {"converters/sources/recognizers/__init__.py"},
    ),
}


@pytest.mark.parametrize("what", ONCE)
def test_it_stands_in_one_place(what: str) -> None:
    pattern, places = ONCE[what]
    found = {
        file.relative_to(ROOT).as_posix()
        for file in modules().values()
        if re.search(pattern, file.read_text("utf-8"))
    }
    assert found == places
