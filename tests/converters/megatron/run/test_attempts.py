"""A build that is gone on with: what it does not do again, what it refuses, what it finds wrong."""

import os
import random
import resource
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tokenizers

from ingot.converters.errors import ConversionError, OutputError
from ingot.converters.megatron import BuildOptions, WorkOptions, build, scan, stamp_files
from ingot.converters.megatron.engines import fast_engines
from ingot.converters.megatron.engines.engine import Encoded, Engine, open_reference
from ingot.converters.megatron.engines.fast_engines import (
    FAST_ENGINES,
    FastEngine,
    Verdict,
    keep_verdict,
    make_verdict_case,
)
from ingot.converters.megatron.read.input_files import InputFile
from ingot.converters.megatron.tokenizer import TokenizerFile, load_tokenizer
from ingot.converters.megatron.write.lanes import lane_file, read_journal
from ingot.converters.rows import Json

OPTIONS = BuildOptions(append_eod=True, special_in_text="plain")
ENDINGS = ("bin", "idx", "meta.json", "rejects.jsonl")
FILES = 8


class BrokenOffError(Exception):
    """What breaks a build off in these tests."""


class Wrong:
    """An engine that turns the ids of texts with `odd` in them around."""

    name = "fastokens"

    def __init__(self, exact: Engine) -> None:
        self._exact = exact

    def encode(self, texts: pa.LargeStringArray) -> Encoded:
        encoded = self._exact.encode(texts)
        rows = np.split(encoded.ids, np.cumsum(encoded.lengths)[:-1])
        turned = [
            row[::-1] if "odd" in text else row
            for row, text in zip(rows, texts.to_pylist(), strict=True)
        ]
        return replace(encoded, ids=np.concatenate(turned))


def open_wrong(loaded: TokenizerFile, *, plain: bool, threads: int) -> Engine:
    return Wrong(open_reference(loaded, plain=plain, threads=threads))


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    dice = random.Random(3)
    for number in range(FILES):
        texts = [" ".join(dice.choices(["fox", "狐狸", "\n"], k=30)).encode() for _ in range(20)]
        pq.write_table(pa.table({"text": [*texts, b"\xff"]}), folder / f"{number}.parquet")
    return folder


class Out:
    def __init__(self, inputs: Path, tokenizer: Path, folder: Path) -> None:
        self.inputs, self.tokenizer, self.folder = inputs, tokenizer, folder
        self.units = 0
        self.events: list[str] = []
        self.stop_at = 1_000

    def monitor(self, message: dict[str, Json]) -> None:
        if message["kind"] == "log":
            self.events.append(message["event"])
        if message["kind"] == "count" and message.get("units"):
            if self.units == self.stop_at:
                raise BrokenOffError
            self.units += 1

    def make(
        self,
        name: str = "x",
        options: BuildOptions = OPTIONS,
        files: list[InputFile] | None = None,
        **work: Any,
    ) -> dict[str, bytes]:
        self.units, self.events = 0, []
        files = files or scan(self.inputs)
        prefix = self.folder / name
        build(files, self.tokenizer, prefix, options, WorkOptions(**work), monitor=self.monitor)
        left = [path.name for path in self.folder.iterdir() if path.name.endswith(".tmp")]
        assert left == []
        return {ending: (self.folder / f"{name}.{ending}").read_bytes() for ending in ENDINGS}

    def break_off(self, units: int, **work: Any) -> None:
        self.stop_at = units
        with pytest.raises(BrokenOffError):
            self.make(**work)
        self.stop_at = 1_000


@pytest.fixture
def out(inputs: Path, tokenizer_file: Path, tmp_path: Path) -> Out:
    return Out(inputs, tokenizer_file, tmp_path / "out")


@pytest.mark.more
@pytest.mark.parametrize(
    "work",
    [
        {},
        {"workers": 3, "batch_size": 4, "queue_cap": 1},
        {"tok_engine": "hf", "tok_parallel": "internal", "batch_shards": 3},
        {"processes": 2},
    ],
)
def test_finished_units_are_not_done_again(out: Out, work: dict[str, Any]) -> None:
    whole = out.make("whole")
    out.break_off(5)
    assert out.make(resume=True, **work) == whole
    assert out.units == FILES - 5
    assert "resumed" in out.events


@pytest.mark.more
def test_without_resume_it_starts_again(out: Out) -> None:
    whole = out.make("whole")
    out.break_off(5)
    assert out.make() == whole
    assert out.units == FILES


@pytest.mark.more
def test_resume_with_nothing_to_go_on_with_begins(out: Out) -> None:
    assert out.make(resume=True) == out.make("whole")


def grown(inputs: Path) -> None:
    with (inputs / "3.parquet").open("ab") as file:
        file.write(b"x")


def touched(inputs: Path) -> None:
    os.utime(inputs / "3.parquet", (1, 1))


def one_more(inputs: Path) -> None:
    (inputs / "9.parquet").write_bytes((inputs / "3.parquet").read_bytes())


def one_less(inputs: Path) -> None:
    (inputs / "3.parquet").unlink()


