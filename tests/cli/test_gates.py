"""Gates as the commands show them, and data of which nothing is to be converted."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import ingot

ASKED = [
    f"What should a visitor know about {topic} before the tour of the {place} begins?"
    for topic in ("rivers", "bridges", "clouds", "violins")
    for place in ("harbour", "castle", "old town", "museum", "garden")
]


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGOT_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def write(rows: list[Any]) -> None:
    Path("raw.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def pairs() -> list[Any]:
    return [
        {"question": asked, "answer": f"That it is number {n} of the sights and free on Mondays."}
        for n, asked in enumerate(ASKED)
    ]


@pytest.mark.parametrize("mode", ["auto", "sft"])
@pytest.mark.parametrize(
    "rows",
    [
        [{"prompt": asked, "answer": None} for asked in ASKED],
        [{"question": asked, "answer": ""} for asked in ASKED],
        [{"label": n % 3, "score": n / 7} for n in range(20)],
        [{"label": ("positive", "negative")[n % 2], "id": n} for n in range(20)],
    ],
    ids=["prompts", "no answers", "numbers", "labels"],
)
def test_nothing_to_convert_ends_well(rows: list[Any], mode: str) -> None:
    write(rows)
    words = ["--mapper", "rules", "--mode", mode, "--yes", "--min-confidence=0.25", "--json"]
    ran = ingot("run", "raw.jsonl", "--out", "out", *words)
    told = json.loads(ran.stdout)
    assert (told["status"], told["decision"]) == ("irrelevant", "irrelevant")
    assert {gate["name"] for gate in told["gates"]} == {"confidence"}
    if mode != "auto":  # whoever asks for records of a kind is told what these need
        asked = f"note: nothing to convert, although --mode {mode} asks for it: it needs"
        assert ran.stderr.startswith(asked)
    assert json.loads(Path("out/manifest.json").read_text())["decision"] == "irrelevant"


@pytest.mark.more
def test_gates_stand_in_every_report() -> None:
    write(pairs())
    words = ("--mapper", "rules", "--json")
    ran = json.loads(ingot("run", "raw.jsonl", "--out", "out", "--yes", *words).stdout)
    mapped = json.loads(ingot("map", "raw.jsonl", *words).stdout)
    checked = json.loads(ingot("check", "out/mapping.json", "raw.jsonl", "--json").stdout)
    for told in (ran, mapped, checked):
        gates = {gate["name"]: gate for gate in told["gates"]}
        assert gates["coverage"]["figure"] == "20/20 (100.0 %)"
        assert gates["coverage"]["limit"] == "at least 98 %"
        assert {gate["state"] for gate in told["gates"]} == {"pass"}
    shown = ingot("check", "out/mapping.json", "raw.jsonl").stdout
    assert "\nGates\n" in shown
    assert "20/20 (100.0 %)" in shown
    assert (
        "| coverage | pass | 20/20 (100.0 %) | at least 98 % |" in Path("out/report.md").read_text()
    )


def test_a_failed_gate_ends_check_and_run_with_1_and_convert_goes_on() -> None:
    write(pairs())
    messages = [
        {"role": "user", "content": ["question", "answer"]},
        {"role": "assistant", "content": "answer"},
    ]
    Path("m.json").write_text(json.dumps({"version": 2, "messages": messages}))
    assert "both_sides" in ingot("check", "m.json", "raw.jsonl", code=1).output
    told = ingot("run", "raw.jsonl", "--mapping", "m.json", "--out", "a", "--yes", code=1).output
    assert "/messages/1/content: both_sides" in told
    assert not Path("a").exists()
    told = ingot("convert", "m.json", "raw.jsonl", "--out", "b").output
    assert "warning: answer stands in the question and in its answer." in told
    assert Path("b/manifest.json").exists()


def _folder(unread: int) -> int:
    """A folder with rows and a table in a format that is not read; gives the bytes of the rows."""
    write(pairs())
    Path("in").mkdir(exist_ok=True)
    size = Path("raw.jsonl").rename("in/raw.jsonl").stat().st_size
    Path("in/more.docx").write_bytes(b"PK" + bytes(unread))
    Path("in/photo.png").write_bytes(bytes(10 * size))
    Path("in/load.py").write_bytes(b"#" * 10 * size)
    return size


@pytest.mark.more
def test_much_data_in_a_format_that_is_not_read_is_for_a_person() -> None:
    size = _folder(unread=1000)
    words = ["in", "--out", "out", "--mapper", "rules"]
    told = json.loads(ingot("run", *words, "--yes", "--json", code=3).stdout)
    assert told["status"] == "waiting"
    (gate,) = (one for one in told["gates"] if one["name"] == "unread formats")
    assert (gate["state"], gate["limit"]) == ("person", "at most 10 % of the bytes")
    assert gate["figure"].startswith(f"1 file, 1002/{size + 1002} (")
    assert "more.docx is an Office document" in told["why"]
    assert not Path("out").exists()
    assert ingot("map", "in", "--mapper", "rules", code=3)
    approved = ["--mapping", "out.proposal/mapping.json", "--yes"]
    assert "gate      unread formats: 1 file" in ingot("run", *words, *approved).stdout


def test_a_little_data_in_a_format_that_is_not_read_is_noted() -> None:
    _folder(unread=20)
    ran = ingot("run", "in", "--out", "out", "--mapper", "rules", "--yes")
    assert "gate      unread formats: 1 file, 22/" in ran.stdout
    assert "| unread formats | warn |" in Path("out/report.md").read_text()


def test_nothing_to_convert_beside_a_format_that_is_not_read_is_for_a_person() -> None:
    write([{"label": n % 3, "score": n / 7} for n in range(20)])
    Path("in").mkdir()
    Path("raw.jsonl").rename("in/raw.jsonl")
    Path("in/texts.pdf").write_bytes(b"%PDF" + bytes(1000))
    ran = ingot("run", "in", "--out", "out", "--mapper", "rules", "--yes", code=3)
    assert "texts.pdf is a PDF document" in ran.stderr


@pytest.mark.more
def test_most_data_in_another_shape_is_for_a_person() -> None:
    Path("in").mkdir()
    for name, asks in (("first", "question"), ("second", "prompt"), ("third", "instruction")):
        write([{asks: one["question"], f"{name}_answer": one["answer"]} for one in pairs()])
        Path("raw.jsonl").rename(f"in/{name}.jsonl")
    words = ["in", "--out", "out", "--mapper", "rules"]
    told = json.loads(ingot("run", *words, "--yes", "--json", code=3).stdout)
    assert "in files of another shape: `ingot lake run`" in told["why"]
    approved = ["--mapping", "out.proposal/mapping.json", "--yes"]
    done = ingot("run", *words, *approved).stdout  # the mapping states what stays left out
    assert "left out  2 files: first.jsonl, second.jsonl" in done
    assert "files of another shape" not in done


@pytest.mark.more
def test_documents_beside_formats_that_are_not_read_are_counted_by_kind() -> None:
    Path("in").mkdir()
    for n, asked in enumerate(ASKED):
        Path(f"in/{n}.md").write_text(f"# {asked}\n\n{asked} It is number {n} of the sights.\n")
    Path("in/a.pdf").write_bytes(b"%PDF-1.7" + bytes(92))
    words = ["run", "in", "--out", "out", "--mapper", "rules", "--yes"]
    ran = ingot(*words)
    assert (
        "of the bytes: a PDF document (1 file, 100 bytes) (limit: at most 10 % of the bytes)"
        in ran.stdout
    )
    assert "| a PDF document | 1 | 100 |" in Path("out/report.md").read_text()
    Path("in/b.docx").write_bytes(bytes(5000))
    told = ingot(*words, "--overwrite", code=3).stderr
    assert "an Office document (1 file, 5,000 bytes), a PDF document (1 file, 100 bytes)" in told


@pytest.mark.more
@pytest.mark.parametrize("ending", ["md", "rst", "ipynb", "py"])
def test_a_document_that_is_named_is_one_row_and_lines_of_text_where_that_is_stated(
    ending: str,
) -> None:
    sure = ("--yes", "--min-confidence", "0.6")
    cells = [{"cell_type": "markdown", "source": [asked]} for asked in ASKED]
    lines = "\n".join(f"- {asked}" for asked in ASKED)
    Path(f"one.{ending}").write_text(json.dumps({"cells": cells}) if ending == "ipynb" else lines)
    ran = ingot("run", f"one.{ending}", "--out", "out", "--mapper", "rules", *sure)
    assert "1 read, 1 converted" in ran.stdout
    Path("m.json").write_text('{"version": 2, "source": {"format": "text"}, "text": "text"}')
    ran = ingot("convert", "m.json", f"one.{ending}", "--out", "lines")
    assert f"{1 if ending == 'ipynb' else len(ASKED)} read" in ran.stdout
    ran = ingot("convert", "m.json", f"one.{ending}", "--format", "document", "--out", "whole")
    assert "1 read" in ran.stdout
    Path(f"rows.{ending}").write_text("".join(json.dumps(row) + "\n" for row in pairs()))
    ingot("run", f"rows.{ending}", "--out", "rows", "--mapper", "rules", "--yes")


def test_the_same_answer_in_all_records_is_for_a_person() -> None:
    write([{"question": asked, "answer": "It is free for all on Mondays."} for asked in ASKED])
    words = ["raw.jsonl", "--out", "out", "--mapper", "rules", "--min-confidence", "0"]
    told = json.loads(ingot("run", *words, "--yes", "--json", code=3).stdout)
    assert "the mapping trains on the same text in 20/20 (100.0 %) records" in told["why"]
    ingot("run", *words, "--mapping", "out.proposal/mapping.json", "--yes")


def test_a_page_beside_its_own_text_is_no_loss() -> None:
    for n, asked in enumerate(ASKED):
        text = f"{asked} It is number {n} of the sights of this town.\n"
        Path(f"in/{n % 2}").mkdir(parents=True, exist_ok=True)
        Path(f"in/{n % 2}/{n}.txt").write_text(text)
        Path(f"in/{n % 2}/{n}.html").write_text(f"<!DOCTYPE html><html><p>{text}</p></html>")
    Path("in/CZYTAJ_MNIE.txt").write_text("These are the sights, one a file.\n")
    words = ["--mode", "pt", "--mapper", "rules", "--yes", "--json", "--out", "out"]
    told = json.loads(ingot("run", "in", *words).stdout)
    assert (told["status"], told["check"]["records"]) == ("done", len(ASKED))
    assert "unread formats" not in {gate["name"] for gate in told["gates"]}


def test_conditions_and_files_are_told() -> None:
    rows = [{**row, "status": ("published", "draft")[n % 3 == 0]} for n, row in enumerate(pairs())]
    Path("in").mkdir()
    for name, part in (("a", rows[:15]), ("b", rows[15:])):
        Path(f"in/{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
    said = ingot("run", "in", "--mapper", "rules", "--yes", "--out", "out").stdout
    assert re.search(
        r"^sample +13/20 rows give records \(filtered 7\)\nwhere +status is ", said, re.M
    )
    report = Path("out/report.md").read_text()
    assert "| file | sampled rows | records |" in report
    assert "| a.jsonl | 15 | 10 |" in report


def answer_lists(*sizes: int) -> list[list[Any]]:
    """Lists of other rows each."""
    rows = iter(pairs() * 3)
    return [[next(rows) for _ in range(size)] for size in sizes]


def run_folder(files: dict[str, str | bytes], *words: str, code: int) -> Any:
    for name, content in files.items():
        path = Path("in", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return ingot("run", "in", "--out", "out", "--mapper", "rules", "--yes", *words, code=code)


CUES = "".join(f"{n}\n00:0{n}:01,000 --> 00:0{n}:04,000\n{ASKED[n]}\n\n" for n in range(9))


def timed(mark: str) -> str:
    """The lines of a log, each with its time in front."""
    return "".join(f"{mark.format(n=n % 10)}{one}\n" for n, one in enumerate(ASKED))


ENTRIES = "".join(
    f"@book{{b{n},\n  title = {{{ASKED[n]}}},\n  year = {{{n}}}\n}}\n" for n in range(9)
)
ROWS = "CREATE TABLE a (n INT);\nINSERT INTO a VALUES\n" + "".join(
    f"({n}, '{ASKED[n]}'),\n" for n in range(9)
)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.ann", "".join(f"T{n}\tPlace {n} {n + 9}\t{ASKED[n]}\n" for n in range(9)), None),
        ("a.po", "".join(f'msgid "{one}"\nmsgstr "{one}"\n\n' for one in ASKED), "(.po)"),
        ("a.strange", "\n".join(ASKED), "text of an unknown kind (.strange)"),
        ("a.txt", CUES, "lines written for machines"),
        ("a.txt", timed("01/03/2024, 09:0{n} - Anna: "), "lines that begin with a time"),
        ("a.txt", timed("Mar  1 09:0{n}:11 host cron: "), "lines that begin with a time"),
        ("a.log", timed("09:0{n} <@ann> "), "lines that begin with a time"),
        ("a.txt", ENTRIES, "lines written for machines"),
        ("a.bib", ENTRIES, "(.bib)"),
        ("a.sql", ROWS, "lines written for machines"),
    ],
)
def test_a_text_that_is_no_document_is_named_for_a_person(
    name: str, text: str, said: str | None
) -> None:
    told = run_folder({name: text}, "--mode", "pt", code=3).stderr
    assert said is None or (said in told and f"such as {name}: " in told)


@pytest.mark.more
def test_a_log_among_the_texts_of_a_series_is_named_for_a_person() -> None:
    walk = "The walk number {} begins at the harbour and ends {} hours later at the mill.\n"
    texts = {f"part_{n}.txt": walk.format(n, n + 2) * 9 for n in range(5)}
    texts["part_7.txt"] = timed("Mar  1 09:0{n}:11 host cron: ")
    told = run_folder(texts, "--mode", "pt", code=3).stderr
    assert "lines that begin with a time" in told
    assert "such as part_7.txt: " in told


@pytest.mark.more
def test_texts_of_unknown_kinds_are_left_out_beside_others() -> None:
    walk = "The walk number {} begins at the harbour and ends {} hours later at the mill.\n"
    files: dict[str, str | bytes] = {
        f"{n}.txt": "".join(walk.format(n, k) for k in range(9)) for n in range(len(ASKED))
    }
    files |= {f"{n}.ann": f"T1\tPlace 0 4\t{one}\n" for n, one in enumerate(ASKED)}
    told = json.loads(run_folder(files, "--json", code=0).stdout)
    left = json.loads(Path("out/manifest.json").read_text())["left_out"]
    assert {one["name"].rpartition(".")[2] for one in left} == {"ann"}
    assert told["source"]["left_out_count"] == len(left) == len(ASKED)


@pytest.mark.parametrize(
    "names", [("a.en", "a.de"), ("t_en.txt", "t_de.txt"), ("x.fr.txt", "x.en.txt")]
)
def test_files_of_which_each_line_belongs_to_one_of_another_are_for_a_person(
    names: tuple[str, str],
) -> None:
    text = "".join(f"{one}\n" for one in ASKED)
    told = run_folder(dict.fromkeys(names, text), code=3).stderr
    assert f"have {len(ASKED)} lines each" in told


def test_rows_of_several_kinds_that_an_id_joins_are_for_a_person() -> None:
    asked = [{"question_id": n, "text": one} for n, one in enumerate(ASKED)]
    answers = [{**one, "answer_id": f"a{one['question_id']}"} for one in asked]
    lines = ["".join(json.dumps(one) + "\n" for one in rows) for rows in (asked, answers)]
    told = run_folder({"q.jsonl": lines[0], "answers/a.jsonl": lines[1]}, code=3).stderr
    assert "of several kinds, which question_id joins" in told


@pytest.mark.more
@pytest.mark.parametrize("place", ["*[*]", "data.*[*]"])
def test_all_lists_of_equal_rows_in_a_file_are_read(place: str) -> None:
    lists: Any = dict(zip(("train", "dev", "test"), answer_lists(20, 6, 6), strict=True))
    whole = {"data": lists, "about": {"n": 1}} if "data" in place else {**lists, "version": "1"}
    run_folder({"a.json": json.dumps(whole)}, code=0)
    mapping = json.loads(Path("out/mapping.json").read_text())
    assert mapping["source"]["root"] == place
    assert json.loads(Path("out/manifest.json").read_text())["records"]["written"] == 32


@pytest.mark.parametrize("share", [0.2, 0.05])
def test_equal_rows_of_which_a_mapping_leaves_some_are_for_a_person(share: float) -> None:
    left = round(60 * share)
    lists: Any = dict(zip(("train", "test"), answer_lists(60 - left, left), strict=True))
    Path("in").mkdir()
    Path("in/a.json").write_text(json.dumps(lists))
    asked = {"version": 2, "source": {"root": "train[*]"}, "messages": [
        {"role": "user", "content": "question"}, {"role": "assistant", "content": "answer"},
    ]}  # fmt: skip
    Path("m.json").write_text(json.dumps(asked))
    told = ingot("run", "in", "--out", "out", "--mapping", "m.json", "--yes")
    assert ("lists of rows: 12/60" in told.stdout) == (share > 0.1)


@pytest.mark.parametrize(
    ("speakers", "list_of"),
    [(("user", "assistant"), "messages"), (("Ann", "Bob"), "talk"), (("q", "a"), "turns")],
)
def test_a_file_that_is_one_conversation_is_one_row(
    speakers: tuple[str, str], list_of: str
) -> None:
    turns = [{"role": speakers[n % 2], "content": one} for n, one in enumerate(ASKED)]
    Path("a.json").write_text(json.dumps({"id": "x", list_of: turns}))
    told = ingot("map", "a.json", "--mapper", "rules", "--json", code=3).stdout
    assert json.loads(told)["check"]["rows"] == 1


@pytest.mark.more
@pytest.mark.parametrize("sizes", [(60, 60), (60, 25), (40, 40, 7)])
def test_pages_of_one_list_are_read_like_one_page(sizes: tuple[int, ...]) -> None:
    def ticket(n: int) -> Any:
        events = [
            {"id": k, "by": {"role": ("end-user", "agent", "system")[k]}, "html": f"<p>{asked}</p>"}
            for k, asked in enumerate(ASKED[n % 9 : n % 9 + 3])
        ]
        return {"id": n, "tags": ["a"], "via": {"channel": "web"}, "events": events}

    Path("in").mkdir()
    for page, size in enumerate(sizes):
        whole = {"tickets": [ticket(n) for n in range(size)], "next_page": page, "count": size}
        Path(f"in/page{page}.json").write_text(json.dumps(whole))
    told = json.loads(ingot("map", "in", "--mapper", "rules", "--json", code=3).stdout)
    assert told["mapping"]["source"]["root"] == "tickets[*]"


@pytest.mark.more
def test_lists_of_other_rows_beside_those_that_are_read_are_for_a_person() -> None:
    people = [{"name": f"Ann {n}", "town": "Ulm", "age": n} for n in range(30)]
    whole = json.dumps({"people": people, "asked": answer_lists(20)[0]})
    told = run_folder({"a.json": whole}, code=3).stderr
    assert "30/50 (60.0 %) of the rows are in lists that are not read: people[*]" in told
    words = ["--mapping", "out.proposal/mapping.json", "--yes"]
    assert "lists of rows: 30/50" in ingot("run", "in", "--out", "out", *words).stdout


EVENTS = [
    {"type": "user", "uuid": f"u{n}", "message": {"role": "user", "content": one}}
    for n, one in enumerate(ASKED)
]


@pytest.mark.parametrize(
    ("rows", "words", "said"),
    [
        (
            [{"turns": f"[{{'role': 'user', 'content': '{one}'}}]"} for one in ASKED],
            "auto",
            "Python",
        ),
        (EVENTS, "sft", "the log of a session"),
        ([{"Frage": f"{n % 2}?", "Antwort": "0456"} for n in range(6)], "sft", "are named as"),
        (
            [
                {"text": f"The walk number {n} begins at the mill. It ends in the harbour by noon."}
                for n in range(20)
            ],
            "sft",
            "with the mode pt",
        ),
    ],
)
def test_what_is_known_and_not_converted_is_for_a_person(
    rows: list[Any], words: str, said: str
) -> None:
    write(rows)
    ran = ingot(
        "run", "raw.jsonl", "--out", "o", "--mapper", "rules", "--yes", "--mode", words, code=3
    )
    assert said in ran.output


def test_a_folder_of_images_or_binary_data_alone_is_an_error() -> None:
    told = run_folder({"a.png": b"\x89PNG" + bytes(50), "b.mp3": bytes(50)}, code=1).stderr
    assert "a.png is an image, b.mp3 is a sound" in told
    for name in ("a.png", "b.mp3"):
        Path("in", name).unlink()
    assert "c.bin: binary data" in run_folder({"c.bin": bytes(range(256))}, code=1).stderr


def test_documents_outweigh_a_small_object_of_json() -> None:
    notes: dict[str, str | bytes] = {
        f"{n}.md": f"# {one}\n\n{one}\n" for n, one in enumerate(ASKED)
    }
    run_folder({**notes, "board.canvas": '{"nodes":[],"edges":[]}'}, code=0)
    manifest = json.loads(Path("out/manifest.json").read_text())
    assert manifest["records"]["written"] == len(ASKED)
    assert [one["name"] for one in manifest["left_out"]] == ["board.canvas"]


@pytest.mark.parametrize(
    "name", ["items.jl", "items.m", "items.ts", "items.md", "items.log", "items"]
)
def test_rows_are_read_whatever_their_file_is_called(name: str) -> None:
    run_folder({name: "".join(json.dumps(one) + "\n" for one in pairs())}, code=0)
    assert json.loads(Path("out/manifest.json").read_text())["records"]["written"] == len(ASKED)


def talks(marked: dict[int, dict[str, Any]], count: int = 3000) -> list[Any]:
    return [
        {"question": f"What should a visitor know about number {n} of the tour?"}
        | {"answer": f"That it is number {n} of the sights and free on Mondays."}
        | marked.get(n, {})
        for n in range(count)
    ]


RUN = ("run", "raw.jsonl", "--out", "out", "--mapper", "rules", "--records", "jsonl")


def go_on(printed: str, way: str) -> list[str]:
    line = next(one for one in printed.splitlines() if one.strip().startswith(way))
    return shlex.split(line.partition(": ")[2])


def pieces() -> dict[str, Any]:
    told: dict[str, Any] = json.loads(Path("out/run.json").read_text())
    return told


@pytest.mark.more
def test_what_the_sample_does_not_show_stops_before_the_commit() -> None:
    write(talks({1501: {"question": "<image>\nWhat is on it?"}}))
    told = json.loads(ingot(*RUN, "--yes", "--json", code=3).stdout)
    gates = {one["name"]: one for one in told["gates"]}
    assert gates["images, audio, video"]["state"] == "pass"
    assert gates["gates on all rows"]["figure"] == "media=1"
    assert told["status"] == "waiting"
    assert "raw.jsonl row 1501" in told["why"]
    ran = ingot(*RUN, "--yes", code=3)
    assert "raw.jsonl row 1501" in Path("out.proposal/report.md").read_text()
    assert not Path("out").exists()
    ingot(*go_on(ran.stderr, "to approve it")[1:])
    assert pieces()["resumed"]
    assert json.loads(Path("out/mapping.json").read_text())["provenance"]["approved"] == {
        "media": 1
    }
    ingot("convert", "out/mapping.json", "raw.jsonl", "--out", "again")  # was approved


@pytest.mark.more
def test_a_mapping_that_nobody_approved_stops_and_one_by_hand_is_told() -> None:
    write(talks({1501: {"question": "<image>\nWhat is on it?"}}))
    ingot("map", "raw.jsonl", "--output", "m.json", "--mapper", "rules")
    words = ("convert", "m.json", "raw.jsonl", "--out", "out", "--records", "jsonl")
    assert "--approve-counts media=1" in ingot(*words, code=3).stderr
    ingot(*words, "--approve-counts", "media=0", code=3)
    ingot(*words, "--approve-counts", "media", code=2)
    ingot(*words, "--approve-counts", "media=1")
    assert pieces()["resumed"]
    document = json.loads(Path("m.json").read_text())
    del document["provenance"]
    Path("m.json").write_text(json.dumps(document))
    told = ingot("convert", "m.json", "raw.jsonl", "--out", "by_hand", "--records", "jsonl").stdout
    assert "images, audio, video: 1 row (limit: none)" in told


@pytest.mark.more
def test_html_in_a_field_that_becomes_a_text_is_named_with_its_share() -> None:
    plain, name = pairs(), "HTML in texts"
    marked = [{**one, "answer": f"<p>{one['answer']}&nbsp;</p>"} for one in plain[:5]]
    write([*marked, *plain[5:]])
    told = ingot("map", "raw.jsonl", "--explain")
    assert re.search(
        rf"{name} +warn +5/20 \(25.0 %\) of the rows: answer +at most 5 %", told.stderr
    )
    assert "25% of the records hold markup" in told.stderr.splitlines()[1]
    words = ["--out", "out", "--yes", "--min-confidence", "0"]
    said = ingot("run", "raw.jsonl", *words).stdout
    assert f"{name}: 5/20 (25.0 %) of the rows: answer (limit: at most 5 %)" in said
    assert "tags stay in the texts of answer (5 rows)" in Path("out/report.md").read_text()
    # A field that becomes no text, and signs that are no tags.
    code = "Yes: a <b, and List<int> of 3 > 2 & so on, that is number"
    write([{**one, "raw": "<p>x</p>", "answer": f"{code} {n}."} for n, one in enumerate(plain)])
    assert name not in ingot("map", "raw.jsonl", "--explain", "--json", code=None).stdout
