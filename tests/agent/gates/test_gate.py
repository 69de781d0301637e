"""How a gate's figure is written."""

from ingot.agent.gates.gate import share


def test_a_share_is_never_rounded_up_to_its_limit() -> None:
    assert share(9799, 10000) == "9799/10000 (97.9 %)"
    assert share(0, 0) == "0/0"
