"""How a gate's figure is written."""

from ingot.converters.output.figures import format_share


def test_a_share_is_never_rounded_up_to_its_limit() -> None:
    assert format_share(9799, 10000) == "9799/10000 (97.9 %)"
    assert format_share(0, 0) == "0/0"
