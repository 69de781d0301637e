"""Pinned samples: they read like the original, hide what has to be hidden, and are whole."""

import bz2
import csv
import datetime as dt
import decimal
import gzip
import io
import json
import lzma
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from ingot.agent.context import Context
from ingot.agent.privacy import redact
from ingot.agent.review.pinning.pin import pin_sample
from ingot.agent.review.pinning.pinned_sample import find_pinned, pinned_folder
from ingot.agent.review.pinning.sample_redaction import SampleRedactor, named_values
from ingot.agent.session import run_once
from ingot.agent.state import Order
from ingot.converters.errors import OutputError, SourceError
from ingot.converters.mapping.bind import NO_MAPPING, read_tree
from ingot.converters.mapping.check import sample_batches
from ingot.converters.mapping.language import Layout, Mapping
from ingot.converters.mapping.rows.executor import RowExecutor
from ingot.converters.sources import Source, SourceSpec, open_source
from ingot.converters.sources.facts import FileFacts, SourceFile
from ingot.converters.sources.formats.detection import FilePeek
from ingot.converters.sources.formats.row_chunks import RowChunk
from ingot.converters.sources.readers import READERS, BinaryReader
from ingot.converters.sources.sample import Sample, draw_sample
from ingot.converters.sources.storage.listing import Entry

PLAIN = SourceSpec()
ROOT = Path(__file__).resolve().parents[4]
EXAMPLES = ("en_chats", "en_field_notes", "en_instructions", "sensor_log", "zh_exam", "zh_townlife")
DATA_SETS = [
    *(ROOT / "examples" / name for name in EXAMPLES),
    *(path / "raw" for path in sorted((ROOT / "tests/golden/cases").iterdir()) if path.is_dir()),
]
ROWS = [
    {"id": n, "q": f"What is the number {n}?", "a": f"It is {n}, say «ä{n}»."} for n in range(40)
]


def pinned_from(
    location: Path | str, tmp_path: Path, spec: SourceSpec = PLAIN, **how: Any
) -> tuple[Source, Sample, Path]:
    source = open_source(str(location), spec)
    sample = draw_sample(source)
    folder = tmp_path / "m.sample"
    pin_sample(source, sample, folder, **how)
    return source, sample, folder


def reopened(folder: Path, spec: SourceSpec = PLAIN) -> tuple[Source, Sample]:
    """The sample as a mapping reads it that states these facts."""
    found = find_pinned(folder)
    assert found is not None
    fitting = found.fit_mapping(Mapping(outer=Layout(), source=spec))
    source = open_source(found.location, fitting.source)
    return source, draw_sample(source)


def values(sample: Sample) -> list[Any]:
    return [row.value for row in sample.rows]


def about(folder: Path) -> dict[str, Any]:
    made: dict[str, Any] = json.loads((folder / "sample.json").read_text())
    return made


def every_byte(folder: Path) -> bytes:
    """The names and bytes of all stored files."""
    return b"\n".join(str(p).encode() + p.read_bytes() for p in folder.rglob("*") if p.is_file())


# --- faithful


def made_of(
    mapping: Mapping, source: Source, sample: Sample, name: str
) -> tuple[list[Any], Counter[str]]:
    unifier = RowExecutor(mapping, source_name=name)
    records: list[Any] = []
    reasons: Counter[str] = Counter()
    for batch in sample_batches(sample, mapping):
        unified = unifier.batch(batch)
        records += unified.records
        reasons.update(reject.reason for reject in unified.rejects)
    return records, reasons


@cache
def proposed(raw: Path) -> Mapping | None:
    """What the rules make of a data set."""
    state = run_once(Order(source=str(raw), mapper="rules", dry_run=True), Context())
    proposal = state.get("proposal")
    return proposal.mapping if proposal else None


@pytest.mark.more
@pytest.mark.parametrize("share", ["raw", "redacted"])
@pytest.mark.parametrize("raw", DATA_SETS, ids=lambda raw: f"{raw.parent.name}-{raw.name}")
def test_a_mapping_makes_the_same_of_the_pinned_sample(
    raw: Path, share: str, tmp_path: Path
) -> None:
    mapping = proposed(raw) or NO_MAPPING
    spec = mapping.source
    source, sample, folder = pinned_from(
        raw, tmp_path, spec, share=share, keep=named_values(mapping)
    )
    again, sampled = reopened(folder, spec)
    assert about(folder)["differs"] == []
    if share == "raw":
        assert values(sampled) == values(sample)
    assert not sampled.bad
    if mapping.draft is None:
        mapping = replace(mapping, source=source.guessed.with_facts(mapping.source))
        old = made_of(mapping, source, sample, source.name)
        new = made_of(mapping, again, sampled, about(folder)["source_name"])
        unreadable = Counter(one.bad.reason for one in sample.bad)
        assert (len(new[0]), new[1]) == (len(old[0]), old[1] - unreadable)
        if values(sampled) == values(sample) and not sample.bad:  # which has a row number too
            assert new == old


