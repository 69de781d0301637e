"""Encodings: found by what the bytes say, guesses stated, undecodable bytes one bad row each."""

import codecs
from encodings.aliases import aliases
from pathlib import Path

import pytest

from ingot.converters.errors import SourceError
from ingot.converters.sources import SourceSpec, open_source
from ingot.converters.sources.formats.text import detect_encoding

TEXTS = {
    "gb18030": "患者男，四十岁，最近总是头痛，医生建议做检查。产后腹痛怎么办？",
    "big5": "患者男，四十歲，最近總是頭痛，醫生建議做檢查。產後腹痛怎麼辦？",
    "cp932": "これは日本語の文章です。東京に行きました。カタカナもあります。",
    "euc_jp": "これは日本語の文章です。東京に行きました。カタカナもあります。",
    "euc_kr": "안녕하세요. 저는 학생입니다. 오늘 날씨가 정말 좋네요!",
    "cp1252": "Le café est très bon, n’est-ce pas ? Où êtes-vous allé ? Straße über München",
    "cp1251": "Привет, как дела? Сегодня хорошая погода, и мы идём гулять.",
    "koi8-r": "Привет, как дела? Сегодня хорошая погода, и мы идём гулять.",
    "cp1250": "Žluťoučký kůň úpěl ďábelské ódy. Zażółć gęślą jaźń",
    "iso8859-7": "Καλημέρα, τι κάνετε σήμερα; Ο καιρός είναι πολύ καλός στην Αθήνα.",
    "cp1253": "Χθες το βράδυ κάναμε μεγάλη βόλτα και μιλούσαμε για βιβλία.",
    "iso8859-2": "Wczoraj wieczorem poszliśmy na długi spacer wzdłuż rzeki, było źle.",
    "latin-1": "I loved the caf\xe9 and na\xefve people, it cost \xa350 only",
}
KNOWN = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32")


@pytest.mark.parametrize("encoding", TEXTS)
@pytest.mark.parametrize("lines", [2, 60])
def test_legacy_encodings_are_guessed_and_stated(tmp_path: Path, encoding: str, lines: int) -> None:
    rows = [f"{number}\t{TEXTS[encoding]}" for number in range(lines)]
    path = tmp_path / "a.tsv"
    path.write_bytes("\n".join(["id\ttext", *rows]).encode(encoding))
    source = open_source(str(path))
    values = [row["text"] for batch in source.batches() for row in batch.values]
    assert values == [TEXTS[encoding]] * lines
    stated = source.guessed.encoding
    assert stated is not None
    assert TEXTS[encoding].encode(encoding).decode(stated) == TEXTS[encoding]


@pytest.mark.parametrize(
    "text", ["a field of 9 µN/m²", "it cost £5 ± 1", "20 °C", "the café", "«Non.»"]
)
def test_a_few_signs_do_not_make_a_rare_encoding(text: str) -> None:
    found = detect_encoding([text.encode("latin-1")], True)
    assert found is not None
    assert found.name == "cp1252"


def test_texts_of_a_folder_are_in_one_encoding(tmp_path: Path) -> None:
    for number in range(6):
        (tmp_path / f"{number}.txt").write_bytes((TEXTS["gb18030"] + "\n").encode("gb18030"))
    (tmp_path / "6.txt").write_bytes("Ship 7 陳氏\n".encode("gb18030"))
    (tmp_path / "7.txt").write_bytes("Ship 8 陈\n".encode())
    files = {file.name: file.facts.encoding for file in open_source(str(tmp_path)).files}
    assert files.pop("7.txt") == "utf-8"
    assert set(files.values()) == {"gb18030"}


@pytest.mark.parametrize("encoding", KNOWN)
@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.txt"])
def test_unicode_encodings_are_facts(tmp_path: Path, encoding: str, name: str) -> None:
    lines = {
        "a.jsonl": ['{"text": "中文"}', '{"text": "😀 x"}'],
        "a.csv": ["id,text", "1,中文", "2,😀 x"],
        "a.txt": ["中文", "😀 x"],
    }[name]
    data = "\r\n".join(lines).encode(encoding)
    path = tmp_path / name
    path.write_bytes(data)
    source = open_source(str(path))
    assert source.guessed.encoding is None
    assert [row["text"] for batch in source.batches() for row in batch.values] == ["中文", "😀 x"]


