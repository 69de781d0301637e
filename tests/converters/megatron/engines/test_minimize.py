"""Smallest texts."""

import pytest

from ingot.converters.megatron.engines.race import minimize_text


@pytest.mark.parametrize(
    ("text", "needed", "smallest"),
    [
        ("a" * 500 + "xy" + "b" * 500, ["xy"], "xy"),
        ("a" * 100 + "x" + "b" * 1000 + "y" + "c" * 7, ["x", "y"], "xy"),
        ("x", ["x"], "x"),
    ],
)
def test_what_is_needed_stays(text, needed, smallest):
    assert minimize_text(text, lambda part: all(one in part for one in needed)) == smallest


def test_the_number_of_tests_is_bounded():
    calls = []
    minimize_text("x" * 20000, lambda part: calls.append(part) or len(part) == 20000)
    assert len(calls) <= 1500