def as_jsonl(rows: list[Any]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def as_csv(rows: list[dict[str, Any]], delimiter: str = ",", **how: Any) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), delimiter=delimiter, **how)
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()


def as_parquet(rows: list[Any]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), out, row_group_size=7)
    return out.getvalue()


def as_arrow(rows: list[Any], new: Callable[..., Any] = pa.ipc.new_file) -> bytes:
    out = io.BytesIO()
    table = pa.Table.from_pylist(rows)
    with new(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


def as_zip(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def as_tar(members: dict[str, bytes], mode: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


LINES = as_jsonl(ROWS)
TEXTS = [
    {"q": f"这是第{n}个问题，请回答。", "a": f"答案是{n}，谢谢大家的关注和支持。"}
    for n in range(40)
]
FORMATS: dict[str, tuple[str, bytes]] = {
    "lines": ("a.jsonl", LINES),
    "spelt oddly": ("a.jsonl", b'\xef\xbb\xbf{ "q":"caf\\u00e9", "n": 1.50 }\r\n\r\n' + LINES),
    "broken lines": ("a.jsonl", LINES + b'{"id": 1, "q": "x\n[1, 2\n\xff\xfe{}\n'),
    "gzip": ("a.jsonl.gz", gzip.compress(LINES)),
    "zstd": ("a.jsonl.zst", zstandard.ZstdCompressor().compress(LINES)),
    "bzip2": ("a.json.bz2", bz2.compress(LINES)),
    "xz": ("a.csv.xz", lzma.compress(as_csv(ROWS))),
    "table": ("a.csv", as_csv(ROWS)),
    "all quoted": ("a.csv", as_csv(ROWS, quoting=csv.QUOTE_ALL)),
    "tabs": ("a.tsv", as_csv(ROWS, "\t", lineterminator="\n")),
    "semicolons": ("a.csv", as_csv(ROWS, ";")),
    "lines in cells": ("a.csv", as_csv([{**row, "a": f'one\n"two" {row["id"]},'} for row in ROWS])),
    "broken records": ("a.csv", as_csv(ROWS) + b'x,"open\n1,2,3,4,5\n7,eight,nine\n'),
    "no header": ("a.csv", as_csv(ROWS).split(b"\r\n", 1)[1]),
    "GBK": ("a.csv", as_csv(TEXTS).decode().encode("gb18030")),
    "UTF-16": ("a.tsv", as_csv(TEXTS, "\t").decode().encode("utf-16")),
    "UTF-16 bare": ("a.jsonl", as_jsonl(ROWS).decode().encode("utf-16-le")),
    "latin-1": (
        "a.csv",
        as_csv([{**r, "a": "déjà vu à l'été, où ça ?"} for r in ROWS]).decode().encode("cp1252"),
    ),
    "CR": ("a.txt", b"".join(b"This is line %d of a text.\r" % n for n in range(30))),
    "text": ("a.txt", b"".join(b"This is line %d of a text.\n\n" % n for n in range(30))),
    "list": ("a.json", json.dumps(ROWS, indent=1).encode()),
    "list on a line": ("a.json", json.dumps(ROWS).encode()),
    "in an object": ("a.json", json.dumps({"version": 3, "data": ROWS, "more": [1, 2]}).encode()),
    "keyed": ("a.json", json.dumps({f"k{row['id']}": row for row in ROWS}).encode()),
    "in a row": ("a.json", b"".join(json.dumps(row, indent=1).encode() for row in ROWS)),
    "a broken element": ("a.json", b"[" + b",".join([*LINES.splitlines(), b"{nothing}"]) + b"]"),
    "parquet": ("a.parquet", as_parquet(ROWS)),
    "arrow": ("a.arrow", as_arrow(ROWS)),
    "arrow stream": ("a.arrow", as_arrow(ROWS, pa.ipc.new_stream)),
    "zip": ("a.zip", as_zip({"in/a.jsonl": LINES, "in/README": b"side"})),
    "tar": ("a.tar", as_tar({"a.jsonl": LINES}, "w")),
    "tar.gz": ("a.tgz", as_tar({"b.jsonl": LINES, "a.jsonl": LINES}, "w:gz")),
}
FACTS = ("format", "encoding", "delimiter", "quote", "columns", "header")


@pytest.mark.parametrize("alone", [True, False], ids=["file", "folder"])
@pytest.mark.parametrize("kind", FORMATS)
def test_rows_are_pinned_as_json_lines(kind: str, alone: bool, tmp_path: Path) -> None:
    name, data = FORMATS[kind]
    folder = tmp_path / "raw"
    folder.mkdir()
    (folder / name).write_bytes(data)
    _, sample, made = pinned_from(folder / name if alone else folder, tmp_path)
    again, sampled = reopened(made)
    told = about(made)
    assert (told["lines"], told["differs"]) == (True, [])
    assert {file.facts.format for file in again.files} == {"jsonl"}
    assert all(name.endswith(".jsonl") for name in told["stored"])
    assert values(sampled) == values(sample)
    assert not sampled.bad
    assert told["left_out"]["not_found"] == len(sample.bad)
    assert told["complete"] == (not sample.bad)


# What a mapping states of the source, and a file that is read so.
STATED: dict[str, tuple[str, bytes, SourceSpec]] = {
    "encoding": ("a.csv", FORMATS["GBK"][1], SourceSpec(encoding="gb18030")),
    "wide characters": ("a.tsv", FORMATS["UTF-16"][1], SourceSpec(encoding="utf-16")),
    "lines": ("a.jsonl", LINES.decode().encode("utf-16-le"), SourceSpec(encoding="utf-16-le")),
    "delimiter": ("a.csv", as_csv(ROWS, ";"), SourceSpec(delimiter=";", quote='"')),
    "quoted": ("a.csv", FORMATS["lines in cells"][1], SourceSpec(quote='"')),
    "no quotes": ("a.csv", as_csv(ROWS, "|"), SourceSpec(delimiter="|", quote="")),
    "columns": ("a.csv", FORMATS["no header"][1], SourceSpec(columns=("n", "asked", "said"))),
    "one text": ("a.txt", FORMATS["text"][1], SourceSpec(format="text", root="$")),
    "CR": ("a.txt", FORMATS["CR"][1], SourceSpec(format="text", encoding="utf-8")),
    "list": ("a.json", FORMATS["list"][1], SourceSpec(root="[*]")),
    "in an object": ("a.json", FORMATS["in an object"][1], SourceSpec(root="data[*]")),
    "quoted key": ("a.json", json.dumps({"a.b": ROWS}).encode(), SourceSpec(root="['a.b'][*]")),
    "keyed": ("a.json", FORMATS["keyed"][1], SourceSpec(root="*")),
    "deep": (
        "a.json",
        json.dumps({"data": [{"par": ROWS[n : n + 3]} for n in range(9)]}).encode(),
        SourceSpec(root="data[*].par[*]"),
    ),
    "inside elements": (
        "a.json",
        json.dumps({"k": {"x": [{"row": row} for row in ROWS]}}).encode(),
        SourceSpec(root="k.*[*].row"),
    ),
    "one row": ("a.json", json.dumps({"train": ROWS}).encode(), SourceSpec(root="train[0]")),
    "whole": ("a.json", json.dumps({"train": ROWS}).encode(), SourceSpec(root="$")),
}


@pytest.mark.parametrize("alone", [True, False], ids=["file", "folder"])
@pytest.mark.parametrize("kind", STATED)
def test_what_a_mapping_states_of_the_source_is_replayed(
    kind: str, alone: bool, tmp_path: Path
) -> None:
    name, data, spec = STATED[kind]
    folder = tmp_path / "raw"
    folder.mkdir()
    (folder / name).write_bytes(data)
    source, sample, made = pinned_from(folder / name if alone else folder, tmp_path, spec)
    again, sampled = reopened(made, spec)
    told = about(made)
    assert (told["lines"], told["differs"], told["stored"]) == (False, [], [f"data/{name}"])
    assert values(sampled) == values(sample)
    assert [row.key for row in sampled.rows] == [row.key for row in sample.rows]
    for old, new in zip(source.files, again.files, strict=True):
        assert [getattr(new.facts, f) for f in FACTS] == [getattr(old.facts, f) for f in FACTS]


NO_FORM: dict[str, tuple[str, bytes, SourceSpec]] = {
    "title above": (
        "a.csv",
        b"Table 1,,\n" + as_csv(ROWS),
        SourceSpec(header_rows=(2,), quote='"'),
    ),
    "another element": ("a.json", json.dumps({"t": ROWS}).encode(), SourceSpec(root="t[3]")),
    "binary": ("a.parquet", as_parquet(ROWS), SourceSpec(encoding="utf-8")),
}


@pytest.mark.parametrize("kind", NO_FORM)
def test_a_form_that_is_not_written_becomes_json_lines(kind: str, tmp_path: Path) -> None:
    name, data, spec = NO_FORM[kind]
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / name).write_bytes(data)
    _, sample, made = pinned_from(tmp_path / "raw", tmp_path, spec)
    assert (about(made)["lines"], about(made)["differs"]) == (True, [])
    assert values(reopened(made, spec)[1]) == values(sample)


def test_a_form_that_would_not_read_alike_becomes_json_lines(tmp_path: Path) -> None:
    """The second placeholder is `[email b]`, whose blank would part a cell of this table."""
    table = "".join(f"{n} bird{n}@secret-host.example said{n}\n" for n in range(20))
    (tmp_path / "a.csv").write_text(f"id mail text\n{table}")
    spec = SourceSpec(delimiter=" ", quote="")
    folder = pinned_from(tmp_path / "a.csv", tmp_path, spec)[2]
    assert (about(folder)["lines"], about(folder)["differs"]) == (True, [])
    left = values(reopened(folder, spec)[1])
    assert [row["text"] for row in left] == [f"said{n}" for n in range(20)]
    assert left[1]["mail"] == "[email b]"


# Facts of one file, one after the other stated: of each form the other ones read the same.
SPECS: dict[str, tuple[str, bytes, list[SourceSpec]]] = {
    "deep": (
        "a.json",
        json.dumps(
            {"data": [{"title": f"t{n}", "par": ROWS[n : n + 3]} for n in range(20)]}
        ).encode(),
        [SourceSpec(root="data[*]"), SourceSpec(root="data[*].par[*]")],
    ),
    "tables": (
        "a.csv",
        as_csv(ROWS, lineterminator="\n"),
        [
            SourceSpec(delimiter=","),
            SourceSpec(quote=""),
            SourceSpec(encoding="latin-1"),
            SourceSpec(delimiter="?"),
        ],
    ),
    "texts": (
        "a.txt",
        b"A line of a text.\nAnd one more.\n\nThe end of it.\n",
        [SourceSpec(root="$"), SourceSpec(encoding="utf-8")],
    ),
}


@pytest.mark.parametrize("share", ["raw", "redacted"])
@pytest.mark.parametrize("kind", SPECS)
def test_a_change_of_what_is_stated_is_replayed(kind: str, share: str, tmp_path: Path) -> None:
    name, data, specs = SPECS[kind]
    (tmp_path / name).write_bytes(data)
    source = open_source(str(tmp_path / name), specs[0])
    pin_sample(source, draw_sample(source), tmp_path / "m.sample", share=share)
    for other in specs:
        old = draw_sample(open_source(str(tmp_path / name), other))
        new = reopened(tmp_path / "m.sample", other)[1]
        assert values(new) == values(old), other


def test_files_that_are_left_out_are_not_pinned(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "train.jsonl").write_bytes(LINES * 3)
    (raw / "other[1].jsonl").write_bytes(as_jsonl([{"x": n} for n in range(30)]))
    folder = pinned_from(raw, tmp_path)[2]
    told = {file["name"]: (file["rows"], file["main"]) for file in about(folder)["files"]}
    assert told == {"train.jsonl": (120, True)}


def test_members_of_archives_are_files_of_the_sample(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    (raw / "deep").mkdir(parents=True)
    (raw / "deep" / "a.zip").write_bytes(
        as_zip({"x/one.jsonl": LINES, "two.jsonl.gz": gzip.compress(LINES)})
    )
    (raw / "b.jsonl").write_bytes(LINES)
    _, sample, folder = pinned_from(raw, tmp_path)
    assert values(reopened(folder)[1]) == values(sample)
    assert about(folder)["stored"] == [
        "data/b.jsonl",
        "data/deep/a.zip/two.jsonl.gz.jsonl",
        "data/deep/a.zip/x/one.jsonl",
    ]


def test_names_of_json_lines_stay_different(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "a.csv").write_bytes(as_csv(ROWS))
    (raw / "a.csv.jsonl").write_bytes(as_csv(ROWS[:9]))
    spec = SourceSpec(format="csv")
    _, sample, folder = pinned_from(raw, tmp_path, spec)
    assert about(folder)["stored"] == ["data/a.csv.jsonl", "data/a.csv.jsonl.jsonl"]
    assert values(reopened(folder, spec)[1]) == values(sample)


@pytest.fixture(scope="module")
def former(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Samples that commit dcbb0fd1 pinned: in the form of their files, packed as they were."""
    folder = tmp_path_factory.mktemp("former")
    with tarfile.open(Path(__file__).with_name("former_samples.tar.gz")) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.mark.parametrize(
    "name",
    ["archive", "arrow", "document", "left_out", "lines", "parquet", "table", "values"],
)
def test_samples_of_earlier_versions_are_read(name: str, former: Path) -> None:
    wanted = json.loads((former / f"{name}.json").read_text("utf-8"))
    spec = SourceSpec.from_document(wanted["source"])
    sampled = reopened(former / f"{name}.sample", spec)[1]
    assert values(sampled) == wanted["rows"]
    assert len(sampled.bad) == wanted["bad"]


# --- bounded


def big(count: int, width: int) -> list[dict[str, Any]]:
    return [{"id": n, "text": f"{n} " + "word " * (width // 5)} for n in range(count)]


@pytest.mark.more
@pytest.mark.parametrize("kind", ["jsonl", "csv", "json", "keyed", "parquet"])
def test_a_large_source_gives_a_small_sample(kind: str, tmp_path: Path) -> None:
    rows = big(2000, 6000)
    data = {
        "jsonl": as_jsonl,
        "csv": as_csv,
        "json": lambda rows: json.dumps({"v": 1, "data": rows}).encode(),
        "keyed": lambda rows: json.dumps({f"k{row['id']}": row for row in rows}).encode(),
        "parquet": as_parquet,
    }[kind](rows)
    file = tmp_path / f"a.{'json' if kind == 'keyed' else kind}"
    file.write_bytes(data)
    spec = SourceSpec(root={"json": "data[*]", "keyed": "*"}.get(kind))
    _, sample, folder = pinned_from(file, tmp_path, spec)
    told = about(folder)
    assert told["rows"] == len(sample.rows) == 200
    assert not told["complete"]
    assert len(every_byte(folder)) < 5 << 20
    sampled = reopened(folder, spec)[1]
    found, wanted = values(sampled), values(sample)
    assert sorted(row["text"] for row in found) == sorted(row["text"] for row in wanted)
    assert told["left_out"] == dict.fromkeys(told["left_out"], 0)
    assert told["differs"] == []


@pytest.mark.more
def test_rows_beyond_the_limits_are_left_out_and_counted(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(as_jsonl([{"t": "x" * 300_000}, *({"t": "y" * 100_000} for _ in range(30))]))
    told = about(pinned_from(file, tmp_path)[2])
    assert told["left_out"] == {
        "too_large": 1,
        "over_limit": 10,
        "not_redactable": 0,
        "not_found": 0,
    }
    assert told["rows"] == 20


def test_no_more_rows_than_asked_for_in_runs_of_neighbours(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(as_jsonl([{"n": n} for n in range(150)]))
    folder = pinned_from(tmp_path / "a.jsonl", tmp_path, rows=30)[2]
    numbers = [row["n"] for row in values(reopened(folder)[1])]
    assert len(numbers) == 30
    assert sum(after - before == 1 for before, after in pairwise(numbers)) == 27


@pytest.mark.more
def test_a_document_that_is_one_large_row_is_cut_short(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"v": 1, "data": big(500, 4000)}))
    folder = pinned_from(tmp_path / "a.json", tmp_path)[2]
    assert about(folder)["differs"] == ["a.json: one row, whose lists are cut short"]
    [row] = values(reopened(folder)[1])
    assert row == {"v": 1, "data": big(50, 4000)}


# --- redacted

SECRETS = {
    "canary.bird+x@secret-host.example": "Write to {} today.",
    "13800138000": "我的手机号是{}，请联系。",
    "4111111111111111": "The card {} was charged.",
    "203.0.113.77": "It came from {} at night.",
    "MIICdCanaryCanaryCanaryCanaryCanaryCanaryCanary0": (
        "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----"
    ),
    "ghp_canaryCANARY0123456789abcdefghijklmn": "git clone with {} now.",
    "canary-pass-99": "See https://robin:{}@host.example/x for it.",
    "canary-word-77": "password={} is set.",
}
NAMED = {"password": "blackbird", "api_key": "nightingale"}


def planted(count: int = 48) -> list[dict[str, Any]]:
    texts = [around.format(secret) for secret, around in SECRETS.items()]
    return [
        {
            "id": n,
            "role": ("user", "assistant")[n % 2],
            "said": f"{texts[n % len(texts)]} And {n} more.",
            "log": json.dumps(
                {"said": texts[n % len(texts)], "in": json.dumps(NAMED), "card": 4111111111111111}
            ),
            "phone": 13800138000 + n % 2,
            "password": "blackbird",
        }
        for n in range(count)
    ]


def nested(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "info": {**NAMED, "deep": [{"mail": next(iter(SECRETS))}]}} for row in rows]


HOSTILE: dict[str, tuple[str, Callable[[], bytes]]] = {
    "lines": ("a.jsonl", lambda: as_jsonl(nested(planted()))),
    "escaped": (
        "a.jsonl",
        lambda: "".join(f"{json.dumps(r)}\n" for r in nested(planted())).encode(),
    ),
    "a key twice": ("a.jsonl", lambda: LINES + b'{"q": "x@secret-host.example", "q": "plain"}\n'),
    "broken": (
        "a.jsonl",
        lambda: LINES + b"".join(line[:-9] + b"\n" for line in as_jsonl(planted(16)).splitlines()),
    ),
    "table": ("a.csv", lambda: as_csv(planted())),
    "broken table": (
        "a.csv",
        lambda: as_csv(planted()) + b'1,"ghp_canaryCANARY0123456789abcdefghijklmn\nblackbird\n',
    ),
    "list": ("a.json", lambda: json.dumps(nested(planted()), indent=1).encode()),
    "keyed": (
        "a.json",
        lambda: json.dumps({f"1380013800{n}": r for n, r in enumerate(planted(10))}).encode(),
    ),
    "text": ("a.txt", lambda: "\n".join(row["said"] for row in planted()).encode()),
    "parquet": ("a.parquet", lambda: as_parquet(nested(planted()))),
    "arrow": ("a.arrow", lambda: as_arrow(nested(planted()))),
    "zip": (
        "a.zip",
        lambda: as_zip({"canary.bird+x@secret-host.example.jsonl": as_jsonl(planted())}),
    ),
    "gzip": ("x@secret-host.example.jsonl.gz", lambda: gzip.compress(as_jsonl(planted()))),
    "GBK": (
        "a.csv",
        lambda: as_csv([{**r, "zh": TEXTS[0]["a"]} for r in planted()]).decode().encode("gb18030"),
    ),
}
NEEDLES = [*SECRETS, *NAMED.values(), "13800138001", "secret-host.example"]


@pytest.mark.parametrize("kind", HOSTILE)
def test_no_secret_is_in_any_pinned_byte(kind: str, tmp_path: Path) -> None:
    name, data = HOSTILE[kind]
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / name).write_bytes(data())
    folder = pinned_from(raw, tmp_path)[2]
    content = every_byte(folder).replace(str(tmp_path).encode(), b"")
    assert [needle for needle in NEEDLES if needle.encode() in content] == []
    sampled = reopened(folder)[1]
    told = about(folder)
    assert not [one for one in told["differs"] if "rows" in one]
    assert len(sampled.rows) + len(sampled.bad) == told["rows"] > (0 if kind == "keyed" else 8)


def shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(inner) for inner in value]
    return type(value)


@pytest.mark.parametrize("kind", ["lines", "escaped", "list", "table", "parquet", "arrow"])
def test_redacted_rows_keep_keys_types_roles_and_what_is_equal(kind: str, tmp_path: Path) -> None:
    name, data = HOSTILE[kind]
    (tmp_path / name).write_bytes(data())
    _, sample, folder = pinned_from(tmp_path / name, tmp_path)
    fields = SourceSpec(json_fields=("log", "log.in"))
    old, new = values(sample), values(reopened(folder)[1])
    assert list(map(shape, new)) == list(map(shape, old))
    assert [row["role"] for row in new] == [row["role"] for row in old]
    assert [row["id"] for row in new] == [row["id"] for row in old]
    phones = [row["phone"] for row in new]
    assert len(set(phones)) == 2
    assert phones[0] == phones[2] != phones[1]
    parsed = draw_sample(open_source(str(tmp_path / name), fields))
    assert list(map(shape, values(reopened(folder, fields)[1]))) == list(map(shape, values(parsed)))


def test_a_value_that_the_mapping_names_survives_unless_it_is_a_secret(tmp_path: Path) -> None:
    rows = [{"q": "x", "secret": word} for word in ("human", "bard", "x@host.example", "other")]
    (tmp_path / "a.jsonl").write_bytes(as_jsonl(rows))
    role = {"path": "secret", "map": {"bard": "assistant", "x@host.example": "user"}}
    keep = named_values(read_tree({"version": 2, "messages": [{"role": role, "content": "q"}]}))
    folder = pinned_from(tmp_path / "a.jsonl", tmp_path, keep=keep)[2]
    left = [row["secret"] for row in values(reopened(folder)[1])]
    assert left == ["human", "bard", "[secret]", "[secret b]"]


def test_raw_hides_nothing_and_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(data := as_jsonl(planted()))
    folder = pinned_from(tmp_path / "a.jsonl", tmp_path, share="raw")[2]
    assert (folder / "data/a.jsonl").read_bytes() == data
    source = open_source(str(tmp_path / "a.jsonl"))
    with pytest.raises(OutputError, match="none are to be shared"):
        pin_sample(source, draw_sample(source), tmp_path / "other.sample", share="none")
    assert not (tmp_path / "other.sample").exists()


# --- the folder


@pytest.mark.parametrize("kind", FORMATS)
def test_the_same_source_gives_the_same_bytes(kind: str, tmp_path: Path) -> None:
    name, data = FORMATS[kind]
    (tmp_path / name).write_bytes(data)
    source = open_source(str(tmp_path / name))
    found = []
    for number in range(2):
        pin_sample(source, draw_sample(source), tmp_path / f"{number}.sample")
        one = find_pinned(tmp_path / f"{number}.sample")
        assert one is not None
        found.append(one.sha256)
    assert found[0] == found[1]


def test_only_a_pinned_sample_is_replaced_and_only_if_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINES)
    source = open_source(str(tmp_path / "a.jsonl"))
    folder, sample = tmp_path / "m.sample", draw_sample(source)
    pin_sample(source, sample, folder, rows=3)
    with pytest.raises(OutputError, match="is there already"):
        pin_sample(source, sample, folder)
    pin_sample(source, sample, folder, overwrite=True)
    assert about(folder)["rows"] == 40
    (folder / "note.txt").write_text("mine")
    with pytest.raises(OutputError, match="holds other files too"):
        pin_sample(source, sample, folder, overwrite=True)
    foreign = tmp_path / "n.sample"
    foreign.mkdir()
    (foreign / "kept").write_text("mine")
    with pytest.raises(OutputError, match="not a pinned sample"):
        pin_sample(source, sample, foreign, overwrite=True)
    assert (foreign / "kept").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "m.sample", "n.sample"]


def test_what_is_no_sample_is_none_and_what_is_damaged_is_told(tmp_path: Path) -> None:
    assert pinned_folder(Path("x/foo.json")) == Path("x/foo.sample")
    assert find_pinned(tmp_path / "nowhere.sample") is None
    (tmp_path / "a.jsonl").write_bytes(LINES)
    folder = pinned_from(tmp_path / "a.jsonl", tmp_path)[2]
    found = find_pinned(folder)
    assert found is not None
    assert (found.rows, found.source_name) == (40, "a")
    (folder / "data/a.jsonl").write_bytes(LINES[:-1])
    changed = find_pinned(folder)
    assert changed is not None
    assert changed.sha256 != found.sha256
    (folder / "data/a.jsonl").unlink()
    with pytest.raises(SourceError, match=r"a\.jsonl is missing"):
        find_pinned(folder)
    (folder / "data/a.jsonl").symlink_to("/etc/hostname")
    with pytest.raises(SourceError, match="is a link or a device"):
        find_pinned(folder)
    (folder / "data/a.jsonl").unlink()
    (folder / "sample.json").write_text('{"version": 1}')
    with pytest.raises(SourceError, match=r"sample\.json"):
        find_pinned(folder)


def test_a_sample_behind_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINES)
    folder = pinned_from(tmp_path / "a.jsonl", tmp_path)[2]
    (tmp_path / "n.sample").symlink_to(folder)
    with pytest.raises(SourceError, match="is a link or a device"):
        find_pinned(tmp_path / "n.sample")


def test_a_sample_below_a_source_is_no_data_of_it(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINES)
    pinned_from(tmp_path, tmp_path)
    source = open_source(str(tmp_path))
    assert [file.name for file in source.files] == ["a.jsonl"]
    assert [(one.name, one.why) for one in source.left_out] == [("m.sample", "a result of ingot")]


def test_a_failing_pin_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(as_jsonl([{"t": "x" * 300_000}]))
    with pytest.raises(OutputError, match="no sampled row can be pinned"):
        pinned_from(tmp_path / "a.jsonl", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


def test_columns_of_all_types_are_pinned_as_they_are_read(tmp_path: Path) -> None:
    mail = "x@secret-host.example"
    when = dt.datetime(2020, 1, 1, 12)
    table = pa.table(
        {
            "dict": pa.array([mail, "b"]).dictionary_encode(),
            "map": pa.array(
                [[("k", mail), ("password", "bird")], None], pa.map_("string", "string")
            ),
            "deep": pa.array([[{"a": mail, "at": when}], []]),
            "large": pa.array([mail, None], pa.large_string()),
            "bytes": pa.array([mail.encode(), b"q"]),
            "number": pa.array([13800138000, None]),
            "real": pa.array([13800138000.0, 0.5]),
            "time": pa.array([when, None], pa.timestamp("us", "UTC")),
            "decimal": pa.array([decimal.Decimal("1.50"), None]),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    _, sample, folder = pinned_from(tmp_path / "a.parquet", tmp_path)
    first, second = values(reopened(folder)[1])
    whole = values(sample)
    assert second == whole[1]
    assert list(map(shape, (first,))) == list(map(shape, whole[:1]))
    assert (first["dict"], first["large"], first["bytes"]) == ("[email]",) * 3
    assert (first["number"], first["real"]) == (1, 1.0)
    assert (first["time"], first["decimal"]) == (whole[0]["time"], whole[0]["decimal"])
    assert not {"bird", "secret-host.example"} & {*json.dumps(first).split('"')}


CASES = [
    json.loads(line)[1]
    for line in (ROOT / "tests/agent/privacy/redaction_cases.jsonl").read_text("utf-8").splitlines()
]


@pytest.mark.parametrize("kind", ["jsonl", "csv", "json", "parquet", "arrow", "txt"])
def test_nothing_that_is_a_secret_is_left(kind: str, tmp_path: Path) -> None:
    texts = [text for text in CASES if "\n" not in text and "\r" not in text]
    rows = [
        {"n": n, "text": text, "log": json.dumps({"in": [text]}), "deep": json.dumps([text])}
        for n, text in enumerate(texts)
    ]
    data = {
        "jsonl": as_jsonl,
        "csv": as_csv,
        "json": lambda rows: json.dumps(rows).encode(),
        "parquet": as_parquet,
        "arrow": as_arrow,
        "txt": lambda rows: "\n".join(row["text"] for row in rows).encode(),
    }[kind](rows)
    (tmp_path / f"a.{kind}").write_bytes(data)
    spec = SourceSpec(format="text") if kind == "txt" else PLAIN
    folder = pinned_from(tmp_path / f"a.{kind}", tmp_path, spec)[2]
    left = values(reopened(folder, spec)[1])
    assert len(left) >= 150
    assert [row["text"] for row in left if redact(row["text"]) != row["text"]] == []
    if kind != "txt":
        inner = [json.loads(row["log"])["in"][0] for row in left]
        assert [text for text in inner if redact(text) != text] == []
        assert inner == [row["text"] for row in left]


def test_a_text_that_holds_json_is_written_anew_only_where_something_was_hidden():
    redactor = SampleRedactor("redacted")
    assert redactor.text('{"a":1,  "b":"c"}') == '{"a":1,  "b":"c"}'
    assert redactor.text('{"a":1,  "b":"bob@example.com"}') == '{"a": 1, "b": "[email]"}'


def test_what_is_secret_by_its_neighbours_is_not_pinned(tmp_path: Path) -> None:
    line = "MIIEpAIBAAKCAQEA7bq3Zc9Qe1vYt0Jm5uKfWn2xRr8sLd4hGp6oTyUiAaSdFgHj"
    key = ["-----BEGIN PRIVATE KEY-----", line, "-----END PRIVATE KEY-----"]
    words = ("blackbird-1", "goldfinch-2")
    rows = [{"password": {"value": word}, "q": f"What opens {word}?", "key": key} for word in words]
    (tmp_path / "a.jsonl").write_bytes(as_jsonl(rows))
    pinned = values(reopened(pinned_from(tmp_path / "a.jsonl", tmp_path)[2])[1])
    hidden = [row["password"]["value"] for row in pinned]
    assert hidden[0] == "[secret]"
    assert hidden[1].startswith("[secret ")
    assert [row["q"] for row in pinned] == [f"What opens {one}?" for one in hidden]
    assert pinned[0]["key"] == pinned[1]["key"]
    assert line not in str(pinned)


def test_rows_of_a_format_that_is_not_written_are_pinned_as_json_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rows(file: SourceFile, spec: SourceSpec, stream: BinaryIO) -> Iterator[RowChunk]:
        texts = stream.read()[4:].decode().split("\0")
        yield RowChunk(values=[{"text": one, "mail": "x@secret-host.example"} for one in texts])

    def detect(entry: Entry, seen: FilePeek, spec: SourceSpec) -> FileFacts | None:
        return FileFacts(format="toy") if seen.head.startswith(b"TOY\0") else None

    monkeypatch.setitem(READERS, "toy", BinaryReader(detect, rows))
    texts = [f"This is text {n}, as long as it must be." for n in range(30)]
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.toy").write_bytes(b"TOY\0" + "\0".join(texts).encode())
    _, _, folder = pinned_from(tmp_path / "raw", tmp_path)
    pinned = find_pinned(folder)
    assert pinned is not None
    (batch,) = open_source(pinned.location).batches()
    assert [row["text"] for row in batch.values] == texts
    assert "secret-host" not in (folder / "data" / "a.toy.jsonl").read_text()
    facts = json.loads((folder / "sample.json").read_text())
    assert (facts["lines"], facts["differs"]) == (True, [])
    mapping = Mapping(outer=Layout(), source=SourceSpec(format="toy", json_fields=("x",)))
    assert pinned.fit_mapping(mapping).source == SourceSpec(json_fields=("x",))


def test_a_note_of_a_folder_of_documents_is_read_from_its_sample(tmp_path: Path) -> None:
    names = ("README.md", "guide.md", "deep/README", "deep/CHANGELOG.md")
    for name in names:
        path = tmp_path / "docs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# About {name}\n\nWhat it is, and how it is used.\n")
    source, _, folder = pinned_from(tmp_path / "docs", tmp_path, SourceSpec(format="document"))
    assert about(folder)["differs"] == []
    again = values(reopened(folder)[1])
    assert {row["path"] for row in again} == {file.name for file in source.files} == {*names}
