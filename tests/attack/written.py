"""Damaged files of the formats that ingot writes and reads back, and of those it is told things by.

Streams of Monolith are made and held against protobuf's objects by `test_fuzz` beside their reader;
the others are read by the commands that read them, one of them a case.
"""

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ingot.converters.errors import IngotError
from tests.attack.kinds import Case, Kind, check_named, hold_result, run_ingot, sound_case
from tests.attack.mutations import mutate_bytes, mutate_inside, mutate_json, mutate_rows
from tests.attack.raw_data import COUNT, ROWS, lines, sentence
from tests.conftest import SURE

EXAMPLES = Path(__file__).parents[2] / "examples"
TOKENIZER = EXAMPLES / "tokenizer/tokenizer.json"
CHAT = {"version": 2, "messages": [{"role": "user", "content": "question"}]}
CHAT["messages"] += [{"role": "assistant", "content": "answer"}]  # type: ignore[operator]

Command = Callable[[Path], list[str | Path]]


def _made(folder: Path, *words: str | Path) -> None:
    code, said = run_ingot(sound_case(folder), *words)
    assert code in (0, 3), (words, said)


def _hold_records(folder: Path) -> None:
    if (folder / "out/records").is_dir():
        hold_result(folder / "out")


def _hold_clicks(folder: Path) -> None:
    """Every line of raw clicks is a row or a reject."""
    manifest = json.loads((folder / "c/manifest.json").read_bytes())
    rows, rejects = manifest["rows"], sum(manifest["rejects"].values())
    if manifest["decision"] == "ctr":
        assert rows.pop("read") == sum(rows.values()), rows
        assert rows["rejected"] == rejects
        return
    texts = [path.read_bytes() for path in (folder / "raw").iterdir()]
    lines = sum(len(text.removesuffix(b"\n").split(b"\n")) for text in texts if text)
    assert rows + rejects == lines, (rows, rejects, lines)


def check_commands(
    case: Case,
    *,
    commands: list[Command],
    hold: Callable[[Path], None] = _hold_records,
) -> str:
    """Run one command over the folder, all of them where it is sound."""
    chosen = [case.dice.choice(commands)] if case.name else commands
    codes = [run_ingot(case, *command(case.folder))[0] for command in chosen]
    if not any(codes):
        hold(case.folder)
    left = [path.name for path in case.folder.iterdir() if path.name.startswith(".")]
    assert not [name for name in left if ".ingot-stage" in name and codes[-1] == 0], left
    return "whole" if not any(codes) else "error"


def _make_token_input(folder: Path) -> None:
    (folder / "raw").mkdir()
    table = pa.table({"text": [sentence(number) for number in range(COUNT)]})
    pq.write_table(table, folder / "raw/a.parquet")


def _make_tokens(folder: Path) -> None:
    _make_token_input(folder)
    _made(folder, *_build(folder))


def _build(folder: Path) -> list[str | Path]:
    words: list[str | Path] = ["tokens", "build", "--input-dir", folder / "raw"]
    words += ["--output-prefix", folder / "x", "--tokenizer", TOKENIZER]
    return [*words, "--no-progress", "--workers", "1"]


TOKEN_COMMANDS: list[Command] = [
    lambda folder: ["tokens", "inspect", folder / "x", "--json"],
    lambda folder: ["tokens", "inspect", folder / "x", "--tokenizer", TOKENIZER],
    lambda folder: ["tokens", "merge", folder / "x", "--output-prefix", folder / "y"],
    lambda folder: [
        *("tokens", "verify", folder / "x", "--source", folder / "raw"),
        *("--tokenizer", TOKENIZER, "--samples", "5"),
    ],
]


def check_tokens(case: Case) -> str:
    """As commands; what is merged without an error is the bytes that were there."""
    end = check_commands(case, commands=TOKEN_COMMANDS)
    merged, own = case.folder / "y.bin", case.folder / "x.bin"
    if merged.exists() and case.name.endswith(".bin"):
        assert merged.read_bytes() == own.read_bytes()
    return end


