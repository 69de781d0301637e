"""Who is asked about a run, by what it was ordered with."""

import pytest

from ingot.agent.judging.policy import asks_person, is_attended
from ingot.agent.proposing.order import Order


@pytest.mark.parametrize(
    ("served", "yes", "dry_run", "attended", "asked"),
    [
        (True, False, False, True, True),
        (True, True, False, True, False),
        (True, False, True, False, False),
        (False, False, False, False, False),
    ],
)
def test_a_person_is_asked_in_a_server_that_may_write_and_was_not_told_yes(
    served: bool, yes: bool, dry_run: bool, attended: bool, asked: bool
) -> None:
    order = Order(source="x", out="y", yes=yes, dry_run=dry_run)
    state = {"order": order, "served": served}
    assert (is_attended(state), asks_person(state)) == (attended, asked)
