"""What is hidden for the name of its key, looked for where there is no key."""

import json

import pytest

from ingot.agent.privacy import hide_secrets, named_secrets, redact_value

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
    shown = json.dumps(redact_value(ROW))
    assert not [text for text in found if text in shown]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("log in with hunter0abc, please", "log in with [secret], please"),
        ("cabs", "cabs"),  # short ones are parts of words
        (" ab ", "[secret]"),
        ([{"x": 98765}, True, None, 1.5], [{"x": "[secret]"}, True, None, 1.5]),
    ],
)
def test_it_is_hidden_in_other_values(text, shown) -> None:
    assert hide_secrets(text, named_secrets(ROW)) == shown


def test_the_longest_is_hidden_whole() -> None:
    assert hide_secrets("hunter2hunter2", {"hunter2": "[a]", "hunter2hunter2": "[b]"}) == "[b]"
    assert hide_secrets("as it was", {}) == "as it was"
