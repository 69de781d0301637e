"""`parquet2mbt`: every option of the document through a real run; what it says when it fails."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer

from ingot.cli.app import TOKENS
from ingot.converters.megatron import IndexedReader

ROOT = Path(__file__).resolve().parents[3]
TOKENIZER = ROOT / "examples/tokenizer/tokenizer.json"
HF = Tokenizer.from_file(str(TOKENIZER))
EOD = HF.token_to_id("<|endoftext|>")
ROWS: list[tuple[str | None, str | None]] = [
    ("Tea", "  rice with tea \n"),
    (None, "no title"),
    ("no content", ""),
    (None, None),
    ("标题", "夏天的茶泡饭"),
]
MORE: list[tuple[str | None, str | None]] = [("b", "<|endoftext|> in a text"), ("c", "last " * 30)]

Documents = list[list[int]]
Build = Callable[..., Documents]


def table(rows: Sequence[tuple[str | None, str | None]]) -> pa.Table:
    titles, contents = zip(*rows, strict=True)
    schema = pa.schema([("title", pa.string()), ("content", pa.string())])
    return pa.table([list(titles), list(contents)], schema=schema)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files, one of them in a folder of the folder, and one that is no Parquet."""
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "sub").mkdir()
    pq.write_table(table(ROWS), folder / "a.parquet")
    pq.write_table(table(MORE), folder / "sub/b.parquet", row_group_size=1)
    (folder / "notes.txt").write_text("no data")
    return folder


def run(*argv: str | Path) -> int:
    """The exit code of the command, run in this process."""
    try:
        TOKENS["build"].load("parquet2mbt")([str(one) for one in argv], prog_name="parquet2mbt")
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def read(prefix: Path) -> Documents:
    """The documents of a data set, their sequences joined."""
    reader = IndexedReader(prefix)
    borders = reader.document_indices.tolist()
    return [
        [int(i) for place in range(begin, end) for i in reader[place]]
        for begin, end in pairwise(borders)
    ]


def ids(*texts: str) -> Documents:
    """What Hugging Face gives."""
    return [HF.encode(text, add_special_tokens=False).ids for text in texts]


@pytest.fixture
def build(corpus: Path, tmp_path: Path) -> Build:
    """Runs the command on the corpus; gives the documents."""

    def built(*argv: str | Path, prefix: str = "out", code: int = 0) -> Documents:
        wanted = ["--log-file", tmp_path / "log.jsonl", "--no-progress"]
        given = ["--input-dir", corpus, "--tokenizer", TOKENIZER, "--output-prefix"]
        assert run(*given, tmp_path / prefix, *wanted, *argv) == code
        return read(tmp_path / prefix) if code == 0 else []

    return built


JOINED = (
    "Tea\nrice with tea",
    "no title",
    "no content",
    "",
    "标题\n夏天的茶泡饭",
    "b\n<|endoftext|> in a text",
    f"c\n{('last ' * 30).strip()}",
)
COLS = ("--text-cols", "title,content")


def test_the_input_and_the_output_have_short_names(corpus, tmp_path, capsys):
    words = ["--tokenizer", TOKENIZER, *COLS, "--no-progress", "--log-level", "error"]
    assert run(corpus, "--out", tmp_path / "short", *words) == 0
    assert read(tmp_path / "short") == ids(*JOINED)
    for given in ([], [corpus, "--input-dir", corpus]):
        capsys.readouterr()
        assert run(*given, "--out", tmp_path / "none", *words) == 2
        assert "name the folder of the input once, as SOURCE or --input" in capsys.readouterr().err


