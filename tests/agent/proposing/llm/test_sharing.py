"""What may leave the machine."""

import json
from pathlib import Path

import pytest

from ingot.agent.privacy import Redactor
from ingot.agent.privacy.redaction import share_path
from ingot.agent.proposing.llm.data_block import dataset_lines, read_data
from ingot.converters.sources import open_source
from ingot.converters.sources.sample import draw_sample

MAIL = "jo@mail.example.com"


@pytest.mark.parametrize("share", ["redacted", "none"])
def test_names_with_secrets(share: str) -> None:
    assert "cannot be addressed" in share_path(f"['{MAIL}']", share)
    assert "cannot be addressed" in share_path("['[email]']", share)
    assert share_path("a.b[*]", share) == "a.b[*]"
    assert share_path(f"['{MAIL}']", "raw") == f"['{MAIL}']"


def test_a_name_is_redacted_before_it_is_cut() -> None:
    assert "jo@m" not in share_path(f"['{'k ' * 62}{MAIL}']", "redacted")


def test_a_door_that_is_open_changes_nothing() -> None:
    row = {"password": "blackbird", "mail": MAIL}
    assert Redactor("raw", [row]).value(row).json == row
    assert Redactor("raw", [row]).text(MAIL) == MAIL


def test_different_secrets_stay_different() -> None:
    redactor = Redactor("redacted")
    rows = [{"by": f"{who}@mail.example.com"} for who in ("ann", "bob", "ann")]
    assert [row["by"] for row in redactor.value(rows).json] == ["[email]", "[email b]", "[email]"]


def test_what_a_name_makes_a_secret_is_one_in_every_other_column() -> None:
    rows = [
        {"password2": "blackbird-7", "note": "x"},
        {"note": 'say blackbird-7, or {"pwd": "x"} {', "log": '{"api_key": "kingfisher2"}'},
        {"note": "kingfisher2", "n": 4711, "passcode": 4711},
    ]
    shown = str(Redactor("redacted", rows).value(rows).json)
    assert not [one for one in ("blackbird", "kingfisher", "4711") if one in shown]


def test_an_object_under_the_name_of_a_secret_is_one_but_its_schema_is_not() -> None:
    redactor = Redactor("redacted")
    assert redactor.value({"password": {"value": "x1"}}).json["password"] == {"value": "[secret]"}
    schema = {"password": {"type": "string", "description": "At least 8 characters."}}
    assert redactor.value(schema).json == schema


LINE = "MIIEpAIBAAKCAQEA7bq3Zc9Qe1vYt0Jm5uKfWn2xRr8sLd4hGp6oTyUiAaSdFgHj"
PEM = ["-----BEGIN RSA PRIVATE KEY-----", LINE, "shortend==", "-----END RSA PRIVATE KEY-----"]


@pytest.mark.parametrize(
    "rows",
    [
        [{"lines": PEM}],
        [{"text": line} for line in ("before it", *PEM, "after it")],
        [{"text": line} for line in (LINE, LINE.swapcase(), "after it")],  # its ends unseen
    ],
)
def test_lines_of_a_private_key_are_known_by_their_neighbours(rows) -> None:
    shown = str(Redactor("redacted", rows).value(rows).json)
    assert not [one for one in ("MIIE", "miie", "shortend") if one in shown]


def test_words_are_no_lines_of_a_key() -> None:
    rows = [{"text": word} for word in ("river", "mill", "boat", LINE, "bridge")]
    assert Redactor("redacted", rows).value(rows).json == rows


def test_a_long_key_is_found_before_its_text_is_cut() -> None:
    body = "\n".join(f"{n:064d}" for n in range(800))
    key = f"-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----"
    shown = Redactor("redacted").value({"t": "a " * 15_000 + key + " b" * 300}).json["t"]
    assert "0799" not in shown
    assert shown.rstrip().endswith("b b")


@pytest.mark.parametrize(
    "text", ["Write to [email] for {n}.", "[secret]{n}", "[phone b] [card] {n}"]
)
def test_what_looks_like_a_placeholder_is_data_like_any_other(tmp_path: Path, text: str) -> None:
    """A publisher may have redacted the data; what is shown is what `raw` shows."""
    file = tmp_path / "s.jsonl"
    rows = [{"id": n, "note": text.format(n=n), "by": "[email]"} for n in range(20)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = open_source(str(file))
    one = read_data(source, draw_sample(source))
    made = [dataset_lines(one, share, lambda _: True, small=False) for share in ("redacted", "raw")]
    assert made[0] == made[1]
    assert Redactor("redacted", rows).value(rows).json == rows


def test_a_mark_of_the_data_that_looks_like_a_placeholder_is_told(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    said = "[card] What is stone {n}? It is the old one. [token] Who laid it by the river there?"
    file.write_text("".join(json.dumps({"t": said.format(n=n)}) + "\n" for n in range(20)))
    source = open_source(str(file))
    one = read_data(source, draw_sample(source))
    assert '"[card]"' in dataset_lines(one, "redacted", lambda _: True, small=False)
