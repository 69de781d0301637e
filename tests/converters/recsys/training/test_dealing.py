"""Batches dealt to workers: stretches stay together, and no worker is far ahead."""

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from ingot.converters.recsys.training.batch_order import worker_order

SIZES = st.lists(st.integers(1, 9), max_size=12)


def stretches_of(sizes: list[int]) -> list[int]:
    """The stretch of each batch."""
    return list(chain.from_iterable([place] * size for place, size in enumerate(sizes)))


@given(SIZES, st.integers(1, 5))
def test_every_batch_is_asked_for_once(sizes: list[int], workers: int) -> None:
    stretches = stretches_of(sizes)
    order = worker_order(range(len(stretches)), stretches.__getitem__, workers)
    assert sorted(order) == list(range(len(stretches)))


@given(st.integers(0, 30), st.integers(1, 5))
def test_batches_of_no_stretch_go_round(batches: int, workers: int) -> None:
    assert worker_order(range(batches), lambda batch: batch, workers) == list(range(batches))


def test_a_stretch_goes_to_one_worker() -> None:
    order = worker_order(range(8), stretches_of([2, 2, 2, 2]).__getitem__, 2)
    assert order == [0, 2, 1, 3, 4, 6, 5, 7]


@given(SIZES, st.integers(1, 5))
def test_few_batches_wait_for_their_turn(sizes: list[int], workers: int) -> None:
    stretches = stretches_of(sizes)
    waiting: set[int] = set()
    turn = most = 0
    for batch in worker_order(range(len(stretches)), stretches.__getitem__, workers):
        waiting.add(batch)
        while turn in waiting:
            waiting.remove(turn)
            turn += 1
        most = max(most, len(waiting))
    assert most <= 2 * workers * max(sizes, default=0)
