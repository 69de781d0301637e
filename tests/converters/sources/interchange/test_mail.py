"""Mail: what the standard library wrote reads back; hostile headers and parts break one row."""

import base64
import json
import mailbox
import time
import zipfile
from email.message import EmailMessage
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ingot.cli.app import app
from ingot.converters.rows import BadRow, Json
from ingot.converters.sources import open_source
from ingot.converters.sources.interchange import mail
from ingot.converters.sources.sample import draw_sample


def message(number: int, text: str, *, above: tuple[int, ...] = ()) -> EmailMessage:
    made = EmailMessage()
    made["From"] = f"Jürgen <j{number}@x.de>"
    made["To"] = "Ä <a@b.c>, d@e.f"
    made["Subject"] = f"Grüße {number} " + "und mehr " * 20
    made["Date"] = "Fri, 27 Nov 2026 10:00:00 +0100"
    made["Message-ID"] = f"<{number}@x>"
    if above:
        made["In-Reply-To"] = f"<{above[-1]}@x>"
        made["References"] = " ".join(f"<{n}@x>" for n in above)
    made.set_content(text)
    return made


def read(path: Path) -> tuple[list[Json], list[BadRow]]:
    batches = list(open_source(str(path)).batches())
    return [v for b in batches for v in b.values], [bad for b in batches for bad in b.bad]


TEXT = (
    "Hällo\n\nFrom here on it goes\n\nFrom me Mon Nov 2 2020\nNote: quoted\n>From there\n>> cited\n"
)


def test_mailboxes(tmp_path: Path) -> None:
    box = mailbox.mbox(tmp_path / "a.mbox")
    with_parts = message(2, TEXT, above=(0, 1))
    with_parts.add_alternative("<p>Hi</p>", subtype="html")
    with_parts.add_attachment(bytes(100), maintype="image", subtype="png", filename="ü b.png")
    only_html = message(3, "", above=(0,))
    page = "<title>no</title><style>p{}</style><p>A&amp;B <b>x</b> y</p><p>Z<br>é"
    only_html.set_content(page, subtype="html", cte="quoted-printable")
    plain = message(1, TEXT, above=(0,))
    for one in (message(0, TEXT), plain, with_parts, only_html):
        box.add(one)
    box.close()
    values, bad = read(tmp_path / "a.mbox")
    assert not bad
    # Only what stands in the place of a quoted line is changed: `>From` of the text itself.
    expected = TEXT.replace("\n>From", "\nFrom").strip()
    assert [value["text"] for value in values] == [*[expected] * 3, "A&B x y\n\nZ\né"]
    assert values[2] == {
        "message_id": "<2@x>",
        "in_reply_to": "<1@x>",
        "references": ["<0@x>", "<1@x>"],
        "thread": "<0@x>",
        "date": "2026-11-27T10:00:00+01:00",
        "from": "Jürgen <j2@x.de>",
        "to": "Ä <a@b.c>, d@e.f",
        "cc": None,
        "subject": "Grüße 2 " + ("und mehr " * 20).strip(),
        "text": expected,
        "attachments": [{"name": "ü b.png", "type": "image/png", "size": 100}],
    }
    assert {value["thread"] for value in values} == {"<0@x>"}
    assert len(draw_sample(open_source(str(tmp_path))).rows) == 4


