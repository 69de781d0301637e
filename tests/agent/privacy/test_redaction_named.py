"""What is hidden for the name of its key, looked for where there is no key."""

import json
from typing import Any

import pytest

from ingot.agent.privacy import Redactor, redact
from ingot.agent.privacy.redactor import Replacer

ROW = {
    "password": " hunter0abc ",
    "user": {"api_key": ["k-12", 98765], "note": "plain"},
    "mobile": "13800138000",
    "pwd": "ab",
    "secret": None,
    "token": "an everyday word",
}


def test_what_redaction_hides_for_a_key_is_named() -> None:
    found = Redactor("redacted", [ROW]).secrets
    assert found == {
        "hunter0abc": "[secret]",
        "k-12": "[secret]",
        "98765": "[secret]",
        "13800138000": "[phone]",
        "ab": "[secret]",
    }
    shown = json.dumps(Redactor("redacted").value(ROW).json)
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
    assert Replacer(Redactor("redacted", [ROW]).secrets).value(text) == shown


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
    assert Redactor("redacted").value({name: "blackbird"}).json == {name: "[secret]"}


@pytest.mark.parametrize("name", ["passage", "keyword", "the key", "secretary", "token count"])
def test_other_names_say_nothing(name: str) -> None:
    assert Redactor("redacted").value({name: "blackbird"}).json == {name: "blackbird"}


def test_a_known_text_is_found_as_json_spells_it() -> None:
    secret = 'blück"bird'
    rows = [{"password": secret, "log": json.dumps({"said": f"it is {secret}."})}]
    assert "bird" not in str(Redactor("redacted", rows).value(rows).json)


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
        {"text": f'<property name="password" value="{SECRET_WORD}"/>'},
        {"text": f'<input type="password" name="pw" value="{SECRET_WORD}9">'},
        {"text": f'<add value="{SECRET_WORD}" key="ApiKey"/>'},
        {"text": f"<password>{SECRET_WORD}b</password>"},
        {"text": f"<property name='db.password'>{SECRET_WORD}</property>"},
        {"text": f"<id>3</id><name>password</name>\n <value>{SECRET_WORD}</value>"},
        {"text": json.dumps({"xml": f'<property name="password" value="{SECRET_WORD}"/>'})},
        {"env": [["DB_PASSWORD", SECRET_WORD]]},
        {"env": [["HOST", "h"], ["API_KEY", SECRET_WORD], ["GREETING", "hello world"]]},
        {"env": [["password", SECRET_WORD], ["user", "bob"]]},
        {"table": [["password", "user"], [SECRET_WORD, "bob"]]},
        {"table": [["password", "question"], [SECRET_WORD, "What is it?"]]},
        {"text": f"curl -H 'X-Api-Key: {SECRET_WORD}' http://h"},
        {"text": f"POST / HTTP/1.1\nX-Auth-Token: {SECRET_WORD}\n"},
        {"text": f"http -a bob:{SECRET_WORD} h"},
        {"text": f"jdbc:oracle:thin:@h:1521:x bob/{SECRET_WORD}"},
        {"text": f"sqlplus -s bob/{SECRET_WORD}@db"},
        {"Authorization": f"Token {SECRET_WORD}"},
        {"headers": [{"name": "authorization", "value": f"Basic {SECRET_WORD}"}]},
        {"text": f"self.password: str = '{SECRET_WORD}'"},
        {"text": f'const password: string = "{SECRET_WORD}";'},
        {"text": f"a\ndb.ex.org:25060:main:bob:{SECRET_WORD}\nb"},
        {"form": {"label": "Password", "value": SECRET_WORD}},
        {"form": {"id": "password", "val": SECRET_WORD}},
        {"form": {"name": "password", "content": SECRET_WORD}},
        {"form": {"name": "password", "default": SECRET_WORD}},
        {"form": {"key": "db.password", "stringValue": SECRET_WORD}},
        {"form": {"flag": "DB_PASSWORD", "is": f"{SECRET_WORD}9"}},
        {"args": ["--password", SECRET_WORD, "--user", "bob"]},
        {"text": f"run(['x', '--api-key', '{SECRET_WORD}'])"},
    ],
)
def test_a_secret_beside_its_name_is_hidden(row: dict[str, Any]) -> None:
    assert SECRET_WORD not in json.dumps(Redactor("redacted", [row]).value(row).json)


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
        {"angle": 1, "sin": "0.0000123456", "cos": 0.5, "pass": "yes"},
        {"sin": 12345.678901, "bsn": 0.123456789, "sine": "1"},
        {"name": "password", "value": "The meaning of the word password is a key."},
        {"name": "secret", "value": "something kept hidden from others, or unknown"},
        {"word": "secret", "translation": "geheim"},
        {"name": "密码", "value": "用于登录系统的一串字符。"},
        {"param": "api_key", "in": "query"},
        {"text": "mysql -port 3306; mysql -h x -port 3306 -u bob"},
        {"text": "docker run -p 8080:80 -u 1000:1000 curl -u"},
        {"text": "main.py:1234:INFO:root:Starting"},
        {"text": "the password of [secret] thing9"},
        {"text": '<input type="password" name="pw" placeholder="Your word">'},
        {"text": "<label>Password</label><p>The password is required to log in.</p>"},
        {"tags": ["password", "security"], "pin_no": 4001, "pin_code": 560001},
        {"authorization": "granted"},
    ],
)
def test_what_only_shares_a_name_stays(row: dict[str, Any]) -> None:
    assert Redactor("redacted", [row]).value(row).json == row


def test_the_value_of_a_pair_is_hidden_and_its_neighbours_stay() -> None:
    row = {"env": [["DB_PASSWORD", SECRET_WORD], ["HOME", "/root"]], "xml": f'a="{SECRET_WORD}"'}
    assert Redactor("redacted", [row]).value(row).json == {
        "env": [["DB_PASSWORD", "[secret]"], ["HOME", "/root"]],
        "xml": 'a="[secret]"',
    }
    assert redact('<p name="password" value="x1y"/>') == '<p name="password" value="[secret]"/>'


@pytest.mark.parametrize(
    ("name", "value"), [("pin_code", 7301), ("otp_code", "730101"), ("sin", "046 454 286")]
)
def test_a_code_or_number_under_its_name_is_hidden(name: str, value: int | str) -> None:
    assert Redactor("redacted").value({name: value}).json == {name: "[secret]"}


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
