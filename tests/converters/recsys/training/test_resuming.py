"""What a saved pass resumes with, and states that no loader of this data can have written."""

import pytest

from ingot.converters.recsys.training.batch_order import (
    EpochPlan,
    EpochProgress,
    progress_state,
    restore_progress,
)

PLAN = EpochPlan(batches=7, settings={"size": 3}, data={"rows": 20, "files": 1, "fingerprint": "7"})


@pytest.mark.parametrize(
    ("delivered", "runs"),
    [(0, ((0, 2), (4, 7))), (1, ((1, 2), (4, 7))), (2, ((4, 7),)), (4, ((6, 7),)), (5, ())],
)
def test_what_remains_is_resumed(delivered: int, runs: tuple[tuple[int, int], ...]) -> None:
    progress = EpochProgress(epoch=2, runs=((0, 2), (4, 7)), delivered=delivered)
    assert restore_progress(progress_state(progress, PLAN), PLAN).runs == runs


@pytest.mark.parametrize(
    "remaining",
    [[[0, 8]], [[-1, 2]], [[2, 2]], [[3, 2]], [[0, 3], [2, 5]], [[0, 3], [0, 3]]],
    ids=["beyond", "before", "empty", "backwards", "overlapping", "twice"],
)
def test_batches_that_cannot_remain_are_refused(remaining: list[list[int]]) -> None:
    state = progress_state(EpochProgress(epoch=2, runs=()), PLAN) | {"remaining": [remaining]}
    with pytest.raises(ValueError, match="it was not written by this loader"):
        restore_progress(state, PLAN)