def test_folders_of_messages(tmp_path: Path) -> None:
    for name in ("1.eml", "2.eml"):
        (tmp_path / name).write_bytes(message(int(name[0]), f"Text {name}").as_bytes())
    with zipfile.ZipFile(tmp_path / "more.zip", "w") as archive:
        archive.writestr("3.eml", message(3, "Text 3.eml").as_bytes().replace(b"\n", b"\r\n"))
    box = mailbox.Maildir(tmp_path / "dir")
    box.add(message(4, "Text 4"))
    values, bad = read(tmp_path)
    assert not bad
    texts = [value["text"] for value in values]
    assert texts == ["Text 1.eml", "Text 2.eml", "Text 4", "Text 3.eml"]


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        (b"Subject: =?koi8-r?B?8NLJ18XU?= =?utf-8?q?_=C3=A9?=", b"x", {"subject": "Привет é"}),
        (b"Subject: caf\xe9 cr\xe8me, d\xe9j\xe0 vu", b"x", {"subject": "café crème, déjà vu"}),
        (b"Subject: =?no-such?q?=41=ff?=", b"x", {"subject": "Aÿ"}),
        (b"Subject: =?utf-8?b?!?= x", b"x", {}),
        (b"Date: 99 Foo 99999999999999 99:99:99 +9999999", b"x", {"date": "99 Foo 99999999999999"}),
        (b"Content-Type: text/plain; charset=punycode", b"x" * 99, {"text": "x" * 99}),
        (b"Content-Type: text/plain; charset=latin-1", b"\x80 \xe9", {"text": "€ é"}),
        (b"Content-Type: text/plain; charset=us-ascii", "é".encode(), {"text": "é"}),
        (b"Content-Type: multipart/mixed; boundary=b", b"\n--b\n\none\n--bc\n--b\n\ntwo\n--b--\nx",
         {"text": "one\n--bc\ntwo"}),
        (b"Content-Type: multipart/mixed; boundary=b", b"--b\n\ncut", {"text": "cut"}),
        (b"Content-Type: multipart/mixed", b"text", {"text": None}),
        (b"Content-Disposition: attachment; filename*0*=utf-8''%ff", b"x", {"text": None}),
        (b"Message-ID: none", b"x", {"message_id": None, "thread": None}),
    ],
)  # fmt: skip
def test_odd_messages(headers: bytes, body: bytes, expected: dict[str, Json]) -> None:
    row = mail.message_row(headers + b"\n\n" + body)
    assert isinstance(row, dict)
    for name, value in expected.items():
        assert row[name] == value or (name == "date" and row[name].startswith(value))
    json.dumps(row, ensure_ascii=False).encode()


NESTED = b"".join(
    b'Content-Type: multipart/mixed; boundary="b%d"\n\n--b%d\n' % (n, n) for n in range(99)
)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"Content-Type: multipart/mixed; boundary=b\n\n" + b"--b\n\n" * 2000, "1000 parts"),
        (NESTED + b"\nx", "20 in one another"),
        (b"Content-Type: text/plain;" + b" a=b;" * 9000 + b"\n\nx", "a header of its content"),
        (b"X: " + b"y" * (300 << 10) + b"\n\nx", "headers of more than 256 KiB"),
        (b"Content-Transfer-Encoding: base64\n\na", "base64"),
    ],
)
def test_hostile_messages_are_bad_rows(data: bytes, said: str) -> None:
    row = mail.message_row(data)
    assert isinstance(row, mail.BrokenRow)
    assert said in row.detail


def test_no_header_takes_the_square_of_its_length() -> None:
    began = time.process_time()
    for text in (
        b"=?a?q?" * 40_000,
        b"<" * 200_000,
        b"(" * 200_000,
        b'"' * 200_000,
        b";" * 200_000,
    ):
        for name in (b"Subject", b"Date", b"References", b"From"):
            mail.message_row(name + b": " + text + b"\n\nx")
    mail.strip_tags("<script>" * 100_000 + "<" * 100_000)
    assert time.process_time() - began < 20


@pytest.mark.more
def test_large_messages_are_bad_rows_and_the_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mail, "MAX_MESSAGE", 3 << 20)
    large = message(1, "")
    large.set_content(base64.b64encode(bytes(4 << 20)).decode())
    box = mailbox.mbox(tmp_path / "a.mbox")
    for one in (message(0, "first"), large, message(2, "last")):
        box.add(one)
    box.close()
    values, (bad,) = read(tmp_path / "a.mbox")
    assert [value["text"] for value in values] == ["first", "last"]
    assert (bad.row, bad.detail) == (1, "a message of more than 3 MiB")


def test_texts_with_lines_like_headers_are_no_mail(tmp_path: Path) -> None:
    for text in ("Subject: x\nFrom: y\n\nText\n", "From me to you in 2020\nand so on\n"):
        (tmp_path / "a.txt").write_text(text * 3)
        assert open_source(str(tmp_path / "a.txt")).files[0].facts.format == "text"


def test_convert_groups_threads(tmp_path: Path) -> None:
    box = mailbox.mbox(tmp_path / "a.mbox")
    for n in range(30):
        box.add(message(n, f"Message {n} of its thread.", above=(n - n % 3,) * (n % 3 > 0)))
    box.close()
    mapping = {
        "version": 2,
        "group": {"by": ["thread"]},
        "text": "[*].text",
        "meta": {"original_id": "[0].thread"},
    }
    (tmp_path / "m.json").write_text(json.dumps(mapping))
    words = ["convert", str(tmp_path / "m.json"), str(tmp_path / "a.mbox")]
    done = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "o"), "--records", "jsonl"])
    assert done.exit_code == 0, done.output
    lines = (tmp_path / "o/records/part-00000.jsonl").read_text().splitlines()
    assert len(lines) == 10
    texts = [f"Message {n} of its thread." for n in range(3)]
    assert json.loads(lines[0])["text"].split("\n") == texts