@pytest.mark.more
def test_the_command_line_of_the_document(corpus, tmp_path):
    """Section 15, with other paths; under both names."""
    options = (
        f'--input-dir {corpus} --pattern "*.parquet" --text-cols title,content '
        f"--tokenizer {TOKENIZER} --batch-size 32768 --workers 32 --dtype auto "
        "--doc-boundary row --resume"
    )
    bin_folder = Path(sys.executable).parent
    for name, command in (("one", "parquet2mbt"), ("two", "ingot tokens build")):
        line = f"{bin_folder / command} {options} --output-prefix {tmp_path / name}"
        done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        lines = [json.loads(one) for one in done.stdout.splitlines()]
        assert [one["event"] for one in lines if one["event"] != "progress"] == [
            *("started", "scanned", "checked", "engine_chosen", "stage", "summary", "finished")
        ]
        assert "tokens/s by hf" in done.stderr
        assert not any(one.endswith(" ") for one in done.stderr.splitlines())
    assert read(tmp_path / "one") == ids(*JOINED)
    for ending in ("bin", "idx", "meta.json"):
        one, two = ((tmp_path / f"{name}.{ending}").read_bytes() for name in ("one", "two"))
        assert one == two


@pytest.mark.more
def test_what_is_read(build):
    contents = ("rice with tea", "no title", "", "", "夏天的茶泡饭")
    more = ("<|endoftext|> in a text", JOINED[-1].removeprefix("c\n"))
    assert build(prefix="heuristic") == ids(*contents, *more)
    assert build("--text-cols", "content", "--no-recursive", prefix="flat") == ids(*contents)
    assert build("--pattern", "b.*", prefix="pattern") == ids(*more)
    assert build("--pattern", "sub/*", "--recursive", prefix="path") == ids(*more)


@pytest.mark.more
def test_texts(build):
    assert build(*COLS, "--concat-sep", r"\t-", prefix="sep") == ids(
        *(text.replace("\n", "\t-") for text in JOINED)
    )
    whole = ("\n".join(filter(None, part)) for part in (JOINED[:5], JOINED[5:]))
    assert build(*COLS, "--doc-boundary", "file", prefix="file") == ids(*whole)
    assert build("--no-strip", "--no-recursive", prefix="raw")[0] == ids(ROWS[0][1])[0]
    assert build(*COLS, "--min-chars", "9", "--max-chars", "40", prefix="chars") == ids(
        *(text for text in JOINED if 9 <= len(text) <= 40)
    )
    cut = build(*COLS, "--max-chars", "8", "--truncate", prefix="cut")
    assert cut == ids(*(text[:8] for text in JOINED))
    assert build(*COLS, "--max-chars", "8", "--long-docs", "truncate", prefix="way") == cut


@pytest.mark.more
def test_limits_in_tokens(build):
    whole = ids(*JOINED)
    kept = build(*COLS, "--min-tokens", "3", "--max-tokens", "20", prefix="some")
    assert kept == [one for one in whole if 3 <= len(one) <= 20]
    assert 0 < len(kept) < len(whole)
    split = build(*COLS, "--max-tokens", "4", "--long-docs", "split", prefix="split")
    assert split == whole
    cut = build(*COLS, "--max-tokens", "4", "--long-docs", "truncate", prefix="cut")
    assert cut == [one[:4] for one in whole]
    packed = build(*COLS, "--pack", "64", "--long-docs", "truncate", prefix="packed")
    assert max(map(len, packed)) <= 64
    assert sum(map(len, packed)) == sum(min(64, len(one)) for one in whole)


@pytest.mark.more
def test_tokens_around_documents(build):
    whole = ids(*JOINED)
    full = [one for one in whole if one]
    assert build(*COLS, "--append-eod", prefix="eod") == [one and [*one, EOD] for one in whole]
    drop = build(*COLS, "--append-eod", "--empty-docs", "drop", prefix="drop")
    assert drop == [[*one, EOD] for one in full]
    alone = build(*COLS, "--append-eod", "--empty-docs", "eod", prefix="alone")
    assert alone == [[*one, EOD] for one in whole]
    around = ("--add-special-tokens", "--bos-id", "7", "--eos-id", "9")
    assert build(*COLS, *around, prefix="around") == [one and [7, *one, 9] for one in whole]
    assert build(*COLS, "--add-special-tokens", prefix="own") == whole  # it has no post-processor


def test_special_tokens_in_a_text(build, tmp_path):
    assert EOD in build(*COLS, prefix="encode")[5]
    plain = build("--special-in-text", "plain", *COLS, prefix="plain")[5]
    assert EOD not in plain
    assert HF.decode(plain) == JOINED[5]


