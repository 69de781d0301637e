"""What lies beside data in a folder and is none: lists, catalogues, tables of keys."""

from pathlib import Path

import pytest

from ingot.converters.sources import Source, SourceSpec, open_source
from ingot.converters.sources.formats.line_kinds import classify_lines

STORY = "The lamp was lit at dusk.\nNobody came up the stairs that night.\n"


def fill(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def names(source: Source) -> list[str]:
    return [file.name for file in source.files]


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        (["http://a.example/1", "https://a.example/2?x=1"], "addresses"),
        (["7 1:3 9:12", "2 4:1", "9 88:2"], "numbers"),
        (["0.5 -1.25e-3", "11"], "numbers"),
        (["the", "and", "of", "lamp", "stairs", "##ing"], "words"),
        (["的", "了", "我们", "因为", "所以"], "words"),
        ([f"word{n} NN {'BIO'[n % 3]}" for n in range(15)], "columns"),
        ([f"word{n} said so{n}" for n in range(15)], "text"),
        (["Yes.", "No."], "text"),
        (["昨天下雨了。", "今天很冷。", "我们在家。", "没有人来。", "明天再说。"], "text"),
        (["see http://a.example/1 for more", "and so on"], "text"),
        (["1. e4 e5 2. Nf3 Nc6", "In 1851 it rained 12 days."], "text"),
        (STORY.splitlines(), "text"),
    ],
)
def test_what_lines_are(lines: list[str], kind: str) -> None:
    assert classify_lines(lines) == kind


def test_lists_beside_texts_are_left_out(tmp_path: Path) -> None:
    texts = {f"train/{n}.txt": STORY for n in range(3)}
    lists = {
        "urls.txt": "http://a.example/1\n" * 90,
        "bag.feat": "1 2:3 4:5\n" * 90,
        "words.vocab": "lamp\nstairs\ndusk\nnight\nlight\n" * 40,
    }
    source = open_source(str(fill(tmp_path, {**texts, **lists, "home.url": "[x]\nURL=y\n"})))
    assert names(source) == list(texts)
    assert {item.name for item in source.left_out} == {*lists, "home.url"}


def test_lists_alone_are_read(tmp_path: Path) -> None:
    source = open_source(str(fill(tmp_path, {"urls.txt": "http://a.example/1\n" * 9})))
    assert names(source) == ["urls.txt"]


def test_a_catalogue_is_no_text_where_files_are(tmp_path: Path) -> None:
    texts = {f"books/{n}.txt": STORY for n in range(5)}
    folder = fill(tmp_path, {**texts, "catalogue.csv": "1,Lamp,1851\n2,Stairs,1852\n"})
    assert names(open_source(str(folder))) == list(texts)
    whole = SourceSpec(format="text", root="$")
    assert names(open_source(str(folder), whole)) == list(texts)
    assert names(open_source(str(folder / "catalogue.csv"), whole)) == ["catalogue.csv"]


def test_tables_that_share_their_keys_only_are_others(tmp_path: Path) -> None:
    verses = "id,b,c,v,t\n" + "".join(f"{n},1,1,{n},In the beginning {n}.\n" for n in range(40))
    files = {"verses.csv": verses, "books.csv": "b,t,n\n1,Genesis,x\n2,Exodus,y\n"}
    assert names(open_source(str(fill(tmp_path, files)))) == ["verses.csv"]


def test_a_split_without_its_labels_goes_with_the_others(tmp_path: Path) -> None:
    train = "id,text,toxic,rude,mild\n" + "".join(f"{n},He said {n}.,0,1,0\n" for n in range(40))
    files = {"train.csv": train, "test.csv": "id,text\n41,She said so.\n"}
    assert names(open_source(str(fill(tmp_path, files)))) == ["test.csv", "train.csv"]


CALL = "Call {}\nQueue: billing\n\n" + "[00:00:{:02}] Agent: How can I help you today?\n" * 2
LOG = "2026-03-02 08:11:{:02} INFO worker started on the second node\n" * 9


@pytest.mark.parametrize(
    ("timed", "plain", "read"), [(2, 5, "all"), (5, 2, "plain")], ids=["few", "most"]
)
def test_texts_of_a_series_are_of_one_kind(
    tmp_path: Path, timed: int, plain: int, read: str
) -> None:
    calls = {f"call_{n}.txt": CALL.format(n, 1, 2) for n in range(plain)}
    longer = {f"call_{n}.txt": LOG.format(*range(9)) for n in range(plain, plain + timed)}
    source = open_source(str(fill(tmp_path, {**calls, **longer})))
    assert sorted(names(source)) == sorted({**calls, **longer} if read == "all" else calls)


def test_a_log_with_a_name_of_its_own_stays_out(tmp_path: Path) -> None:
    calls = {f"call_{n}.txt": CALL.format(n, 1, 2) for n in range(5)}
    source = open_source(str(fill(tmp_path, {**calls, "server.txt": LOG.format(*range(9))})))
    assert sorted(names(source)) == sorted(calls)
