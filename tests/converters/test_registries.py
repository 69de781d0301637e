"""A toy of each kind is added through its registry alone, and works."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ingot.agent.proposing.recsys_data import raw_data_proposal
from ingot.converters.convert.job import convert
from ingot.converters.export.job import export
from ingot.converters.export.trainers import TRAINERS
from ingot.converters.imports import LateFunction
from ingot.converters.mapping.bind import bind
from ingot.converters.output.difference import FinishedResult
from ingot.converters.output.identity import RunIdentity
from ingot.converters.sources import SourceSpec, open_source
from ingot.converters.sources.facts import FileFacts
from ingot.converters.sources.formats.row_chunks import RowChunk
from ingot.converters.sources.readers import READERS, BinaryReader, TextReader
from ingot.converters.sources.recognizers import RECOGNIZERS, Recognizer


def read_all(folder: Path) -> list[object]:
    return [row for batch in open_source(str(folder)).batches() for row in batch.values]


def test_a_binary_reader(tmp_path, monkeypatch):
    def detect(entry, peek, spec):
        return FileFacts(format="toy") if peek.head.startswith(b"TOY\0") else None

    def rows(file, spec, stream):
        yield RowChunk(values=[{"text": part.decode()} for part in stream.read()[4:].split(b"\0")])

    monkeypatch.setitem(READERS, "toy", BinaryReader(detect, rows))
    (tmp_path / "a.toy").write_bytes(b"TOY\0first\0second")
    assert read_all(tmp_path) == [{"text": "first"}, {"text": "second"}]


def test_functions_of_readers_that_are_loaded_later_are_there():
    entries = [value for one in READERS.values() for value in vars(one).values()]
    late = [value for value in entries if isinstance(value, LateFunction)]
    assert len(late) > 20
    assert all(callable(one.load()) for one in late)


def test_a_text_reader(tmp_path, monkeypatch):
    def detect(head, *_):
        if not head.lines[0].startswith("%toy"):
            return None
        return replace(head.base, format="toy", shape=frozenset({"toy"}))

    def rows(file, spec: SourceSpec, blocks):
        lines = b"".join(blocks).decode().splitlines()
        yield RowChunk(values=[{"text": line} for line in lines[1:]])

    monkeypatch.setitem(READERS, "toy", TextReader(detect, rows))
    (tmp_path / "a.toy").write_text("%toy\nfirst\nsecond\n")
    assert read_all(tmp_path) == [{"text": "first"}, {"text": "second"}]


def test_a_recognizer(tmp_path, monkeypatch):
    toy = Recognizer(
        what="a toy stream",
        head_bytes=8,
        recognize=lambda head: "toy" if head.startswith(b"\xff\0TOY") else None,
        binary=True,
    )
    monkeypatch.setitem(RECOGNIZERS, "toy", toy)
    (tmp_path / "a.bin").write_bytes(b"\xff\0TOY" + bytes(range(256)))
    (tmp_path / "b.jsonl").write_text('{"text": "a row"}\n')
    left_out = {file.name: file.why for file in open_source(str(tmp_path)).left_out}
    assert left_out == {"a.bin": "a toy stream"}
    (tmp_path / "b.jsonl").unlink()
    assert (
        raw_data_proposal(open_source(str(tmp_path))).reason == "This is a toy stream and no text."
    )


def test_a_recognizer_of_text(tmp_path, monkeypatch):
    toy = Recognizer(
        what="a toy log", head_bytes=8, recognize=lambda head: head[:4] == b"TOY;" or None
    )
    (tmp_path / "a.txt").write_text("TOY;1;2\nTOY;3;4\n")
    assert raw_data_proposal(open_source(str(tmp_path))) is None
    monkeypatch.setitem(RECOGNIZERS, "toy", toy)
    assert raw_data_proposal(open_source(str(tmp_path))).reason == "This is a toy log and no text."


def test_a_trainer(tmp_path, monkeypatch):
    toy = replace(TRAINERS["trl"], name="toy", configs=lambda written: {"toy.cfg": b"data"})
    monkeypatch.setitem(TRAINERS, "toy", toy)
    (tmp_path / "raw.jsonl").write_text('{"text": "a row that is long enough"}\n')
    source = open_source(str(tmp_path / "raw.jsonl"))
    convert(source, bind({"version": 2, "text": "text"}, ()), tmp_path / "result")
    done = export(tmp_path / "result", "toy", tmp_path / "out")
    assert done.manifest["trainer"]["name"] == "toy"
    assert (tmp_path / "out" / "toy.cfg").read_bytes() == b"data"


def build_toy(rows: list[str], out: Path) -> FinishedResult | None:
    """Build the target of docs/adding-a-target.md."""
    identity = RunIdentity(settled={"versions": {"ingot": "1", "toy": 1}, "rows": len(rows)})
    with identity.stage(out) as staged:
        if not staged.done:
            (staged.result / "rows.txt").write_text("".join(f"{row}\n" for row in rows))
            identity.commit(staged, {}, {})
        return staged.done


def test_a_target(tmp_path):
    assert build_toy(["a", "b"], tmp_path / "out") is None
    assert (tmp_path / "out" / "rows.txt").read_text() == "a\nb\n"
    there = build_toy(["a", "b"], tmp_path / "out")
    assert there is not None  # it was there already
    assert there.manifest["rows"] == 2
    assert RunIdentity(settled={}).difference(there) is None


BUILDS = {
    "records": "ingot.converters.convert.job",
    "megatron": "ingot.converters.megatron.run.build",
    "ctr": "ingot.converters.recsys.ctr.preprocess.job",
    "criteo": "ingot.converters.recsys.criteo.preprocess.job",
    "monolith": "ingot.converters.recsys.monolith.convert.job",
}


@pytest.mark.more
@pytest.mark.parametrize("name", BUILDS)
def test_a_build_imports_no_other_target(name):
    program = f"""
import sys
import {BUILDS[name]}
print(*(module for module in sys.modules if module.startswith("ingot.")))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    packages = {
        "ctr": "ingot.converters.recsys.ctr",
        "criteo": "ingot.converters.recsys.criteo",
        "monolith": "ingot.converters.recsys.monolith",
        "megatron": "ingot.converters.megatron",
    }
    others = {of: package for of, package in packages.items() if of != name}
    loaded = done.stdout.split()
    assert not [m for m in loaded if m.startswith(tuple(others.values()))]


def test_a_reader_is_named_as_its_facts(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n{"a": 2}\n')
    file = open_source(str(tmp_path)).files[0]
    assert file.facts.format in READERS
