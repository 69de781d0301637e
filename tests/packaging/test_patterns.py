"""Every regular expression of the product takes time in proportion to the text."""

import subprocess
import sys
from pathlib import Path

import pytest

# A machine that is busy is slow; the measure itself is the processor's time.
PATIENCE = 1200
SLOW = [r"a++b", r"a+b", r"(a+)+$", r"\s+$", r"<[^>]*>", r'"(?:[^"\\]|\\.)*"', r"(.)\1*b"]
QUICK = [r"(?<!a)a++b", r"x.{0,400}y", r"<[^<>]*>", r"[ab]", r"\s++"]


def measured(repository: Path, size: int, samples: int, seed: int, *given: str) -> list[str]:
    """Return what a process of its own prints of the product's patterns, or of those given."""
    words = [sys.executable, "-m", "tests.packaging.patterns", *map(str, (size, samples, seed))]
    done = subprocess.run(
        [*words, *given],
        cwd=repository,
        capture_output=True,
        check=True,
        text=True,
        timeout=PATIENCE,
    )
    return done.stdout.splitlines()


def test_the_measure_tells_slow_patterns_from_others(repository: Path) -> None:
    lines = measured(repository, 16_000, 20, 0, *SLOW, *QUICK)
    assert [line[2:] for line in lines if line[0] == "?"] == [*SLOW, *QUICK]
    slow = [line[2:] for line in lines if line[0] == "!"]
    assert len(slow) == len(SLOW)
    assert all(line.startswith(f"{one}: ") for line, one in zip(slow, SLOW, strict=True)), slow


@pytest.mark.parametrize("samples", [1, pytest.param(5, marks=pytest.mark.more)])
def test_patterns_take_linear_time(repository: Path, samples: int) -> None:
    lines = measured(repository, 16_000, samples, 0)
    tried = {line[2:] for line in lines if line[0] == "?"}
    assert len(tried) > 90
    assert "ingot.agent.privacy.secrets._JWT" in tried
    assert [line for line in lines if line[0] == "!"] == []


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 6))
def test_patterns_take_linear_time_on_many_texts(repository: Path, seed: int) -> None:
    lines = measured(repository, 16_000, 20, seed)
    assert [line for line in lines if line[0] == "!"] == []
