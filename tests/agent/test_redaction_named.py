"""What is hidden for the name of its key, looked for where there is no key."""

import json
from typing import Any

import pytest

from ingot.agent.privacy import Door, redact
from ingot.agent.privacy.door import Replacer

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


SECRET_WORD = "amberfinch"


@pytest.mark.parametrize(
    "row",
    [
        {"env": [{"name": "DB_PASSWORD", "value": SECRET_WORD}, {"name": "HOME", "value": "/r"}]},
        {"vars": {"key": "api_key", "val": SECRET_WORD}},
        {"keys": ["host", "password"], "values": ["h", SECRET_WORD]},
        {"header": ["question", "password"], "rows": [["What?", SECRET_WORD]]},
        {"table": [["question", "password"], ["What is it?", SECRET_WORD]]},
        {"password": {"type": "string", "plain": SECRET_WORD}},
        {"passwords": {SECRET_WORD: {"question": "What is it?"}}},
        {"text": f"[db]\nuser = bob\npassword = {SECRET_WORD}\nport = 1"},
        {"text": f'define("DB_PASSWORD", "{SECRET_WORD}");'},
        {"text": f"setenv DB_PASSWORD {SECRET_WORD}"},
        {"text": f"curl -u bob:{SECRET_WORD} https://h.example"},
        {"text": f"mysql -u root -p{SECRET_WORD} shop"},
        {"text": f"h.example:5432:db:bob:{SECRET_WORD}"},
        {"text": f"jdbc:oracle:thin:scott/{SECRET_WORD}@h:1521:x"},
        {"text": f"user=bob pw={SECRET_WORD}9"},
        {"text": f"pass: {SECRET_WORD}9x"},
        {"text": f"password='${SECRET_WORD}99' password=Ab(3){SECRET_WORD}"},
        {"cookie": f"sid={SECRET_WORD}9"},
    ],
)
def test_a_secret_beside_its_name_is_hidden(row: dict[str, Any]) -> None:
    assert SECRET_WORD not in json.dumps(Door("redacted", [row]).value(row).json)


@pytest.mark.parametrize(
    "row",
    [
        {"pin": "560001", "city": "Bengaluru"},
        {"pin": 12, "part": "header"},
        {"cookie": "Chocolate chip with oats", "cvv": "none"},
        {"pass": "yes", "otp": "off", "ssn": "unknown"},
        {"text": "He said the password = forgotten, and left."},
        {"text": "password = get_password()\nsecret = secret_input\npassword = input_text"},
        {"text": "1:12345:A:G:rs1234 and pass: 3/4"},
        {"password": {"type": "string", "description": "The user's password", "minLength": 8}},
        {"tokens": ["my", "password", "is"], "tags": ["PRON", "NOUN", "VERB"]},
        {"talk": [{"role": "user", "content": "password"}, {"role": "bot", "content": "a word"}]},
    ],
)
def test_what_only_shares_a_name_stays(row: dict[str, Any]) -> None:
    assert Door("redacted", [row]).value(row).json == row


@pytest.mark.parametrize(
    "text",
    ["TC Kimlik No 10000000146", "Kimlik numarası: 10000000146", "Ring +52 1 55 1234 5678 now"],
)
def test_numbers_behind_other_labels(text: str) -> None:
    assert "10000000146" not in redact(text)
    assert "1234 5678" not in redact(text)


@pytest.mark.parametrize(
    "key",
    [
        "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\nComment: x\n{0}\n"
        "---- END SSH2 ENCRYPTED PRIVATE KEY ----",
        "PuTTY-User-Key-File-2: ssh-rsa\nPrivate-Lines: 2\n{0}\n{0}\nPrivate-MAC: ab",
    ],
)
def test_keys_of_other_programs(key: str) -> None:
    assert "Canary" not in redact(
        key.format("MIICdCanaryCanaryCanaryCanaryCanaryCanaryCanaryCanary0")
    )
