"""How a gate's figure is written."""

from ingot.agent.judging.sample_gates import share_text


def test_a_share_is_never_rounded_up_to_its_limit() -> None:
    assert share_text(9799, 10000) == "9799/10000 (97.9 %)"
    assert share_text(0, 0) == "0/0"
