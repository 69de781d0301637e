"""Redaction: a table of secrets and of what only looks like some, adversity, and properties."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingot.agent.privacy import redact
from ingot.agent.privacy.numbers import (
    find_id_numbers,
    find_payment_cards,
    find_phones,
    find_within,
    search_windows,
)
from ingot.agent.privacy.redaction import convert_scalars, redact_scalar, value_shapes

# [kind, text] by line: a text that holds a secret of that kind, or null and a text without any.
CASES: list[tuple[str | None, str]] = [
    tuple(json.loads(line))
    for line in Path(__file__).with_name("redaction_cases.jsonl").read_text().splitlines()
]
SECRETS = [(kind, text) for kind, text in CASES if kind]
PLAIN = [text for kind, text in CASES if not kind]
# docs/privacy.md gives the reasons and these counts
MISSED = {
    "98765 43210",
    "612 34 56 78",
    "2125551234",
    "4222222222222",
    "6759649826438453",
    "A123456789",
    "S1234567D",
    "AB123456C",
    "8.8.8.8",
    "password is correcthorse",
    "passphrase: correct horse battery staple",
    "the code is 493817",
}
MISTAKEN = {
    "order 13912345678",
    "part 555-123-4567",
    "def login(user, password=user.default)",
    "item 4000000000000002",
    'the "secret": "kindness"',
    "article 123-45-6789",
    "import a@b.shape",
}


def test_the_table_is_large_enough() -> None:
    assert len(SECRETS) >= 150
    assert len(PLAIN) >= 150
    assert len({text for _, text in CASES}) == len(CASES)


def redact_value(value):
    return convert_scalars(value, redact_scalar)


@pytest.mark.parametrize(("kind", "text"), SECRETS)
def test_a_secret_becomes_its_placeholder(kind: str, text: str) -> None:
    found = redact(text)
    assert (f"[{kind}]" in found) == (text not in MISSED)
    assert redact(found) == found


@pytest.mark.parametrize(("kind", "text"), [one for one in SECRETS if one[1] not in MISSED])
def test_a_secret_is_found_in_json_within_json_which_stays_json(kind: str, text: str) -> None:
    for level in range(1, 5):
        text = json.dumps({"a": text, "level": level}, ensure_ascii=level % 2 == 1)
        found = redact(text)
        assert f"[{kind}]" in found
        assert json.loads(found)["level"] == level


@pytest.mark.parametrize("text", PLAIN)
def test_what_is_no_secret_stays(text: str) -> None:
    assert (redact(text) == text) == (text not in MISTAKEN)


def test_the_document_counts_the_table() -> None:
    document = (Path(__file__).parents[3] / "docs" / "privacy.md").read_text()
    kinds = Counter(kind for kind, _ in SECRETS)
    missed = Counter(kind for kind, text in SECRETS if text in MISSED)
    for kind, count in kinds.items():
        assert f"| `[{kind}]` | {count} | {missed[kind]} |" in document
    assert f"{len(MISTAKEN)} of {len(PLAIN)}" in document


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("邮箱是bob@163.com，电话13800138000。", "邮箱是[email]，电话[phone]。"),
        ("4111 1111 1111 1111 4242-4242-4242-4242", "[card] [card]"),
        ("13800138000,13900139000 13700137000", "[phone],[phone] [phone]"),
        ("13800138000-13900139000-13700137000", "[phone]-[phone]-[phone]"),
        ("a@b.cn;c@d.cn", "[email];[email]"),
        (
            "https://bob:p@ss@example.com/x?token=abc123def&q=1",
            "https://[credentials]@example.com/x?token=[secret]&q=1",
        ),
        ("Authorization: Bearer abcdefghijklm0123", "Authorization: Bearer [token]"),
        ('{"password": "a\\"b", "n": 1}', '{"password": "[secret]", "n": 1}'),
        (
            '"{\\"a\\": \\"{\\\\\\"password\\\\\\": \\\\\\"x\\\\\\"}\\"}"',
            '"{\\"a\\": \\"{\\\\\\"password\\\\\\": \\\\\\"[secret]\\\\\\"}\\"}"',
        ),
        (
            "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\nafter",
            "[private key]\nafter",
        ),
        (f"-----BEGIN PRIVATE KEY-----\n{'A' * 64}\nthen prose.", "[private key]\nthen prose."),
        ("see 203.0.113.7, 10.1.2.3:80.", "see [ip], [ip]:80."),
        ("\u200b1\u200b3800138000 \u200bx", "\u200b[phone] \u200bx"),
    ],
)
def test_what_stands_around_a_secret_stays(text: str, shown: str) -> None:
    assert redact(text) == shown


def test_json_values_keep_their_shape() -> None:
    value = {
        "n": 13800138000,
        "from a table": 13800138000.0,
        "card": 4111111111111111,
        "id": 1600000000,
        "share": 0.25,
        "phone": 4155552671,
        "homePhone": "555 1234",
        "password": "x",
        "api_key": ["a", 7, None, True],
        "tokens": ["a", "b"],
        "token": "hello",
        "schema": {"password": {"type": "string"}},
        "bob@example.com": 1,
        "eve@example.com": 2,
        "list": [{"to": "eve@example.com"}, None, True, ""],
    }
    assert redact_value(value) == {
        "n": "[phone]",
        "from a table": "[phone]",
        "card": "[card]",
        "id": 1600000000,
        "share": 0.25,
        "phone": "[phone]",
        "homePhone": "[phone]",
        "password": "[secret]",
        "api_key": ["[secret]", "[secret]", None, True],
        "tokens": ["a", "b"],
        "token": "hello",
        "schema": {"password": {"type": "string"}},
        "[email]": 1,
        "[email] 2": 2,
        "list": [{"to": "[email]"}, None, True, ""],
    }
    assert value["n"] == 13800138000
    assert redact_value(redact_value(value)) == redact_value(value)


def test_a_key_keeps_its_name_beside_one_that_becomes_it() -> None:
    assert redact_value({"a@b.cn": 1, "[email]": 2}) == {"[email] 2": 1, "[email]": 2}


def test_shape_only() -> None:
    value = {"a": ["x" * 132, 1, 1.5, True, None, {}], "bob@example.com": ""}
    kinds = ["<string>", "<integer>", "<number>", "<boolean>", "<null>", {}]
    assert value_shapes(value) == {"a": kinds, "[email]": "<string>"}


@pytest.mark.parametrize("change", [redact_value, value_shapes])
def test_what_is_nested_too_deeply_is_left_out(change: Any) -> None:
    value: Any = "bob@example.com"
    for _ in range(5000):
        value = [value]
    text = json.dumps(change(value))
    assert "bob" not in text
    assert "[nested too deeply]" in text


@pytest.mark.more
@pytest.mark.parametrize(
    "piece",
    [
        "a", "1", "1 ", "4444 ", "@", "a@", "a.", "a@a.", "eyJ", "://", "a://b:c", "-", "\\", '\\"',
        "-----BEGIN PRIVATE KEY-----", "password=", "password='", "password: ", 'password\\"',
        "+1 ", "0 ", ":", "a:", "1:", "1.", "GB82", "AA11 ", "sk-", "xoxb-", "bearer ", "\u200b",
        "1\u200b", "?token=", "(", " ", "\n", "１３８", "tel 123456 ", "cpf id ",
    ],
)  # fmt: skip
def test_repetition_ends(piece: str) -> None:
    """Each of these took quadratic time with a pattern written carelessly: hours, not seconds."""
    text = piece * (50_000 // len(piece))
    found = redact(text)
    assert len(found) <= len(text) + 20
    assert redact(found) == found


@pytest.mark.long
def test_ten_megabytes() -> None:
    line = (
        "The quick brown fox, in 1999 at 12:30, wrote to bob@example.com about 4111111111111111.\n"
    )
    count = 10_000_000 // len(line)
    found = redact(line * count)
    assert found.count("[email]") == found.count("[card]") == count


PIECES = st.lists(
    st.one_of(
        st.sampled_from([text for _, text in SECRETS]),
        st.sampled_from(PLAIN),
        st.text(max_size=6),
        st.text(alphabet="0123456789+-. ()@:/=\\\"'[]", max_size=12),
        st.sampled_from(
            ["[email]", "[secret]", " ", "\n", "-", ".", ",", "\u200b", "password=", "@"]
        ),
    ),
    max_size=6,
).map("".join)


@settings(deadline=None, max_examples=400)
@given(PIECES)
def test_redacting_again_changes_nothing(text: str) -> None:
    found = redact(text)
    assert redact(found) == found


@settings(deadline=None, max_examples=200)
@given(st.text(alphabet=st.characters(categories=["L", "Zs"]), max_size=200))
def test_letters_stay(text: str) -> None:
    assert redact(text) == text


@settings(deadline=None, max_examples=200)
@given(
    st.text(alphabet=st.characters(categories=["L", "Zs", "Po"]), max_size=20),
    st.sampled_from(["bob@example.com", "4111111111111111", "13800138000", "ghp_" + "a1B2" * 9]),
    st.text(alphabet=st.characters(categories=["Zs"]), max_size=20),
)
def test_a_secret_is_found_wherever_it_stands(before: str, secret: str, after: str) -> None:
    assert secret not in redact(f"{before} {secret}{after}")


FILLERS = st.sampled_from(["", " ", "x" * 40, " " * 150, "a, b\n" * 60, "-" * 300, "1 ", "7" * 9])


@pytest.mark.more
@settings(deadline=None, max_examples=400)
@given(st.lists(st.tuples(PIECES, FILLERS), max_size=5))
def test_numbers_are_found_in_windows_as_in_the_whole(pairs: list[tuple[str, str]]) -> None:
    text = "".join(piece + filler for piece, filler in pairs)
    for finder in (find_payment_cards, find_id_numbers, find_phones):
        found = find_within(finder, text, search_windows(text))
        assert sorted(found) == sorted(finder(text))


@pytest.mark.more
@pytest.mark.parametrize("filler", [" ", "x ", "-", "\n", "1 2\n", "ab12 "])
def test_a_secret_is_found_far_from_the_ends(filler: str) -> None:
    around = filler * (700 // len(filler))
    found = [f"[{kind}]" in redact(f"{around} {text}\n{around}") for kind, text in SECRETS]
    missed = [text for (_, text), one in zip(SECRETS, found, strict=True) if not one]
    assert missed == [text for _, text in SECRETS if text in MISSED]


def test_windows_are_apart_and_hold_whatever_is_near() -> None:
    text = " " * 1000 + "1234" + " " * 200 + "5 6 7 8" + " " * 300 + "9876" + " " * 50
    assert search_windows(text) == [(872, 1339), (1383, 1565)]
    assert search_windows("1234") == [(0, 4)]
    assert search_windows("12 3" + " " * 9 + "4\n5 6 7") == []


@pytest.mark.parametrize("name", ["PA\u017f\u017fWORD", "api_\u212aey", "contra\u017fe\u00f1a"])
def test_names_in_odd_letters_are_names(name: str) -> None:
    assert redact(f'{name}="x1y2z3"') == f'{name}="[secret]"'


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | PIECES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PIECES, inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None, max_examples=100)
@given(JSON)
def test_values_redacted_again_stay(value: Any) -> None:
    once = redact_value(value)
    assert redact_value(once) == once
    json.dumps(once)