def test_a_long_utf_16_file_is_read_across_blocks(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes("".join(f'{{"n": {n}, "t": "中"}}\n' for n in range(90_000)).encode("utf-16"))
    numbers = [row["n"] for batch in open_source(str(path)).batches() for row in batch.values]
    assert numbers == list(range(90_000))


@pytest.mark.parametrize(
    ("encoding", "junk"),
    [
        ("utf-8", b"\xff\xfe"),
        ("gb18030", b"\xff\xff"),
        ("cp1252", b"\x81"),
        ("utf-16-le", b"\x00\xdc"),
    ],
)
@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.txt"])
def test_undecodable_bytes_are_one_bad_row(
    tmp_path: Path, encoding: str, junk: bytes, name: str
) -> None:
    row = {"a.jsonl": '{{"id": {}, "t": "{}"}}', "a.csv": "{},{}", "a.txt": "{} {}"}[name]
    rows = [row.format(number, "plain words") for number in range(40)]
    head = ["id,text"] if name == "a.csv" else []
    lines = [line.encode(encoding) for line in [*head, *rows]]
    at = lines[len(head) + 20].index("plain".encode(encoding))
    lines[len(head) + 20] = lines[len(head) + 20][:at] + junk + lines[len(head) + 20][at:]
    path = tmp_path / name
    path.write_bytes("\n".encode(encoding).join(lines))
    batches = list(open_source(str(path), SourceSpec(encoding=encoding)).batches())
    assert sum(len(batch.values) for batch in batches) == 39
    (bad,) = [bad for batch in batches for bad in batch.bad]
    assert (bad.row, bad.reason) == (20, "bad_row")
    bad.found.encode()


def test_one_damaged_line_does_not_make_utf8_something_else() -> None:
    lines = ["中文的句子，很多很多。".encode()] * 40
    assert detect_encoding(
        [b"\n".join([*lines, b"\xb0\xa1\xff", *lines])], True
    ) == detect_encoding([lines[0]], True)


def test_a_character_cut_at_the_end_of_the_head_is_no_damage() -> None:
    data = "中文".encode() * 1000
    found = detect_encoding([data[:-1]], False)
    assert found is not None
    assert (found.name, found.guessed) == ("utf-8", False)


def test_legacy_bytes_far_behind_an_ascii_head_are_seen(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    ascii_part = b"only plain words in this line\n" * 60_000
    path.write_bytes(ascii_part + "caf\xe9 na\xefve d\xe9j\xe0 vu\n".encode("latin-1") * 5000)
    source = open_source(str(path))
    assert source.guessed.encoding == "cp1252"


@pytest.mark.parametrize(
    "data",
    [bytes(range(256)) * 4, b"\x00\x01\x02\x03" * 100, b"\x89PNG\r\n\x1a\n" + bytes(50)],
)
def test_binary_is_no_text(data: bytes) -> None:
    assert detect_encoding([data], True) is None


@pytest.mark.parametrize("encoding", sorted({*aliases.values(), "utf-8-sig", "idna", "punycode"}))
def test_plain_ascii_under_every_stated_encoding_is_rows_or_an_error(
    tmp_path: Path, encoding: str
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "plain"}\n' * 3)
    rows, said = 0, ""
    try:
        source = open_source(str(path), SourceSpec(encoding=encoding))
        rows = sum(len(batch.values) + len(batch.bad) for batch in source.batches())
    except SourceError as error:
        said = str(error)
    assert rows or "encoding" in said


def test_utf_16_without_its_mark_is_an_error_that_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "plain"}\n' * 3)
    with pytest.raises(SourceError, match=r"is not in the encoding utf-16: .*BOM"):
        list(open_source(str(path), SourceSpec(encoding="utf-16")).batches())


def test_an_unknown_encoding_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(codecs.BOM_UTF8 + b"x")
    with pytest.raises(SourceError, match="no encoding 'utf-9'"):
        open_source(str(path), SourceSpec(encoding="utf-9"))


@pytest.mark.parametrize(
    "encoding",
    ["gb18030", "big5", "cp932", "euc_jp", "euc_kr", "cp1252", "cp1251", "koi8-r", "iso8859-7"],
)
def test_the_beginning_of_a_long_text_says_the_same_as_all_of_it(encoding: str) -> None:
    line = TEXTS[encoding].encode(encoding)
    short, long = (detect_encoding([b"\n".join([line] * lines)], True) for lines in (20, 1000))
    assert short == long
    assert short is not None
    assert line.decode(short.name) == TEXTS[encoding]


def test_a_beginning_that_says_little_leaves_it_to_the_rest() -> None:
    few = b"nine micro\xb5 of it, and plain words follow it for a while\n" * 150
    rest = (TEXTS["cp1251"] + "\n").encode("cp1251") * 500
    found = detect_encoding([few + rest], True)
    assert found is not None
    assert found.name == "cp1251"


@pytest.mark.parametrize(
    "unit", [b"\xe9", b"\xff", b"a\xe9", b"\xb2a", b"\x81", b"\xa0", b"\xe9\n"]
)
def test_runs_of_a_byte_are_read_in_some_encoding(unit: bytes) -> None:
    data = unit * 30_000
    found = detect_encoding([data], True)
    assert found is not None
    assert len(data.decode(found.name, "replace")) > 0
