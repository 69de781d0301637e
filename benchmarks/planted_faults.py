"""Plants one fault at a time and asks whether the quick suite notices.

    python benchmarks/planted_faults.py                      # all 40: half a minute each
    python benchmarks/planted_faults.py --only paths commit  # those whose file says one of these
    python benchmarks/planted_faults.py --rest               # what is missed: the whole quick suite
    python benchmarks/planted_faults.py --checkout FOLDER    # the tests of another version

Each changes one line in a copy of the checkout, as a slip of the pen would, and runs the folder of
tests that mirrors the file up to the first failure, what names the module first. A fault that
nothing notices is a test that is missing. Prints a line for each and how many were caught; ends
with 1 where one was not.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEFT_BEHIND = shutil.ignore_patterns(".git", ".venv", ".peers", ".*_cache", "demo", ".hypothesis")
PATIENCE = 300  # seconds for one folder of tests: a fault may be an endless loop
# What pytest ends with, and whether a test failed: 1 of itself, 2 while it was read, 5 with none.
ENDS = {0: False, 1: True, 2: True, 5: False}


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One line that is wrong, and the tests that stand beside it."""

    file: str
    right: str
    wrong: str
    tests: tuple[str, ...]


def _fault(file: str, right: str, wrong: str, *tests: str) -> Fault:
    folder = f"tests/{file.rsplit('/', 1)[0]}"
    return Fault(file=file, right=right, wrong=wrong, tests=tests or (folder,))


_MEGATRON, _CTR = "tests/converters/megatron", "tests/converters/recsys/ctr"
_MONOLITH = "tests/converters/recsys/monolith"
FAULTS = (
    # Where data lies and how it reads.
    _fault(
        "converters/sources/formats/delimited.py",
        "started is None and (not quote",
        "started is None or (not quote",
    ),
    _fault(
        "converters/sources/formats/dialect.py",
        "if fits and _NAMED_COMMENT.match(line):",
        "if _NAMED_COMMENT.match(line):",
    ),
    _fault(
        "converters/sources/formats/dialect.py",
        "return several * 2 > len(records)",
        "return several > len(records)",
    ),
    _fault("converters/sources/storage/archives.py", "head[257:262]", "head[257:261]"),
    _fault(
        "converters/sources/storage/archives.py",
        "if self.number == number + 1:",
        "if self.number == number:",
    ),
    _fault(
        "converters/sources/storage/archives.py",
        "number >= MAX_MEMBERS",
        "number > 2 * MAX_MEMBERS",
    ),
    # The mapping: language, executors, paths, documents.
    _fault("converters/mapping/documents/parser.py", "if len(pieces) == 1 or any", "if any"),
    _fault(
        "converters/mapping/documents/version1.py",
        "max(1, len(found) // 20)",
        "max(1, len(found) // 2)",
    ),
    _fault(
        "converters/mapping/rows/executor.py",
        '"user" not in roles and "tool" not in roles',
        '"user" not in roles',
        "tests/converters/mapping",
    ),
    _fault(
        "converters/mapping/rows/executor.py",
        "not -(2**63) <= number < 2**63",
        "not -(2**63) <= number <= 2**64",
        "tests/converters/mapping",
    ),
    _fault(
        "converters/paths.py",
        "if count > MAX_STEPS:",
        "if count > 100 * MAX_STEPS:",
        "tests/converters/test_paths.py",
    ),
    _fault(
        "converters/json_yaml.py",
        "if self.depth == _YAML_LEVELS:",
        "if self.depth == -1:",
        "tests/converters",
    ),
    # What is committed.
    _fault("converters/output/commit.py", '.stat().st_size == f["bytes"]', ".stat().st_size >= 0"),
    _fault(
        "converters/output/commit.py",
        "if destination.out.exists() and not _is_empty(destination.out):",
        "if False:",
    ),
    _fault(
        "converters/output/pieces.py",
        "if len(results) == len(tasks) else None",
        "if results else None",
        "tests/converters/output",
        "tests/scale",
    ),
    # Tokens.
    _fault(
        "converters/megatron/documents.py",
        "int(ids.max()) > limit",
        "int(ids.max()) > limit + 1",
        _MEGATRON,
    ),
    _fault(
        "converters/megatron/indexed_dataset.py", "largest < 2**16", "largest <= 2**16", _MEGATRON
    ),
    _fault(
        "converters/megatron/indexed_dataset.py",
        "return len(self.document_indices) - 1",
        "return len(self.document_indices)",
        _MEGATRON,
    ),
    _fault(
        "converters/megatron/write/lanes.py",
        "if _file_size(path) > end:",
        "if _file_size(path) < end:",
    ),
    _fault(
        "converters/megatron/chat/loss_masks.py", 'text.startswith("<0x")', 'text.startswith("<0X")'
    ),
    # Recommendation data.
    _fault(
        "converters/recsys/ctr/preprocess/vocabulary.py",
        "if 2 * most > len(table.slots):",
        "if most > 2 * len(table.slots):",
        f"{_CTR}/preprocess",
    ),
    _fault(
        "converters/recsys/ctr/preprocess/token_kernels.py",
        "_MOST = ((1 << 53) - 10) // 10",
        "_MOST = (1 << 57) // 10",
        f"{_CTR}/preprocess",
    ),
    _fault(
        "converters/recsys/criteo/preprocess/row_kernels.py",
        "if len(text) and text[len(text) - 1] != _NEWLINE:",
        "if False:",
    ),
    _fault(
        "converters/recsys/criteo/preprocess/row_kernels.py",
        "if column < ints:",
        "if column <= ints:",
    ),
    _fault(
        "converters/recsys/criteo/preprocess/shuffle.py",
        "own = ids >= contract.FIRST_ID",
        "own = ids > contract.FIRST_ID",
    ),
    _fault(
        "converters/recsys/monolith/fid.py",
        "if isinstance(value, bool | np.bool_) or not",
        "if not",
        _MONOLITH,
    ),
    _fault(
        "converters/recsys/monolith/frames/framing.py",
        "before + self.sort_id + 1",
        "before + self.sort_id",
    ),
    _fault(
        "converters/recsys/training/batch_order.py",
        "if not before <= start < stop <= plan.batches:",
        "if not before <= start <= stop <= plan.batches:",
    ),
    # Lakes and exports.
    _fault("converters/lake/duplicates.py", "start % 8 : start % 8 + count", "0:count"),
    _fault(
        "converters/export/chat_layout.py",
        "sum(systems) > leading_count or leading_count < 2",
        "leading_count < 2",
    ),
    _fault("converters/export/job.py", "if lost and not self.options.lossy:", "if False:"),
    _fault("agent/lake/file_scan.py", "_is_known(one, known.get(scan.key(one)))", "True"),
    # What proposes, judges and talks to a model.
    _fault(
        "agent/proposing/rules/answers/sides.py",
        "return phrases > 0.4 * len(sample) or",
        "return phrases > 4 * len(sample) or",
        "tests/agent/proposing/rules",
    ),
    _fault(
        "agent/proposing/fingerprint.py",
        "if _row_share(facts, rows) < RARE_SHARE:",
        "if False:",
        "tests/agent/proposing",
        "tests/agent/judging",
    ),
    _fault("agent/judging/policy.py", 'and not state["order"].yes', ""),
    _fault(
        "agent/judging/drift.py",
        "and not set(change.names) <= names",
        "and set(change.names) <= names",
    ),
    _fault(
        "agent/privacy/numbers.py", "return len(number) >= 15 and", "return len(number) >= 25 and"
    ),
    _fault("agent/privacy/redaction.py", "if start >= done and end > start:", "if end > start:"),
    _fault("agent/model/budget.py", "spent.calls + 1 > limits.calls", "spent.calls > limits.calls"),
    _fault("agent/lake/shared_model.py", "return self._stuck == 1", "return self._stuck >= 1"),
)


