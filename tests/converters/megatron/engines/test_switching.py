"""An engine that passes the gate and is wrong on a text of the third file: found, switched off."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tokenizers

from ingot.converters.errors import ConversionError
from ingot.converters.megatron import BuildOptions, WorkOptions, build, scan
from ingot.converters.megatron.engines.engine import (
    Encoded,
    Engine,
    EngineWrongError,
    open_reference,
)
from ingot.converters.megatron.engines.fast_engines import (
    FAST_ENGINES,
    FastEngine,
    Verdict,
    keep_verdict,
    make_verdict_case,
    recall_verdict,
)
from ingot.converters.megatron.run import data_set
from ingot.converters.megatron.tokenizer import TokenizerFile, load_tokenizer

FILES, WRONG, ROWS = 6, 2, 40
MARKER = "a text of the third file"
OPTIONS = BuildOptions(append_eod=True)


@dataclass
class Wrong:
    """Changes the last id of every text with the marker."""

    exact: Engine
    name: str = "planted"

    def encode(self, texts: pa.LargeStringArray) -> Encoded:
        encoded = self.exact.encode(texts)
        ids, ends = encoded.ids.copy(), np.cumsum(encoded.lengths)
        for text, end in zip(texts.to_pylist(), ends.tolist(), strict=True):
            if MARKER in text:
                ids[end - 1] ^= 1
        return Encoded(ids=ids, lengths=encoded.lengths, failed=encoded.failed)


def _open(loaded: TokenizerFile, *, plain: bool, threads: int) -> Engine:
    return Wrong(open_reference(loaded, plain=plain, threads=threads))


@pytest.fixture
def planted(tokenizer_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TokenizerFile:
    """The only fast engine there is; a verdict of an earlier run trusts it."""
    monkeypatch.setenv("INGOT_HOME", str(tmp_path / "home"))
    for name in list(FAST_ENGINES):
        monkeypatch.delitem(FAST_ENGINES, name)  # type: ignore[arg-type]
    fast = FastEngine(
        name="planted",
        distribution="tokenizers",
        proved=frozenset({tokenizers.__version__}),
        open=_open,
        routes_new_letters=False,
        grows=False,
    )
    monkeypatch.setitem(FAST_ENGINES, "planted", fast)  # type: ignore[arg-type]
    loaded = load_tokenizer(tokenizer_file)
    keep_verdict(make_verdict_case(fast, loaded, plain=False), Verdict(passed=True))
    return loaded


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in range(FILES):
        texts = [f"file {number} row {row} 床前明月光\n" * 3 for row in range(ROWS)]
        if number == WRONG:
            texts[ROWS // 2] = MARKER
        pq.write_table(pa.table({"text": texts}), folder / f"{number}.parquet")
    return folder


def made(folder: Path, loaded: TokenizerFile, prefix: Path, **work: Any) -> tuple[bytes, list[Any]]:
    """The bytes of a build, and what it told."""
    told: list[Any] = []
    options = WorkOptions(workers=1, queue_cap=1, **work)
    build(scan(folder), loaded.path, prefix, OPTIONS, options, monitor=told.append)
    ends = ("bin", "idx")
    return b"".join(Path(f"{prefix}.{end}").read_bytes() for end in ends), told


def events(told: list[Any], name: str) -> list[Any]:
    return [message for message in told if message.get("event") == name]


def verdict_of(loaded: TokenizerFile) -> Verdict:
    found = recall_verdict(make_verdict_case(FAST_ENGINES["planted"], loaded, plain=False))
    assert found is not None
    return found


@pytest.mark.more
def test_what_a_wrong_engine_wrote_is_made_again(folder, planted, tmp_path):
    expected, _ = made(folder, planted, tmp_path / "hf", tok_engine="hf")
    found, told = made(folder, planted, tmp_path / "found", tok_engine="planted")
    assert found == expected
    (wrong,) = events(told, "engine_wrong")
    assert wrong["engine"] == "planted"
    assert MARKER in wrong["error"]
    assert [event["engine"] for event in events(told, "engine_chosen")] == ["planted", "hf"]
    meta = json.loads((tmp_path / "found.meta.json").read_text())
    assert [file["rows"] for file in meta["files"]] == [ROWS] * FILES
    assert verdict_of(planted).passed is False
    assert MARKER in verdict_of(planted).problem
    # the next build does not use it
    again, told = made(folder, planted, tmp_path / "again")
    assert again == expected
    assert [event["engine"] for event in events(told, "engine_chosen")] == ["hf"]


def test_all_its_units_are_done_again_after_a_kill_before_that_was_noted(
    folder: Path, planted: TokenizerFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, _ = made(folder, planted, tmp_path / "hf", tok_engine="hf")

    class Killed(BaseException):
        pass

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(data_set, "_forget_engine", killed)
        with pytest.raises(Killed):
            made(folder, planted, tmp_path / "found", tok_engine="planted")
    assert verdict_of(planted).passed is False
    found, told = made(folder, planted, tmp_path / "found", resume=True)
    assert found == expected
    assert [event["engine"] for event in events(told, "engine_wrong")] == ["planted"]
    plans = [message["units"] for message in told if message["kind"] == "plan"]
    assert plans == [FILES]


@pytest.mark.more
def test_an_engine_that_is_wrong_and_was_asked_for_is_not_taken_the_next_time(
    folder: Path, planted: TokenizerFile, tmp_path: Path
) -> None:
    made(folder, planted, tmp_path / "found", tok_engine="planted")
    _, told = made(folder, planted, tmp_path / "again", tok_engine="planted")
    (refused,) = events(told, "engine_not_offered")
    assert "other ids than the reference" in refused["why"]
    assert [event["engine"] for event in events(told, "engine_chosen")] == ["hf"]


def test_a_reference_that_is_blamed_ends_the_build(
    folder: Path, planted: TokenizerFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Blames:
        name = "planted"

        def encode(self, texts: pa.LargeStringArray) -> Encoded:
            raise EngineWrongError("hf", texts[0].as_py())

    blaming = replace(FAST_ENGINES["planted"], open=lambda loaded, *, plain, threads: Blames())
    monkeypatch.setitem(FAST_ENGINES, "planted", blaming)  # type: ignore[arg-type]
    with pytest.raises(ConversionError, match="contradicts itself"):
        made(folder, planted, tmp_path / "found", tok_engine="planted")
