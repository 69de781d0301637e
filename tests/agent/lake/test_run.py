"""A run over a lake, and the runs after it."""

import dataclasses
import io
import json
import os
import shutil
import tarfile
import time
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ingot.agent.lake.file_scan import scan_files
from ingot.agent.lake.lake_order import LakeOrder
from ingot.agent.lake.run import run_lake
from ingot.converters.errors import OutputError, SourceError
from ingot.converters.lake.record_hashes import parse_splits
from ingot.converters.output.worker_pool import Workers
from ingot.converters.records.readers import read_records
from ingot.converters.sources.storage.listing import Entry, LocalFile

THINGS = ("harbour", "kettle", "night train", "olive tree", "library", "bridge", "market", "ferry")


class Listener:
    """Keeps what it is told."""

    def __init__(self):
        self.worked = []

    def __call__(self, progress):
        assert progress.done <= progress.whole
        if progress.sets is not None:
            self.counts = (progress.sets, progress.whole)
        if progress.facts:
            self.worked.append(progress.facts.name)


def talks(count, start=0):
    return [
        {
            "instruction": f"Why do people still talk about the {THINGS[n % 8]} of {n}?",
            "output": f"Because it was repaired by hand in {1800 + n}, and families remember it.",
        }
        for n in range(start, start + count)
    ]


def lay(root: Path, name: str, rows) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def lay_lake(root: Path) -> None:
    lay(root, "talks/train/part-0.jsonl", talks(20))
    lay(root, "talks/train/part-1.jsonl", talks(20, 20))
    lay(root, "other/talks.jsonl", talks(15, 10))
    (root / "empty").mkdir()
    (root / "empty" / "a.jsonl").write_bytes(b"")
    (root / "cut").mkdir()
    (root / "cut" / "a.parquet").write_bytes(b"PAR1 and no end")


def order_for(tmp_path: Path, **changes) -> LakeOrder:
    out = tmp_path / "out"
    base = LakeOrder(
        root=str(tmp_path / "lake"), out=out, mappings=out / "mappings", mapper="rules", yes=True
    )
    return dataclasses.replace(base, **changes)


def ran(order, **more):
    listener = Listener()
    report = run_lake(order, listener, **more)
    return {one.name: one for one in report.sets}, listener, report