def plant(fault: Fault, checkout: Path) -> None:
    """Write the fault into a checkout; the line has to stand there exactly once."""
    path = checkout / fault.file
    text = path.read_text("utf-8")
    if text.count(fault.right) != 1:
        raise SystemExit(
            f"{fault.file}: {fault.right!r} stands there {text.count(fault.right)} times"
        )
    path.write_text(text.replace(fault.right, fault.wrong), "utf-8")


@contextmanager
def planted(fault: Fault, checkout: Path) -> Iterator[None]:
    """Plant the fault; take it out again, so that what is compiled of other files stays."""
    path = checkout / fault.file
    right, times = path.read_bytes(), path.stat()
    plant(fault, checkout)
    try:
        yield
    finally:
        path.write_bytes(right)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def mirrored_files(fault: Fault, checkout: Path) -> list[str]:
    """Return the files of the tests beside a fault: those that name its module come first."""
    stem = Path(fault.file).stem
    found = [
        file
        for place in fault.tests
        for file in ([checkout / place] if place.endswith(".py") else _test_files(checkout / place))
    ]

    def distance(file: Path) -> tuple[bool, bool, int]:
        text = file.read_text("utf-8")
        return stem not in file.stem, stem not in text, len(text)

    return [str(file.relative_to(checkout)) for file in sorted(found, key=distance)]


def _test_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("test_*.py"))


def is_noticed(checkout: Path, tests: Sequence[str]) -> bool:
    """Return whether a test fails, or none ends in time."""
    words = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(
            words,
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": str(checkout)},
            capture_output=True,
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        return True
    if done.returncode < 0:  # it took all memory, or crashed
        return True
    if done.returncode not in ENDS:
        raise SystemExit(f"pytest {' '.join(tests)}: {done.stdout.decode()[-2000:]}")
    return ENDS[done.returncode]


def main() -> int:
    """Plant each fault in a copy and print whether it was caught."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", nargs="*", default=[], help="parts of names of files")
    parser.add_argument("--rest", action="store_true", help="the whole suite where one is missed")
    parser.add_argument("--checkout", type=Path, default=ROOT)
    given = parser.parse_args()
    chosen = [
        one for one in FAULTS if not given.only or any(part in one.file for part in given.only)
    ]
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder) / "ingot"
        shutil.copytree(given.checkout, checkout, symlinks=True, ignore=LEFT_BEHIND)
        for one in chosen:
            begun = time.monotonic()
            with planted(one, checkout):
                caught = is_noticed(checkout, mirrored_files(one, checkout)) or (
                    given.rest and is_noticed(checkout, ["-n", "auto", "tests"])
                )
            missed += not caught
            word = "caught" if caught else "MISSED"
            print(
                f"{word} {time.monotonic() - begun:6.0f} s  {one.file}: "
                f"{one.right.strip()!r} -> {one.wrong.strip()!r}",
                flush=True,
            )
    print(f"{len(chosen) - missed} of {len(chosen)} caught")
    return int(missed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
