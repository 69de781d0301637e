"""What is hidden for the name of its key, looked for where there is no key."""

import json

import pytest

from ingot.agent.privacy.door import Door, Replacer

ROW = {
    "password": " hunter0abc ",
    "user": {"api_key": ["k-12", 98765], "note": "plain"},
    "mobile": "13800138000",
    "pwd": "ab",
    "secret": None,
    "token": "an everyday word",
}


def test_what_redaction_hides_for_a_key_is_named() -> None:
    found = Door("redacted", [ROW]).secrets
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
    assert Replacer(Door("redacted", [ROW]).secrets).value(text) == shown


def test_the_longest_is_hidden_whole() -> None:
    assert Replacer({"hunter2": "[a]", "hunter2hunter2": "[b]"}).text("hunter2hunter2") == "[b]"
    assert Replacer({}).text("as it was") == "as it was"


@pytest.mark.parametrize(
    "name",
    [
        *("password.1", " password ", "API Key", "refresh token", "Api.Key", '"password"', "[pwd]"),
        *(
            "password?",
            "pass\u200bword",
            "ｐａｓｓｗｏｒｄ",
            "auth[api_key]",
            "user.password",
            "PGPASSWORD",
        ),
    ],
)
def test_a_name_is_known_however_a_header_spells_it(name: str) -> None:
    assert Door("redacted").value({name: "blackbird"}).json == {name: "[secret]"}


@pytest.mark.parametrize("name", ["passage", "keyword", "the key", "secretary", "token count"])
def test_other_names_say_nothing(name: str) -> None:
    assert Door("redacted").value({name: "blackbird"}).json == {name: "blackbird"}


def test_a_known_text_is_found_as_json_spells_it() -> None:
    secret = 'blück"bird'
    rows = [{"password": secret, "log": json.dumps({"said": f"it is {secret}."})}]
    assert "bird" not in str(Door("redacted", rows).value(rows).json)