def _make_tokenizer(folder: Path) -> None:
    shutil.copy(TOKENIZER, folder / "tokenizer.json")
    (folder / "s.jsonl").write_bytes(lines(ROWS[:5]))
    (folder / "m.json").write_text(json.dumps(CHAT))


def _make_criteo(folder: Path) -> None:
    _make_criteo_raw(folder)
    _made(folder, *_preprocess(folder))


def _make_criteo_raw(folder: Path) -> None:
    (folder / "raw").mkdir()
    rows = (EXAMPLES / "criteo/day_2").read_bytes().splitlines(keepends=True)
    for day in range(2):
        (folder / f"raw/day_{day}").write_bytes(b"".join(rows[60 * day : 60 * day + 60]))


def _preprocess(folder: Path) -> list[str | Path]:
    words: list[str | Path] = ["criteo", "preprocess", "--input-dir", folder / "raw"]
    return [*words, "--out", folder / "c", "--threads", "1", "--overwrite"]


def check_criteo_batches(case: Case) -> str:
    """Batches for training, as the loader gives them."""
    from ingot.converters.recsys.criteo import CriteoDataset

    try:
        batches = CriteoDataset(case.folder / "c", batch_size=16)
        rows = [(len(dense), len(labels)) for dense, _, labels in batches]
    except IngotError as error:
        check_named(error, case)
        return "error"
    assert rows
    assert all(dense == labels for dense, labels in rows)
    return "whole"


def _make_ctr(folder: Path) -> None:
    _make_ctr_raw(folder)
    _made(folder, *_build_ctr(folder))


def _make_ctr_raw(folder: Path) -> None:
    rows = (EXAMPLES / "ctr/impressions.csv").read_text().splitlines()[:60]
    (folder / "t.csv").write_text("\n".join(rows) + "\n")
    shutil.copy(EXAMPLES / "ctr/impressions.yaml", folder / "f.yaml")


def _build_ctr(folder: Path) -> list[str | Path]:
    words: list[str | Path] = ["ctr", "build", "--table", folder / "t.csv", "--overwrite"]
    return [*words, "--featuremap", folder / "f.yaml", "--out", folder / "c"]


def _make_ctr_cache(folder: Path) -> None:
    _make_ctr(folder)
    assert check_ctr_batches(sound_case(folder)) == "whole"


def check_ctr_batches(case: Case) -> str:
    """Batches for training, by way of the cache: a damaged one is made anew."""
    from ingot.converters.recsys.ctr import build_dataloader

    try:
        loader = build_dataloader(case.folder / "c/train", 100, cache=case.folder / "cache")
        assert sum(len(batch["labels"]["row_id"]) for batch in loader) == loader.rows
    except IngotError as error:
        check_named(error, case)
        return "error"
    return "whole"


def _make_result(folder: Path) -> None:
    _make_mapping(folder)
    _made(folder, *_convert(folder))


def _make_mapping(folder: Path) -> None:
    (folder / "s.jsonl").write_bytes(lines(ROWS))
    (folder / "m.json").write_text(json.dumps(CHAT, indent=1))


def _convert(folder: Path) -> list[str | Path]:
    words: list[str | Path] = ["convert", folder / "m.json", folder / "s.jsonl"]
    return [*words, "--out", folder / "out", "--overwrite", "--workers", "1"]


def _run(folder: Path) -> list[str | Path]:
    return ["run", folder / "s.jsonl", "--out", folder / "out", *SURE, "--overwrite"]


