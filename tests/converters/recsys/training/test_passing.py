"""Passes over batches: workers, epochs, positions, errors that keep their class."""

import random
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingot.converters.errors import SourceError
from ingot.converters.recsys.training import EpochPlan, ResumableLoader, WorkerFailure

# torch warns of more workers than processors; here they are meant.
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")


class Echo:
    """Gives what is wanted; fails at one batch."""

    def __init__(self, failing: int = -1) -> None:
        self._failing = failing

    def __getitem__(self, wanted: tuple[int, int]) -> Any:
        if wanted[1] == self._failing:
            return WorkerFailure(error=SourceError("here", "is broken", "mend it"))
        return wanted


def passes(
    batches: int = 7, *, streams: int = 1, epoch: int = 0, **options: Any
) -> ResumableLoader:
    data = {"rows": batches, "files": 1, "fingerprint": f"{batches}"}
    course = EpochPlan(batches=batches, streams=streams, settings={"size": 3}, data=data, names={})
    return ResumableLoader(Echo(options.pop("failing", -1)), course, epoch=epoch, **options)


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_epochs_go_on(workers: int) -> None:
    made = passes(epoch=4, num_workers=workers)
    for epoch in (4, 5):
        assert list(made) == [(epoch, batch) for batch in range(7)]
    assert made.epoch == 6


def test_streams_take_turns() -> None:
    assert [batch for _, batch in passes(5, streams=2)] == [0, 3, 1, 4, 2]


@settings(max_examples=50)
@given(
    batches=st.integers(1, 12),
    streams=st.integers(1, 4),
    after=st.integers(1, 4),
    cuts=st.lists(st.integers(0, 5), max_size=4),
)
def test_every_batch_comes_once_however_often_a_pass_is_left(
    batches: int, streams: int, after: int, cuts: list[int]
) -> None:
    got, made, numbers = [], passes(batches, streams=streams), [streams, after]
    for place, cut in enumerate(cuts):
        got += list(islice(iter(made), min(cut, batches - len(got))))
        state = made.state_dict()
        made = passes(batches, streams=numbers[(place + 1) % 2])
        made.load_state_dict(state)
    got += list(made)
    assert sorted(got) == [(0, batch) for batch in range(batches)]
    if streams == after:
        assert got == list(passes(batches, streams=streams))


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_keeps_its_class(workers: int) -> None:
    made = passes(failing=2, num_workers=workers)
    coming: Iterator[Any] = iter(made)
    assert list(islice(coming, 2)) == [(0, 0), (0, 1)]
    with pytest.raises(SourceError, match=r"^here: is broken \(mend it\)$"):
        next(coming)
    assert made.state_dict()["remaining"] == [[[2, 7]]]


def test_what_is_wanted_is_found_out_here() -> None:
    made = passes(3, num_workers=1, want=lambda epoch, batch: (epoch, 10 * batch))
    assert list(made) == [(0, 0), (0, 10), (0, 20)]


def test_no_global_random_numbers_are_drawn() -> None:
    import torch

    before = random.getstate(), torch.random.get_rng_state().tolist()
    list(passes(num_workers=1))
    assert (random.getstate(), torch.random.get_rng_state().tolist()) == before


def test_other_settings_and_data_are_named() -> None:
    state = passes().state_dict()
    state["settings"] = {"size": 4}
    with pytest.raises(ValueError, match="size was 4, is 3; the data was other: 7 rows in 1 files"):
        passes(8).load_state_dict(state)