def test_dtype(build, tmp_path):
    assert build("--dtype", "u32", prefix="u32") == build("--dtype", "u16", prefix="u16")
    sizes = [(tmp_path / f"{name}.bin").stat().st_size for name in ("u32", "u16")]
    assert sizes[0] == 2 * sizes[1]
    build(prefix="auto")
    assert (tmp_path / "auto.idx").read_bytes() == (tmp_path / "u16.idx").read_bytes()


def test_expected_special_tokens(build, tmp_path, capsys):
    expected = tmp_path / "expected.json"
    expected.write_text(json.dumps({"<|endoftext|>": EOD + 1, "<|none|>": 5}))
    build("--special-tokens-json", expected)
    check = json.loads((tmp_path / "out.meta.json").read_bytes())["special_tokens_check"]
    assert check["missing"] == ["<|none|>"]
    differing = {"expected_id": EOD + 1, "actual_id": EOD}
    assert check["mismatched"] == {"<|endoftext|>": differing}
    warned = [one["event"] for one in log(tmp_path) if one["level"] == "warn"]
    assert sorted(warned) == ["special_token_mismatch", "special_token_missing"]
    build("--special-tokens-json", expected, "--strict-special-ids", prefix="strict", code=1)
    assert "<|none|>" in capsys.readouterr().err
    assert not (tmp_path / "strict.idx").exists()


def log(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_bytes().splitlines()]


WORK = {
    "batches": ("--batch-size", "1", "--queue-cap", "1", "--batch-shards", "3"),
    "workers": ("--workers", "3", "--tok-parallel", "external", "--batch-shards", "auto"),
    "internal": ("--tok-parallel", "internal"),
    "both": ("--tok-parallel", "both", "--workers", "2"),
    "row groups": ("--rowgroup-parallel", "3", "--keep-order"),
    "engine": ("--tok-engine", "hf", "--fail-fast"),
}


@pytest.mark.more
@pytest.mark.parametrize("name", WORK)
def test_options_that_change_no_byte(name, build, tmp_path, monkeypatch):
    monkeypatch.setenv("RAYON_NUM_THREADS", "2")
    build(*COLS, prefix="plain")
    build(*COLS, *WORK[name], "--tmp-dir", tmp_path / "tmp", prefix="other")
    assert list((tmp_path / "tmp").iterdir()) == []
    for ending in ("bin", "idx", "meta.json"):
        plain, other = (tmp_path / f"{prefix}.{ending}" for prefix in ("plain", "other"))
        assert other.read_bytes() == plain.read_bytes()


@pytest.mark.more
def test_processes_change_no_byte(build, tmp_path):
    build(*COLS, prefix="plain")
    build(*COLS, "--processes", "2", "--affinity", prefix="other")
    for ending in ("bin", "idx", "meta.json"):
        plain, other = (tmp_path / f"{prefix}.{ending}" for prefix in ("plain", "other"))
        assert other.read_bytes() == plain.read_bytes()


def test_what_is_there_stays_unless_it_is_to_be_replaced(build, tmp_path, capsys):
    build(*COLS)
    made = (tmp_path / "out.idx").stat().st_mtime_ns
    build(*COLS, "--resume")
    assert "nothing to do" in capsys.readouterr().err
    build("--resume", code=1)
    assert (
        'options.text_cols is ["title", "content"] (requested: not set)' in capsys.readouterr().err
    )
    assert (tmp_path / "out.idx").stat().st_mtime_ns == made
    build("--overwrite")
    assert read(tmp_path / "out") != ids(*JOINED)


def test_fail_fast_ends_at_the_first(build, corpus, tmp_path, capsys):
    bad = tmp_path / "bad"
    bad.mkdir()
    pq.write_table(table(MORE), bad / "a.parquet")
    (bad / "b.parquet").write_bytes(b"no Parquet")
    assert len(build("--input-dir", bad)) == len(MORE)
    assert "1 files could not be read, see" in capsys.readouterr().err
    (failed,) = [one for one in log(tmp_path) if one["event"] == "batch_decode_failed"]
    assert failed["file_path"] == "b.parquet"
    build("--input-dir", bad, "--fail-fast", prefix="fast", code=1)
    assert "b.parquet" in capsys.readouterr().err
    ended = log(tmp_path)[-1]
    assert (ended["event"], ended["level"]) == ("failed", "error")
    assert not (tmp_path / "fast.idx").exists()


