"""What the checks mean together: the error that stands for the exit code."""

from typing import Any

import pytest

from ingot.agent.doctor.checks import Check, raise_if_failed
from ingot.converters.errors import IngotError
from ingot.converters.json_yaml import encode


def check(group: str, state: Any) -> Check:
    return Check(group=group, name=f"a {group}", state=state, figure="1")


def test_warnings_are_no_failure() -> None:
    raise_if_failed([check("places", "ok"), check("endpoint", "warn"), check("places", "skipped")])
    raise_if_failed([])


@pytest.mark.parametrize(
    ("groups", "code"), [(["endpoint"], 4), (["places"], 1), (["installation", "endpoint"], 1)]
)
def test_the_machine_comes_before_the_endpoint(groups: list[str], code: int) -> None:
    with pytest.raises(IngotError) as caught:
        raise_if_failed([check(group, "fail") for group in groups])
    assert caught.value.exit_code == code
    for group in groups:
        assert f"a {group}" in str(caught.value)


def test_as_json() -> None:
    assert encode(check("places", "ok")) == {
        "group": "places",
        "name": "a places",
        "state": "ok",
        "figure": "1",
        "hint": "",
        "notes": [],
    }
