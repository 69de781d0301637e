"""Kills at random moments: one of a conversion, and a share of the campaign over all jobs."""

import math
import os
from pathlib import Path

import pytest

from tests.attack.kills import JOBS, MOMENTS, Job, check_kills

KILLS = 300
SEED = int(os.environ.get("ATTACK_SEED", "1"))
SHARE = float(os.environ.get("ATTACK_SHARE", "0.1"))


@pytest.mark.more
def test_a_kill(tmp_path: Path) -> None:
    assert check_kills(JOBS[1], tmp_path, 1, SEED).keys() <= set(MOMENTS)


@pytest.mark.attack
@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_kills(tmp_path: Path, job: Job) -> None:
    left = check_kills(job, tmp_path, math.ceil(KILLS * SHARE / len(JOBS)), SEED)
    print(dict(left))  # noqa: T201 - how far the runs were, shown with `-rP`
