"""The arithmetic of batches: every row once, equal counts."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ingot.converters.recsys.ctr.loader.dataloader import Plan

PLANS = st.fixed_dictionaries(
    {
        "rows": st.integers(1, 200),
        "batch_size": st.integers(1, 20),
        "world_size": st.integers(1, 7),
        "shuffle_buffer": st.integers(1, 50),
    }
)


def ranks(**options: int | bool) -> list[Plan]:
    try:
        return [Plan(rank=rank, **options) for rank in range(int(options["world_size"]))]  # type: ignore[arg-type]
    except ValueError:
        assume(False)
        raise


def bounds(plan: Plan) -> list[int]:
    return [plan.first(batch) for batch in range(plan.batches + 1)]


@given(PLANS)
def test_every_position_is_in_one_batch_of_one_rank(options: dict[str, int]) -> None:
    plans = ranks(**options)
    assert len({plan.batches for plan in plans}) == 1
    position = 0
    for plan in plans:
        cuts = bounds(plan)
        assert cuts[0] == position
        assert all(0 < size <= plan.batch_size for size in np.diff(cuts))
        assert plan.dropped == 0
        position = cuts[-1]
    assert position == options["rows"]
    sizes = [plan.range[1] - plan.range[0] for plan in plans]
    assert max(sizes) - min(sizes) <= 1


@given(PLANS)
def test_drop_last_leaves_equal_full_batches(options: dict[str, int]) -> None:
    plans = ranks(**options, drop_last=True)
    taken = 0
    for plan in plans:
        assert set(np.diff(bounds(plan))) == {plan.batch_size}
        assert bounds(plan)[-1] <= plan.range[1]
        taken += plan.batches * plan.batch_size
    assert {plan.dropped for plan in plans} == {options["rows"] - taken}
    assert options["rows"] - taken < options["world_size"] * (options["batch_size"] + 1)


@given(PLANS)
def test_windows_are_runs_of_whole_batches(options: dict[str, int]) -> None:
    plan = ranks(**options)[0]
    windows = [plan.window_of(batch) for batch in range(plan.batches)]
    runs = list(dict.fromkeys(windows))
    assert [start for start, _ in runs] == [0, *(stop for _, stop in runs[:-1])]
    assert runs[-1][1] == plan.batches
    assert all(start <= batch < stop for batch, (start, stop) in enumerate(windows))
    assert plan.window * plan.batch_size >= plan.shuffle_buffer


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"rows": 3, "batch_size": 2, "world_size": 4},
            "3 rows over 4 ranks leave one without a row",
        ),
        ({"rows": 7, "batch_size": 1, "world_size": 2}, "batch_size 1: .* drop_last=True"),
        ({"rows": 7, "batch_size": 4, "world_size": 2, "drop_last": True}, "smaller batch_size"),
    ],
)
def test_rows_that_give_no_rank_a_batch(options: dict[str, int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Plan(**options)  # type: ignore[arg-type]


def test_orders_follow_seed_epoch_rank_and_window() -> None:
    def order(seed: int, rank: int, epoch: int, window: int) -> list[int]:
        plan = Plan(rows=900, batch_size=10, rank=rank, world_size=3, shuffle=True, seed=seed)
        return plan.window_order(50, epoch, (window, window + 5)).tolist()

    one = order(0, 0, 0, 0)
    assert one == order(0, 0, 0, 0)
    assert sorted(one) == list(range(50))
    others = [order(1, 0, 0, 0), order(0, 1, 0, 0), order(0, 0, 1, 0), order(0, 0, 0, 5)]
    assert one not in others


def test_orders_do_not_change_with_releases() -> None:
    plan = Plan(rows=8, batch_size=4, shuffle=True, seed=1)
    assert plan.group_order(8, 2).tolist() == GROUPS
    assert plan.window_order(8, 2, (0, 2)).tolist() == WINDOW


GROUPS = [4, 6, 7, 3, 5, 0, 2, 1]
WINDOW = [2, 6, 5, 4, 3, 0, 7, 1]


def test_row_groups_are_permuted_only_when_shuffling() -> None:
    assert Plan(rows=8, batch_size=4).group_order(5, 3).tolist() == [0, 1, 2, 3, 4]
