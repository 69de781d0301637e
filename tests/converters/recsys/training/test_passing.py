"""Passes over batches: workers, epochs, positions, errors that keep their class."""

import pickle
import random
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch", reason="torch is not installed: make test-more brings it")

from ingot.converters.errors import SourceError
from ingot.converters.recsys.training.batch_order import EpochPlan
from ingot.converters.recsys.training.loader import (
    BatchMaker,
    BatchPlan,
    TrainingLoader,
    WorkerOptions,
)

# torch warns of more workers than processors; here they are meant.
pytestmark = [
    pytest.mark.more,
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
]


class Echo(BatchMaker):
    """Gives what it is asked for; fails at one batch."""

    def __init__(self, failing: int = -1) -> None:
        self._failing = failing

    def stretch(self, epoch: int, number: int) -> object:
        return epoch, number // 3

    def batch(self, request: tuple[int, int]) -> Any:
        if request[1] == self._failing:
            raise SourceError("here", "is broken", "mend it")
        return request


class Batches(BatchPlan):
    """A row is a batch."""

    @property
    def batches(self) -> int:
        return self.rows

    @property
    def dropped(self) -> int:
        return 0


def passes(
    batches: int = 7,
    *,
    epoch: int = 0,
    failing: int = -1,
    kind: type[TrainingLoader[Any]] = TrainingLoader,
    request: Any = None,
    **options: Any,
) -> TrainingLoader[Any]:
    data = {"rows": batches, "files": 1, "fingerprint": f"{batches}"}
    plan = EpochPlan(batches=batches, settings={"size": 3}, data=data)
    rows = Batches(rows=batches, batch_size=1)
    return kind(rows, Echo(failing), plan, WorkerOptions(**options), epoch=epoch, request=request)


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_epochs_go_on(workers: int) -> None:
    made = passes(epoch=4, num_workers=workers)
    for epoch in (4, 5):
        assert list(made) == [(epoch, batch) for batch in range(7)]
    assert made.epoch == 6


@settings(max_examples=50)
@given(batches=st.integers(1, 12), cuts=st.lists(st.integers(0, 5), max_size=4))
def test_every_batch_comes_once_however_often_a_pass_is_left(batches: int, cuts: list[int]) -> None:
    got, made = [], passes(batches)
    for cut in cuts:
        got += list(islice(iter(made), min(cut, batches - len(got))))
        state = made.state_dict()
        made = passes(batches)
        made.load_state_dict(state)
    assert got + list(made) == [(0, batch) for batch in range(batches)]


@pytest.mark.more
@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_an_error_keeps_its_class(workers: int) -> None:
    made = passes(failing=2, num_workers=workers)
    coming: Iterator[Any] = iter(made)
    assert list(islice(coming, 2)) == [(0, 0), (0, 1)]
    with pytest.raises(SourceError, match=r"^here: is broken \(mend it\)$"):
        next(coming)
    assert made.state_dict()["remaining"] == [[[2, 7]]]


class Marked(TrainingLoader[Any]):
    def _finish(self, batch: Any) -> Any:
        return (*batch, "here")


def test_requests_and_the_last_step_are_the_callers() -> None:
    made = passes(3, num_workers=1, kind=Marked, request=lambda epoch, batch: (epoch, 10 * batch))
    assert list(made) == [(0, 0, "here"), (0, 10, "here"), (0, 20, "here")]


def test_a_loader_may_be_pickled() -> None:
    made = passes(5)
    next(iter(made))
    copy = pickle.loads(pickle.dumps(made))
    assert list(copy) == [(0, batch) for batch in range(1, 5)]


STATE = {
    "version": 1,
    "epoch": 2,
    "remaining": [[[2, 4]], [[5, 7]]],
    "settings": {"size": 3},
    "data": {"rows": 7, "files": 1, "fingerprint": "7"},
}


def test_states_of_the_first_release_load() -> None:
    """As commit c17f53e wrote them, with two workers."""
    made = passes(7)
    made.load_state_dict(STATE)
    assert made.state_dict() == STATE | {"remaining": [[[2, 4], [5, 7]]]}
    assert list(made) == [(2, batch) for batch in (2, 3, 5, 6)]


@pytest.mark.more
def test_no_global_random_numbers_are_drawn() -> None:
    torch = pytest.importorskip("torch")

    before = random.getstate(), torch.random.get_rng_state().tolist()
    list(passes(num_workers=1))
    assert (random.getstate(), torch.random.get_rng_state().tolist()) == before


def test_other_settings_and_data_are_named() -> None:
    state = passes().state_dict()
    state["settings"] = {"size": 4}
    with pytest.raises(
        ValueError, match="size was 4, is 3; the data were 7 rows in 1 files, are 8"
    ):
        passes(8).load_state_dict(state)