def _make_state(folder: Path) -> None:
    (folder / "s.jsonl").write_bytes(lines(ROWS))
    _made(folder, "run", folder / "s.jsonl", "--out", folder / "out")
    for path in folder.glob("out*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _make_pinned(folder: Path) -> None:
    (folder / "s.jsonl").write_bytes(lines(ROWS))
    _made(folder, "map", folder / "s.jsonl", "-o", folder / "m.json", "--pin-sample")


def _make_card(folder: Path) -> None:
    folder = folder / "set"
    folder.mkdir()
    (folder / "s.jsonl").write_bytes(lines(ROWS))
    head = "license: mit\nlanguage: [en]\ndataset_info:\n  features:\n  - name: question"
    (folder / "README.md").write_text(f"---\n{head}\n    dtype: string\n---\n# A set\n\nText.\n")
    features = {"question": {"dtype": "string"}, "tags": [{"dtype": "string"}]}
    infos = {"default": {"features": features, "license": "x"}}
    (folder / "dataset_infos.json").write_text(json.dumps(infos))
    record = {"field": [{"name": "question", "dataType": "sc:Text"}]}
    croissant = {"@type": "Dataset", "name": "x", "recordSet": [record]}
    (folder / "croissant.json").write_text(json.dumps(croissant))


def _make_lake(folder: Path) -> None:
    for name in ("one", "two"):
        (folder / "lake" / name).mkdir(parents=True)
        (folder / "lake" / name / "s.jsonl").write_bytes(lines(ROWS))
    (folder / "root").write_text(str(folder / "lake"))  # a lake's folder is for one root
    _made(folder, *_lake(folder))


def _lake(folder: Path) -> list[str | Path]:
    root = (folder / "root").read_text()
    words: list[str | Path] = ["lake", "run", root, "--out", folder / "l", *SURE]
    return [*words, "--jobs", "1", "--dedup", "exact", "--mapper", "rules"]


def _make_rows(folder: Path) -> None:
    (folder / "s.jsonl").write_bytes(lines(ROWS))


def check_jobs(case: Case) -> str:
    """A data set of odd rows through all commands: proposed, checked, converted."""
    source, mapping, out = (case.folder / name for name in ("s.jsonl", "m.json", "out"))
    code, _ = run_ingot(case, "map", source, "-o", mapping, "--explain")
    run_ingot(case, "run", source, "--out", out, *SURE)
    if code == 0 and mapping.exists():
        run_ingot(case, "check", mapping, source)
        run_ingot(case, "convert", mapping, source, "--out", case.folder / "other")
    results = [path for path in (out, case.folder / "other") if (path / "manifest.json").exists()]
    for path in results:
        hold_result(path)
    return "counted" if results else "error"


def check_monolith(case: Case, *, check: str) -> str:
    """A damaged stream held against protobuf's objects to the last byte."""
    from tests.converters.recsys.monolith import test_fuzz

    end = getattr(test_fuzz, check)(case.dice.randrange(1 << 40))
    return {"rows": "whole", "no rows": "counted", "given up": "counted"}.get(end, "error")


def _make_feed(folder: Path) -> None:
    shutil.copy(EXAMPLES / "monolith/feed.pb", folder / "f.pb")
    pq.write_table(pq.read_table(EXAMPLES / "monolith/clicks.parquet")[:40], folder / "t.parquet")
    shutil.copy(EXAMPLES / "monolith/clicks.yaml", folder / "t.yaml")


def _convert_feed(target: str, *more: str) -> Command:
    def words(folder: Path) -> list[str | Path]:
        out = folder / ("o.parquet" if target == "parquet" else "o.pb")
        options = ["--from", "examplebatch", "--to", target, "--skip-bad"]
        return ["monolith", "convert", folder / "f.pb", out, *options, *more]

    return words


FEED_COMMANDS: list[Command] = [
    lambda folder: ["monolith", "stats", folder / "f.pb", "--json"],
    lambda folder: ["monolith", "cat", folder / "f.pb", "--limit", "3"],
    _convert_feed("example"),
    _convert_feed("parquet"),
    lambda folder: [
        *("monolith", "convert", folder / "t.parquet", folder / "p.pb", "--from", "parquet"),
        *("--to", "example", "--table", folder / "t.yaml"),
    ],
]
STATE_COMMANDS: list[Command] = [_run, lambda folder: [*_run(folder), "--records", "jsonl"]]


RESULT_COMMANDS: list[Command] = [
    lambda folder: ["export", folder / "out", "--to", "trl", "--out", folder / "e"],
    _convert,
]


def _kind(
    name: str,
    make: Callable[[Path], None],
    damaged: tuple[str, ...],
    *commands: Command,
    **more: Any,
) -> Kind:
    hold = _hold_clicks if commands in ((_preprocess,), (_build_ctr,)) else _hold_records
    check = more.pop("check", partial(check_commands, commands=list(commands), hold=hold))
    all_ways = (mutate_bytes, mutate_inside, mutate_json)
    more = {"mutations": all_ways, **more}
    return Kind(name=name, make=make, check=check, damaged=damaged, **more)


def written_kinds() -> list[Kind]:
    """A kind for every format that is read back, and for what a run is told by files."""
    checks = {"_check": 60, "_check_compressed": 20, "_check_converted": 10}
    return [
        _kind("tokens", _make_tokens, ("x.bin", "x.idx", "x.meta.json"), check=check_tokens),
        _kind("token_input", _make_token_input, ("raw/*",), _build, weight=1),
        _kind(
            "tokenizer",
            _make_tokenizer,
            ("tokenizer.json",),
            lambda folder: [*_convert(folder), "--tokenizer", folder / "tokenizer.json"],
            weight=1,
        ),
        _kind("criteo_raw", _make_criteo_raw, ("raw/*",), _preprocess, weight=1),
        _kind(
            "criteo",
            _make_criteo,
            ("c/*", "c/vocab/*"),
            lambda folder: ["criteo", "inspect", folder / "c", "--json"],
            weight=2,
        ),
        _kind("criteo_loader", _make_criteo, ("c/*.npy",), check=check_criteo_batches, weight=2),
        _kind("ctr_table", _make_ctr_raw, ("t.csv",), _build_ctr, weight=1),
        _kind("featuremap", _make_ctr_raw, ("f.yaml",), _build_ctr, weight=1),
        _kind(
            "ctr",
            _make_ctr,
            ("c/*", "c/*/*"),
            lambda folder: ["ctr", "validate", folder / "c"],
            lambda folder: ["ctr", "stats", folder / "c", "--html", folder / "s.html"],
            weight=2,
        ),
        _kind(
            "ctr_loader",
            _make_ctr_cache,
            ("c/train/*", "cache/*"),
            check=check_ctr_batches,
            weight=2,
        ),
        _kind("monolith", _make_feed, ("f.pb", "t.parquet", "t.yaml"), *FEED_COMMANDS, weight=2),
        *(
            _kind(
                f"monolith{name}",
                _make_nothing,
                (),
                check=partial(check_monolith, check=name),
                sound="",
                weight=weight,
            )
            for name, weight in checks.items()
        ),
        _kind("mapping", _make_mapping, ("m.json",), _convert, _check_mapping, weight=2),
        _kind(
            "result",
            _make_result,
            ("out/*", "out/records/*"),
            check=partial(check_commands, commands=RESULT_COMMANDS, hold=lambda _: None),
            weight=2,
        ),
        _kind("state", _make_state, ("home/*",), *STATE_COMMANDS, weight=1),
        _kind("pinned", _make_pinned, ("m.json", "m.sample/*", "m.sample*"), _check_pinned),
        _kind("card", _make_card, ("set/*",), _dry_lake, weight=1),
        _kind("lake", _make_lake, ("l/*", "l/.ingot-lake/*", "l/mappings/*"), _lake, weight=1),
        _kind(
            "jobs",
            _make_rows,
            ("s.jsonl",),
            check=check_jobs,
            mutations=(mutate_rows,),
            sound="counted",
        ),
    ]


def _make_nothing(_: Path) -> None:
    """The check makes its own."""


def _check_mapping(folder: Path) -> list[str | Path]:
    return ["check", folder / "m.json", folder / "s.jsonl"]


def _check_pinned(folder: Path) -> list[str | Path]:
    return ["check", folder / "m.json"]


def _dry_lake(folder: Path) -> list[str | Path]:
    return ["lake", "run", folder / "set", "--out", folder / "l", "--dry-run", "--mapper", "rules"]
