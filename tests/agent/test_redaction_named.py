"""What is hidden for the name of its key, looked for where there is no key."""

import json

import pytest

from ingot.agent.privacy import Door
from ingot.agent.privacy.door import Replacer, named_secrets

ROW = {
    "password": " hunter0abc ",
    "user": {"api_key": ["k-12", 98765], "note": "plain"},
    "mobile": "13800138000",
    "pwd": "ab",
    "secret": None,
    "token": "an everyday word",
}


def test_what_redaction_hides_for_a_key_is_named() -> None:
    found = named_secrets([ROW])
    assert found == {
        "hunter0abc": "[secret]",
        "k-12": "[secret]",
        "98765": "[secret]",
        "13800138000": "[phone]",
        "ab": "[secret]",
    }
    shown = json.dumps(Door("redacted").value(ROW).json)
    assert not [text for text in found if text in shown]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("log in with hunter0abc, please", "log in with [secret], please"),
        ("cabs", "cabs"),  # short ones are parts of words
        (" ab ", "[secret]"),
        (98765, "[secret]"),
        (True, True),
        (None, None),
        (1.5, 1.5),
    ],
)
def test_it_is_hidden_in_other_values(text, shown) -> None:
    assert Replacer(named_secrets(ROW)).value(text) == shown


def test_the_longest_is_hidden_whole() -> None:
    assert Replacer({"hunter2": "[a]", "hunter2hunter2": "[b]"}).text("hunter2hunter2") == "[b]"
    assert Replacer({}).text("as it was") == "as it was"
