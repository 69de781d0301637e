"""Damaged inputs: a case of every kind, and a share of the campaign."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SEED = os.environ.get("ATTACK_SEED", "1")
SHARE = float(os.environ.get("ATTACK_SHARE", "0.1"))


def campaign(*words: str) -> str:
    """What a campaign told; its workers are forked, so it has a process of its own."""
    command = [sys.executable, "-m", "tests.attack.campaign", "--seed", SEED, *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    print(done.stdout)  # noqa: T201 - the figures, shown with `-rP`
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-3000:]
    return done.stdout


# Parquet decoders of pyarrow abort on some damage, so that kind is no quick one.
@pytest.mark.more
@pytest.mark.parametrize("kind", ["csv", "json_object", "arrow_file", "tgz", "tokens", "mapping"])
def test_damaged_inputs_end_in_rows_or_in_an_error(kind: str) -> None:
    told = campaign("--kinds", kind, "--share", "0.00001")
    assert told.splitlines()[-1].split()[1] == "1"


def test_a_worker_that_dies_is_a_finding_and_the_others_go_on(tmp_path: Path) -> None:
    script = tmp_path / "dies.py"
    script.write_text(DIES)
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, *sys.path)))},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()[-3:]) == [
        "dies:7:150 signal 9",
        "dies:7:151 hang",
        "dies:7:20 ZeroDivisionError",
    ]


@pytest.mark.attack
def test_a_share_of_the_campaign() -> None:
    campaign("--share", str(SHARE))


DIES = """
import os, sys, time
from pathlib import Path
from tests.attack import campaign
from tests.attack.kinds import Kind

def check(case):
    if case.number == 20:
        1 / 0
    if case.number == 150:
        os.kill(os.getpid(), 9)
    while case.number == 151:
        pass
    return "whole"

campaign.CPU_SECONDS = 0.5
kind = Kind(name="dies", make=lambda folder: None, check=check)
run = campaign.Campaign([kind], 250, 7, Path(sys.argv[1]) / "work")
run.run(2)
assert run.ends["dies"] == {"whole": 247, "finding": 3}, run.ends
for one in run.findings:
    print(one["case"], one["why"].partition(":")[0])
"""