def bytes_of(folder: Path) -> dict[str, bytes]:
    """Every file but those that hold times, and what is hidden."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "run.json" and ".ingot-lake" not in path.parts
    }


@pytest.mark.more
def test_a_lake_is_converted_once_and_kept_up_to_date(tmp_path):
    lay_lake(tmp_path / "lake")
    order = order_for(tmp_path)
    sets, listener, _ = ran(order)
    assert {name: one.status for name, one in sets.items()} == {
        "cut": "failed", "empty": "no_training_text", "other": "converted", "talks": "converted",
    }  # fmt: skip
    assert sorted(listener.worked) == sorted(sets)
    assert sets["talks"].rows == {"read": 40, "converted": 40, "rejected": 0, "filtered": 0}
    assert (sets["other"].across, sets["talks"].across) == (0, 15)
    assert sets["talks"].overlaps == {"other": 15}
    assert (order.mappings / "talks.json").is_file()
    before = bytes_of(order.out)
    assert {"catalog.parquet", "index.html"} <= set(before)

    _, listener, _ = ran(order)
    assert listener.worked == []
    assert bytes_of(order.out) == before

    with order.hashes("talks").open("r+b") as hashes:  # a little is cut off
        hashes.truncate(order.hashes("talks").stat().st_size - 9)
    _, listener, _ = ran(order)
    assert listener.worked == ["talks"]
    assert order.hashes("talks").stat().st_size == 128 + 16 * 40

    lay(tmp_path / "lake", "talks/train/part-2.jsonl", talks(5, 100))
    sets, listener, _ = ran(order)
    assert listener.worked == ["talks"]
    assert sets["talks"].rows["read"] == 45

    fresh = order_for(tmp_path, out=tmp_path / "fresh", mappings=order.mappings)
    ran(fresh)
    for name in ("talks", "other"):  # the report says who made the mapping, which is given now
        for part in ("records", "rejected"):
            grown, anew = (one.out / "sets" / name / part for one in (order, fresh))
            assert bytes_of(grown) == bytes_of(anew)


@pytest.mark.more
def test_what_nobody_has_approved_waits_until_its_mapping_is_there(tmp_path):
    lay(tmp_path / "lake", "talks/a.jsonl", talks(20))
    order = order_for(tmp_path, yes=False)
    sets, _, _ = ran(order)
    assert sets["talks"].status == "waiting"
    proposed = order.out / "sets" / "talks.proposal" / "mapping.json"
    assert not (order.out / "sets" / "talks").exists()
    assert ran(order)[1].worked == []

    order.mappings.mkdir(exist_ok=True)
    shutil.copy(proposed, order.mappings / "talks.json")
    sets, listener, _ = ran(order)
    assert (sets["talks"].status, listener.worked) == ("converted", ["talks"])

    document = json.loads((order.mappings / "talks.json").read_text())
    document["messages"].reverse()
    (order.mappings / "talks.json").write_text(json.dumps(document))
    sets, listener, _ = ran(order)
    assert listener.worked == ["talks"]
    record = next(read_records(order.out / "sets" / "talks" / "records"))
    assert [one["role"] for one in record["messages"]] != ["user", "assistant"]


@pytest.mark.more
def test_a_set_that_moved_away_keeps_its_result_and_leaves_the_corpus(tmp_path):
    lay_lake(tmp_path / "lake")
    order = order_for(tmp_path, dedup=True, splits=parse_splits("train=0.5,valid=0.5"))
    sets, _, _ = ran(order)
    parts = [split for one in sets.values() for split in one.splits]
    assert sum(one.records for one in parts) == 40
    assert sum(one.duplicates for one in parts) == 15
    assert (order.out / "corpus" / "train" / "other" / "manifest.json").is_file()

    shutil.rmtree(tmp_path / "lake" / "other")
    sets, _, _ = ran(order)
    assert sets["other"].status == "removed"
    assert (order.out / "sets" / "other" / "manifest.json").is_file()
    assert not (order.out / "corpus" / "train" / "other").exists()
    assert sum(one.records for one in sets["talks"].splits) == 40


@pytest.mark.more
def test_data_of_another_shape_waits_and_its_former_result_stays(tmp_path):
    path = lay(tmp_path / "lake", "talks/a.jsonl", talks(20))
    order = order_for(tmp_path)
    ran(order)
    path.write_text("".join(json.dumps({"q": n, "answers": [str(n)]}) + "\n" for n in range(20)))
    sets, _, _ = ran(order)
    assert sets["talks"].status == "waiting"
    assert "shape" in sets["talks"].why
    assert sets["talks"].result == "sets/talks"


@pytest.mark.more
def test_a_result_that_was_deleted_is_made_again(tmp_path):
    lay(tmp_path / "lake", "talks/a.jsonl", talks(20))
    order = order_for(tmp_path)
    ran(order)
    before = bytes_of(order.out)
    shutil.rmtree(order.out / "sets")
    assert ran(order)[1].worked == ["talks"]
    again = bytes_of(order.out)
    assert again.keys() == before.keys()
    assert (
        again["sets/talks/records/part-00000.parquet"]
        == before["sets/talks/records/part-00000.parquet"]
    )


@pytest.mark.more
def test_without_its_state_everything_is_taken_over(tmp_path):
    lay_lake(tmp_path / "lake")
    order = order_for(tmp_path)
    ran(order)
    records = (order.out / "sets" / "talks" / "records").stat().st_ino
    shutil.rmtree(order.out / ".ingot-lake")
    sets, _, _ = ran(order)
    assert sets["talks"].status == "converted"
    assert (order.out / "sets" / "talks" / "records").stat().st_ino == records


@pytest.mark.more
def test_files_that_are_being_written_are_left_for_later(tmp_path):
    path = lay(tmp_path / "lake", "talks/a.jsonl", talks(20))
    order = order_for(tmp_path)
    assert ran(order, settle=60)[1].worked == []
    old = time.time() - 100
    os.utime(path, (old, old))
    assert ran(order, settle=60)[1].worked == ["talks"]


@pytest.mark.more
def test_the_lakes_folder_may_lie_in_the_lake(tmp_path):
    lay(tmp_path / "lake", "talks/a.jsonl", talks(20))
    out = tmp_path / "lake" / "out"
    order = order_for(tmp_path, out=out, mappings=out / "mappings")
    assert set(ran(order)[0]) == {"talks"}
    sets, listener, _ = ran(order)
    assert (set(sets), listener.worked) == ({"talks"}, [])


@pytest.mark.parametrize("place", ["lake", "."])
def test_the_data_must_not_lie_in_the_lakes_folder(tmp_path, place):
    lay(tmp_path / "lake", "talks/a.jsonl", talks(2))
    out = tmp_path / place
    with pytest.raises(OutputError, match="the data lies in it"):
        ran(order_for(tmp_path, out=out, mappings=out / "mappings"))


@pytest.mark.more
def test_a_folder_belongs_to_one_lake(tmp_path):
    lay(tmp_path / "lake", "talks/a.jsonl", talks(2))
    ran(order_for(tmp_path))
    lay(tmp_path / "second", "talks/a.jsonl", talks(2))
    with pytest.raises(OutputError, match="folder of another lake"):
        ran(order_for(tmp_path, root=str(tmp_path / "second")))


@pytest.mark.more
def test_without_a_lake_nothing_is_written_that_matters(tmp_path):
    with pytest.raises(SourceError, match="no such file"):
        ran(order_for(tmp_path, root=str(tmp_path / "nowhere")))
    lay(tmp_path / "lake", "talks/a.jsonl", talks(2))
    assert set(ran(order_for(tmp_path))[0]) == {"talks"}


@pytest.mark.more
def test_a_name_that_is_no_text_is_left_out_and_told(tmp_path):
    lay(tmp_path / "lake", "talks/a.jsonl", talks(20))
    odd = os.fsencode(tmp_path / "lake") + b"/talks/caf\xe9.jsonl"
    with open(odd, "wb") as file:  # noqa: PTH123 - a path of bytes
        file.write(b"{}\n")
    sets, _, report = ran(order_for(tmp_path))
    assert sets["talks"].status == "converted"
    assert report.left_out == (("talks/caf?.jsonl", "its name is not valid UTF-8: rename it"),)


@pytest.mark.more
def test_a_sample_of_the_rows_is_pinned_beside_the_mapping(tmp_path):
    lay(tmp_path / "lake", "talks/a.jsonl", talks(20))
    order = order_for(tmp_path, pin=True)
    sets, _, _ = ran(order)
    assert sets["talks"].status == "converted"
    about = json.loads((order.mappings / "talks.sample" / "sample.json").read_text())
    assert about["rows"] > 0
    assert ran(order)[1].worked == []


@pytest.mark.more
def test_a_shard_that_is_lost_fails_its_data_set(tmp_path):
    root = tmp_path / "lake"
    for name in ("link", "nulls", "pointer"):
        lay(root, f"{name}/part-0.jsonl", talks(20))
    (root / "link" / "part-1.jsonl").symlink_to(root / "nowhere")
    (root / "nulls" / "part-1.jsonl").write_bytes(bytes(300))
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
    (root / "pointer" / "part-1.jsonl").write_text(pointer)
    lay(root, "whole/part-0.jsonl", talks(5))
    (root / "whole" / "README.md").symlink_to(root / "nowhere")
    order = order_for(tmp_path)
    sets, _, report = ran(order)
    assert {name: one.status for name, one in sets.items()} == {
        "link": "failed",
        "nulls": "failed",
        "pointer": "failed",
        "whole": "converted",
    }
    assert "leads nowhere" in sets["link"].why
    assert "Git LFS" in sets["pointer"].why
    assert report.left_out == (("whole/README.md", "a link that leads nowhere"),)
    (told,) = (order.out / "left_out.jsonl").read_text().splitlines()
    assert json.loads(told) == {"name": "whole/README.md", "why": "a link that leads nowhere"}


@pytest.mark.more
def test_a_side_file_with_data_is_a_data_set_where_nothing_else_is(tmp_path):
    root = tmp_path / "lake"
    lay(root, "people/authors.en.jsonl", talks(20))
    (root / "people/README.md").write_text("# People")
    lay(root, "talks/authors.jsonl", talks(20))
    lay(root, "talks/part.jsonl", talks(20))
    order = order_for(tmp_path)
    sets, _, report = ran(order)
    assert {name: one.rows["read"] for name, one in sets.items()} == {"people": 20, "talks": 20}
    assert ("talks/authors.jsonl", "auxiliary file") in report.left_out
    lay(root, "people/rows.jsonl", talks(30, 30))  # now it is a note beside data again
    sets, _, report = ran(order)
    assert ("people/authors.en.jsonl", "auxiliary file") in report.left_out
    assert [one.rows["read"] for one in sets.values() if one.status == "converted"] == [30, 20]


@pytest.mark.more
def test_formats_that_are_not_read_are_never_passed_over(tmp_path):
    root = tmp_path / "lake"
    for name in ("books", "much", "little", "archive", "table/_delta_log"):
        (root / name).mkdir(parents=True)
    lay(root, "table/day=1/rows.jsonl", talks(20))
    (root / "table/_delta_log/00000000000000000000.json").write_text("{}")
    (root / "books/emma.pdf").write_bytes(b"%PDF-1.7")
    (root / "books/README.md").write_text("# Books")
    for name, size in (("much", 5000), ("little", 10)):
        lay(root, f"{name}/rows.jsonl", talks(20))
        (root / name / "more.docx").write_bytes(bytes(size))
    lay(root, "archive/rows.jsonl", talks(20))
    with zipfile.ZipFile(root / "archive/all.zip", "w") as packed:
        packed.writestr("pages.html", "<html>" + "x" * 5000)
    order = order_for(tmp_path)
    sets, _, report = ran(order)
    assert {name: one.status for name, one in sets.items()} == {
        "archive": "waiting",
        "books": "failed",
        "little": "converted",
        "much": "waiting",
        "table": "failed",
    }
    assert "table/day=1/rows.jsonl is part of a Delta table" in sets["table"].why
    assert sets["books"].why == "no file in it can be read: books/emma.pdf is a PDF document"
    assert "much/more.docx is an Office document" in sets["much"].why
    assert "archive/all.zip/pages.html is an HTML page" in sets["archive"].why
    assert len(report.left_out) == 7
    page = (order.out / "index.html").read_text()
    for name, _ in report.left_out:
        assert name in page
    assert '"sure":0.9' in page
    sets, listener, _ = ran(order)  # what was kept of the files says the same
    assert (listener.worked, sets["archive"].status) == ([], "waiting")
    (root / "archive/rows.jsonl").touch()
    assert ran(order)[0]["archive"].status == "waiting"


@pytest.mark.more
def test_a_table_is_one_data_set_that_is_read_again_when_its_version_moves(tmp_path):
    from deltalake import DeltaTable, write_deltalake

    table = tmp_path / "lake/tables/people"
    lay(tmp_path / "lake", "talks/rows.jsonl", talks(20))
    write_deltalake(table, pa.Table.from_pylist(talks(40)))
    DeltaTable(table).delete("output like '%1809%'")
    order = order_for(tmp_path)
    sets, listener, _ = ran(order)
    assert sets["tables--people"].rows == {**sets["talks"].rows, "read": 39, "converted": 39}
    assert sorted(listener.worked) == ["tables--people", "talks"]
    assert ran(order)[1].worked == []
    write_deltalake(table, pa.Table.from_pylist(talks(5, 60)), mode="append")
    sets, listener, report = ran(order)
    assert (sets["tables--people"].rows["read"], listener.worked) == (44, ["tables--people"])
    (former,) = (one for one in report.left_out if one[0].startswith("tables/people/"))
    assert former[0].endswith(".parquet")  # its log is the table
    assert former[1] == "not in version 2 of its Delta table"


@pytest.mark.more
def test_a_folder_of_documents_is_a_data_set_and_notes_beside_data_are_left_out(tmp_path):
    root = tmp_path / "lake"
    lay(root, "talks/en/rows.jsonl", talks(20))
    names = ["notes.md", "talks/config.yaml", "tools/load.py", "rules/a.yaml", "talks/README.md"]
    names += ["guide/README.md", "guide/LICENSE", "guide/one/data/a.md", "guide/two.txt"]
    names += [f"code/src/{n}.py" for n in range(20)]
    for name in names:
        (root / name).parent.mkdir(exist_ok=True, parents=True)
        (root / name).write_text(f"- Some words of {name}\n" * 20)
    with zipfile.ZipFile(root / "guide/old.zip", "w") as packed:
        for number in range(9):
            packed.writestr(f"{number}.md", f"# Page {number}\n\nSome words of the old page.\n" * 9)
    order = order_for(tmp_path)
    sets, _, report = ran(order)
    assert {name: (one.status, one.rows.get("read", 0)) for name, one in sets.items()} == {
        "code": ("converted", 20),
        "guide": ("converted", 12),
        "rules": ("waiting", 0),
        "talks--en": ("converted", 20),
    }
    assert sets["guide"].format == "document"
    assert dict(report.left_out) == {
        "guide/LICENSE": "auxiliary file",
        "notes.md": "auxiliary file (document)",
        "talks/README.md": "auxiliary file",
        "talks/config.yaml": "auxiliary file (settings)",
        "tools/load.py": "auxiliary file (script)",
    }
    assert ran(order)[1].worked == []
    lay(root, "guide/rows.jsonl", talks(20))  # beside data documents are notes
    sets, _, report = ran(order)
    assert (sets["guide"].status, len(sets), len(report.left_out)) == ("removed", 5, 17)
    (new,) = (one for name, one in sets.items() if name.startswith("guide-"))
    assert (new.format, new.status) == ("jsonl", "converted")


@pytest.mark.more
def test_a_folder_of_records_in_yaml_is_a_data_set(tmp_path):
    root = tmp_path / "lake"
    lay(root, "talks/rows.jsonl", talks(20))
    for number, row in enumerate(talks(20)):
        for folder in ("faq", "talks", "code") if number < 9 else ("faq",):
            (root / folder).mkdir(exist_ok=True)
            text = "".join(f"{key}: {json.dumps(value)}\n" for key, value in row.items())
            (root / folder / f"{number}.yaml").write_text(text)
    order = order_for(tmp_path)
    sets, _, report = ran(order)
    assert (sets["faq"].format, sets["faq"].status, sets["faq"].rows["read"]) == (
        *("yaml", "converted"),
        20,
    )
    assert (sets["talks"].format, sets["talks"].rows["read"]) == ("jsonl", 20)
    assert sets["code"].format in ("document", "text")
    assert len(report.left_out) == 9
    assert ran(order)[1].worked == []


@pytest.mark.more
def test_names_in_archives_that_are_no_text_end_no_run(tmp_path):
    data = "".join(json.dumps(row) + "\n" for row in talks(12)).encode()
    (tmp_path / "lake" / "talks").mkdir(parents=True)
    place, old = tmp_path / "lake" / "talks" / "x.tar", tarfile.GNU_FORMAT
    with tarfile.open(place, "w", format=old, encoding="latin-1") as packed:
        for name, content in (("caf\xe9.jsonl", data), ("note \xe9.md", b"# A note\n\nOf it.\n")):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            packed.addfile(member, io.BytesIO(content))
    order = order_for(tmp_path)
    sets, _, _ = ran(order)
    assert (sets["talks"].status, sets["talks"].rows["read"]) == ("converted", 12)
    assert "note ?.md" in (order.out / "left_out.jsonl").read_text()
    assert ran(order)[1].worked == []


@pytest.mark.more
def test_where_nothing_tells_a_changed_file_it_is_looked_at_again(tmp_path):
    """Without time and mark a file of the same size may be another one."""
    path = lay(tmp_path / "lake", "talks/a.jsonl", talks(5))
    order, looked = order_for(tmp_path), []
    known = Entry(name="talks/a.jsonl", place=LocalFile(str(path)), bytes=9, mtime_ns=1)
    with Workers(1) as workers:
        for entry in (known, known, dataclasses.replace(known, mtime_ns=None)) * 2:
            list(scan_files(order, [entry], workers, lambda _, new: looked.append(new)))
    assert looked == [1, 1, 1, 1]  # the first, the one without, and both again behind it


@pytest.mark.parametrize(
    ("changes", "corpus"),
    [({}, False), ({"dedup": True}, True), ({"splits": parse_splits("train=0.5,valid=0.5")}, True)],
)
def test_a_corpus_is_written_where_it_is_asked_for(changes: dict[str, Any], corpus: bool) -> None:
    order = LakeOrder(root="lake", out=Path("out"), mappings=Path("mappings"), mapper="rules")
    assert dataclasses.replace(order, **changes).has_corpus is corpus


@pytest.mark.more
def test_what_another_version_recognized_is_found_anew(tmp_path: Path) -> None:
    line = "\t".join(["0", *("5" for _ in range(13)), *("68fd1e64" for _ in range(26))])
    day = tmp_path / "lake/logs/day_0"
    day.parent.mkdir(parents=True)
    day.write_text(f"{line}\n" * 20)
    order = order_for(tmp_path)
    first, _, _ = ran(order)
    kept = json.dumps({str(day.parent): {"digest": "older", "proposal": {"unlike": "today"}}})
    with order.state.connected() as connection:
        connection.execute("UPDATE notes SET value = ? WHERE key = 'recognized'", (kept,))
        assert connection.execute("SELECT changes()").fetchone() == (1,)
    again, _, _ = ran(order)
    assert again == first
    assert first["logs"].status == "other_command"


@pytest.mark.more
@pytest.mark.parametrize("share", ["redacted", "none"])
def test_the_page_shows_records_of_redacted_rows_however_a_mapping_spells_them(
    tmp_path: Path, share: str
) -> None:
    secret = "hunter2-Kestrel-77"
    rows = [{**row, "password": secret} for row in talks(20)]
    lay(tmp_path / "lake", "talks/a.jsonl", rows)
    order = order_for(tmp_path, share_values=share)
    order.mappings.mkdir(parents=True)
    spelled = {"path": "password", "replace": {"hunter2": "h_u_n_t", "Kestrel": "K.e.s"}}
    document = {
        "version": 2,
        "messages": [
            {"role": "user", "content": "instruction"},
            {"role": "assistant", "content": {"concat": ["output", spelled]}},
        ],
        "meta": {"language": "password"},
    }
    (order.mappings / "talks.json").write_text(json.dumps(document))
    (one,) = ran(order)[0].values()
    assert (one.status, one.rows["converted"]) == ("converted", 20)
    shown = json.dumps([one.figures.samples, one.figures.languages])
    assert len(one.figures.samples) == 3
    assert not any(part in shown for part in ("h_u_n_t", "K.e.s", "-77"))
    assert ("still talk" in shown) == (share == "redacted")
    assert secret not in (order.out / "index.html").read_text()
