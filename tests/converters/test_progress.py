"""Cores that a process may use, and the numbers of workers that follow from them."""

import os
from collections.abc import Iterator

import pytest

from ingot.converters import progress
from ingot.converters.megatron.options import WorkOptions
from ingot.converters.output.pieces import spread_tasks
from ingot.converters.output.sharding import Spread


def process_of(_: int) -> int:
    return os.getpid()


@pytest.fixture
def one_core(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that is bound to one core of a large machine."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 128)
    progress.core_numbers.cache_clear()
    yield
    progress.core_numbers.cache_clear()


@pytest.mark.usefixtures("one_core")
def test_workers_are_as_many_as_the_cores_that_may_be_used() -> None:
    assert progress.usable_cores() == 1
    assert WorkOptions().threads() == (1, 1)
    settings = Spread(runner="processes")
    assert set(spread_tasks(settings, process_of, range(3), 3)) == {os.getpid()}


@pytest.mark.usefixtures("one_core")
def test_a_process_that_is_bound_later_knows_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {2, 0, 1, 3})
    assert progress.core_numbers() == [0, 1, 2, 3]
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 3})
    assert progress.usable_cores() == 4


def test_a_system_without_affinity(monkeypatch: pytest.MonkeyPatch, one_core: None) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    assert progress.usable_cores() == 128