CHANGES: Mapping[str, Callable[[Path], None]] = MappingProxyType(
    {
        r"files.3.parquet is \d+ \(requested: \d+\); 3.parquet was changed in between \(": grown,
        r"differs: 3.parquet was changed in between \(": touched,
        r"files.9.parquet is not set \(requested: \d+\)": one_more,
        r"files.3.parquet is \d+ \(requested: not set\)": one_less,
    }
)


@pytest.mark.more
@pytest.mark.parametrize("told", CHANGES)
def test_other_inputs_are_named_and_refused(out: Out, inputs: Path, told: str) -> None:
    out.break_off(3)
    before = read_journal(out.folder / "x", 0)
    CHANGES[told](inputs)
    with pytest.raises(OutputError, match=told):
        out.make(resume=True)
    assert read_journal(out.folder / "x", 0) == before
    out.make()  # without --resume it is built anew


def test_other_options_order_and_tokenizer_are_named_and_refused(
    out: Out, inputs: Path, tmp_path: Path
) -> None:
    out.break_off(3)
    with pytest.raises(
        OutputError, match=r"eod_id is 0 .requested: not set.; options.append_eod is true"
    ):
        out.make(options=replace(OPTIONS, append_eod=False), resume=True)
    with pytest.raises(OutputError, match="the files are in another order"):
        out.make(files=stamp_files(sorted(inputs.iterdir(), reverse=True)), resume=True)
    other = tmp_path / "tokenizer.json"
    other.write_text(out.tokenizer.read_text() + "\n")
    out.tokenizer = other
    with pytest.raises(OutputError, match="tokenizer is "):
        out.make(resume=True)


def file_stamps(folder: Path) -> dict[Path, tuple[int, int]]:
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.iterdir()}


@pytest.mark.more
def test_a_finished_data_set_is_not_touched(out: Out, inputs: Path) -> None:
    whole = out.make()
    stamps = file_stamps(out.folder)
    ways: list[dict[str, Any]] = [{}, {"resume": True}, {"overwrite": True, "processes": 3}]
    for work in ways:
        out.make(**work)
        assert (out.units, out.events[-1]) == (0, "already_done")
    assert file_stamps(out.folder) == stamps
    grown(inputs)
    unchanged: list[dict[str, Any]] = [{}, {"resume": True}]
    for work in unchanged:
        with pytest.raises(OutputError, match=r"files\.3\.parquet"):
            out.make(**work)
    assert file_stamps(out.folder) == stamps
    one_less(inputs)
    assert out.make(overwrite=True)["bin"] != whole["bin"]


@pytest.mark.more
def test_a_full_disk_is_told_and_gone_on_with(out: Out) -> None:
    whole = out.make("whole")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole["bin"]) // 2, hard))
    try:
        with pytest.raises(OutputError, match=r"x: cannot be written: File too large"):
            out.make()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert 0 < len(read_journal(out.folder / "x", 0).stretches) < FILES
    assert out.make(resume=True) == whole
    assert out.units < FILES


@pytest.mark.more
def test_content_that_a_power_cut_took_is_made_again(out: Out) -> None:
    whole = out.make("whole")
    out.break_off(5)
    path = lane_file(out.folder / "x", 0, "bin")
    path.write_bytes(bytes(path.stat().st_size))
    assert out.make(resume=True, processes=2) == whole
    assert out.units == FILES


@pytest.fixture
def wrong_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FastEngine:
    """`fastokens` is wrong on odd texts; nobody knows yet."""
    monkeypatch.setenv("INGOT_HOME", str(tmp_path / "home"))
    engine = replace(
        FAST_ENGINES["fastokens"],
        open=open_wrong,
        distribution="tokenizers",
        proved=frozenset({tokenizers.__version__}),
    )
    monkeypatch.setitem(fast_engines.FAST_ENGINES, "fastokens", engine)
    return engine


@pytest.mark.more
def test_what_a_wrong_engine_did_is_done_again(
    out: Out, inputs: Path, wrong_engine: FastEngine
) -> None:
    pq.write_table(pa.table({"text": [b"an odd text", b"\xff"]}), inputs / "7.parquet")
    exact = out.make("whole", tok_engine="hf")
    case = make_verdict_case(wrong_engine, load_tokenizer(out.tokenizer), plain=True)
    keep_verdict(case, Verdict(passed=True))
    assert out.make(tok_engine="fastokens") == exact
    assert "engine_wrong" in out.events
    assert out.units >= FILES


@pytest.mark.more
def test_an_engine_found_wrong_after_a_kill_is_not_gone_on_with(
    out: Out, wrong_engine: FastEngine
) -> None:
    exact = out.make("whole", tok_engine="hf")
    case = make_verdict_case(wrong_engine, load_tokenizer(out.tokenizer), plain=True)
    keep_verdict(case, Verdict(passed=True))
    out.break_off(5, tok_engine="fastokens")
    keep_verdict(case, Verdict(passed=False, problem="found elsewhere"))
    assert out.make(resume=True) == exact
    assert out.units == FILES


def test_nothing_to_write_leaves_nothing(out: Out) -> None:
    with pytest.raises(ConversionError, match="not a single token"):
        out.make(options=replace(OPTIONS, min_chars=1_000_000))
    assert list(out.folder.iterdir()) == []
