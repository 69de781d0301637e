"""The arithmetic of batches: every row once, equal counts, orders that do not change."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ingot.converters.recsys.criteo.criteo_dataset import Plan

PLANS = st.fixed_dictionaries(
    {
        "rows": st.integers(1, 300),
        "batch_size": st.integers(1, 20),
        "world_size": st.integers(1, 7),
        "shuffle_batches": st.booleans(),
    }
)


def ranks(**options: int) -> list[Plan]:
    try:
        return [Plan(rank=rank, **options) for rank in range(options["world_size"])]  # type: ignore[arg-type]
    except ValueError:
        assume(False)
        raise


def delivered(plan: Plan) -> list[tuple[int, int]]:
    order = plan.batch_order(3) if plan.shuffle_batches else None
    return [plan.positions(batch, order) for batch in range(plan.batches)]


@given(PLANS)
def test_every_row_is_in_one_batch_of_one_rank(options: dict[str, int]) -> None:
    plans = ranks(**options)
    assert len({plan.batches for plan in plans}) == 1
    batches = [batch for plan in plans for batch in delivered(plan)]
    seen = [row for start, stop in batches for row in range(start, stop)]
    assert sorted(seen) == list(range(options["rows"]))
    assert min(stop - start for start, stop in batches) > 0
    assert {plan.dropped for plan in plans} == {0}


@given(PLANS)
def test_only_the_last_batches_are_not_full(options: dict[str, int]) -> None:
    for step in zip(*map(delivered, ranks(**options)), strict=True):
        last = step == tuple(batches[-1] for batches in map(delivered, ranks(**options)))
        sizes = [stop - start for start, stop in step]
        assert max(sizes) - min(sizes) <= 1
        assert last or set(sizes) == {options["batch_size"]}
        assert max(sizes) <= options["batch_size"] + (options["world_size"] > 1)


@given(PLANS)
def test_drop_last_leaves_full_batches(options: dict[str, int]) -> None:
    plans = ranks(**options, drop_last=True)
    batches = [batch for plan in plans for batch in delivered(plan)]
    assert {stop - start for start, stop in batches} == {options["batch_size"]}
    assert len(set(batches)) == len(batches)
    left = options["rows"] - len(batches) * options["batch_size"]
    assert {plan.dropped for plan in plans} == {left}
    assert left < options["world_size"] * options["batch_size"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rows": 3, "batch_size": 2, "world_size": 4}, "3 rows over 4 ranks leave one without"),
        ({"rows": 7, "batch_size": 4, "world_size": 2, "drop_last": True}, "no full batch of 4"),
    ],
)
def test_rows_that_give_no_rank_a_batch(options: dict[str, int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Plan(**options)  # type: ignore[arg-type]


def test_orders_follow_seed_and_epoch_and_not_the_rank() -> None:
    def orders(seed: int, epoch: int, rank: int = 0) -> list[list[int]]:
        plan = Plan(rows=90, batch_size=3, rank=rank, world_size=2, seed=seed)
        return [plan.batch_order(epoch).tolist(), plan.row_order(epoch).tolist()]

    for one, same, seeded, later in zip(
        orders(0, 0), orders(0, 0, 1), orders(1, 0), orders(0, 1), strict=True
    ):
        assert one == same
        assert sorted(one) == list(range(len(one)))
        assert one not in (seeded, later)


def test_orders_do_not_change_with_releases() -> None:
    plan = Plan(rows=16, batch_size=2, seed=1)
    assert plan.batch_order(2).tolist() == BATCHES
    assert plan.row_order(2).tolist() == ROWS


BATCHES = [3, 7, 2, 4, 0, 1, 5, 6]
ROWS = [9, 3, 5, 12, 2, 8, 4, 0, 14, 13, 15, 10, 6, 1, 11, 7]


@given(st.integers(1, 200), st.integers(0, 2**32 - 1), st.integers(0, 3))
def test_rows_are_those_of_numpys_permutation(rows: int, seed: int, epoch: int) -> None:
    order = Plan(rows=rows, batch_size=1, seed=seed).row_order(epoch)
    places = np.random.RandomState((seed + epoch) % 2**32).permutation(rows)
    assert order.dtype == np.uint32
    assert order[places].tolist() == list(range(rows))