def test_log_lines_from_a_level_on(build, tmp_path):
    build("--log-level", "error", "--metrics-exporter", "none", prefix="error")
    assert [one["event"] for one in log(tmp_path)] == ["summary"]
    (tmp_path / "log.jsonl").unlink()
    build("--log-level", "trace", "--keep-order", prefix="trace")
    lines = log(tmp_path)
    events = {str(one["event"]) for one in lines}
    assert {"scanned", "keep_order", "checked", "batch", "rows_read", "unit_done"} <= events
    assert {one["component"] for one in lines} == {
        *("scanner", "reader", "tokenizer", "writer", "pipeline", "tokens build")
    }
    fields = {name for one in lines for name in one}
    assert fields >= {
        *("ts", "level", "component", "event", "file_path", "row_group", "batch_size"),
        *("bytes_read", "records", "tokens", "latency_ms", "queue_depth_reader"),
        *("queue_depth_tok", "cpu_pct", "mem_rss_bytes", "disk_read_MBps", "disk_write_MBps"),
    }


@pytest.mark.more
def test_metrics(build, tmp_path):
    build("--metrics-exporter", "prometheus", "--metrics-port", "0", prefix="served")
    events = [one["event"] for one in log(tmp_path)]
    assert "progress" not in events
    assert events[:2] == ["started", "serving"]
    build("--metrics-interval", "0.1", "--stall-seconds", "60", "--error-streak", "5")
    last = log(tmp_path)[-1]
    assert (last["event"], last["rows"], last["files"]) == ("finished", len(JOINED), 2)


def test_no_bar_without_a_terminal(build, capsys):
    build("--progress")
    assert "━" not in capsys.readouterr().err


ERRORS: dict[str, tuple[tuple[str, ...], int, str]] = {
    "folder": (("--input-dir", "nowhere"), 1, "nowhere: no such folder"),
    "pattern": (("--pattern", "*.csv"), 1, "fits '*.csv' (state a pattern, such as"),
    "column": (("--text-cols", "nix"), 1, "has no column 'nix' (it has 'title': string"),
    "tokenizer": (("--tokenizer", "nix.json"), 2, "nix.json: no such file or folder"),
    "limits": (("--min-chars", "5", "--max-chars", "3"), 2, "--min-chars is above --max-chars"),
    "empty name": (("--text-cols", "a,,b"), 2, "there is an empty name between the commas"),
    "shards": (("--batch-shards", "0"), 2, "'0' is neither auto nor a number of 1 or more"),
    "choice": (("--dtype", "u64"), 2, "'u64' is not one of"),
    "eos": (("--append-eod", "--eos-id", "3000000"), 1, "has no id 3000000"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_one_line(name, build, tmp_path, capsys):
    argv, code, said = ERRORS[name]
    build(*argv, code=code)
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert said in error
    assert not (tmp_path / "out.idx").exists()


def test_the_number_of_threads_of_the_environment(build, monkeypatch, capsys):
    monkeypatch.setenv("RAYON_NUM_THREADS", "many")
    build(code=2)
    assert "RAYON_NUM_THREADS is 'many'" in capsys.readouterr().err


def test_the_help_has_sections_and_fits(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert run("--help") == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    headings = [one for one in shown.splitlines() if one.endswith(":") and one[0] != " "]
    assert headings[:2] == ["Arguments:", "Options:"]
    assert "Input:" in headings
    assert len(headings) == 9


def test_reading_ids_back_is_what_numpy_reads(build, tmp_path):
    whole = build(*COLS)
    flat = np.fromfile(tmp_path / "out.bin", "<u2").tolist()
    assert flat == [one for document in whole for one in document]
