"""`ingot warm`: compile all kernels before the first conversion needs them."""

import random
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from ingot.cli import command as o
from ingot.cli.command import command_options
from ingot.cli.console import print_json, print_line

_CTR = (
    "ctr build --table {0}/table.csv --featuremap {0}/table.yaml --out {0}/ctr",
    "ctr build --skeleton {0}/skeleton.csv --common {0}/common.csv "
    "--featuremap {0}/aliccp.yaml --out {0}/aliccp",
)
_CRITEO = (
    "criteo preprocess --input-dir {0}/criteo --out {0}/days",
    "criteo preprocess --input-dir {0}/criteo --vocab {0}/days --unseen 1 --out {0}/again",
)
_MONOLITH = (
    "monolith convert {0}/examples {0}/batches --from example --to examplebatch "
    "--negative-rate 0.5",
    "monolith convert {0}/batches {0}/rows --from examplebatch --to example --require-lineid "
    "--skip-bad",
    "monolith convert {0}/examples {0}/copy --from example --to example",
    "monolith convert {0}/examples {0}/table.parquet --from example --to parquet",
    "monolith convert {0}/table.parquet {0}/back --from parquet --to example",
    "monolith stats {0}/examples",
)


@command_options
def warm(as_json: o.Json = False) -> None:
    """Compile the kernels of CTR, Criteo and Monolith and cache them; needs the extra `recsys`.

    The cache is the folder NUMBA_CACHE_DIR, or lies inside the package where that is writable, or
    in the user's cache. All users may read it. In an image that runs on other CPUs than the one it
    is built on, set NUMBA_CPU_NAME=generic for this command and for all later ones.
    """
    from ingot.converters.errors import ConversionError
    from ingot.converters.kernels.compile import cache_folders, cached_files, open_cache
    from ingot.converters.recsys.ctr.loader.collation import load_kernels

    with TemporaryDirectory() as folder:
        _write_data(Path(folder))
        for command in (*_CTR, *_CRITEO, *_MONOLITH):
            _run(command.format(folder).split())
    with suppress(ConversionError):  # without torch there are no batches
        load_kernels()
    open_cache()
    folders = sorted({str(path.parent) for path in cached_files()})
    if as_json:
        print_json({"folders": folders, "files": len(list(cached_files()))})
    else:
        folder_names = ", ".join(folders or map(str, cache_folders()[:1]))
        print_line(f"compiled kernels: {len(list(cached_files()))} files in {folder_names}")


def _run(words: list[str]) -> None:
    """Run another command without its output; what it raises is a fault of this installation."""
    from typer.main import get_command

    from ingot.cli.app import app

    with redirect_stdout(StringIO()), redirect_stderr(StringIO()), suppress(SystemExit):
        get_command(app).main(words, prog_name="ingot", standalone_mode=False)


def _write_data(folder: Path) -> None:
    """Write small data in which every kernel finds something to do."""
    for name, lines in _text_files():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines))
    _write_examples(folder / "examples")


def _text_files() -> Iterator[tuple[str, list[str]]]:
    chance = random.Random(0)
    for day in range(3):
        rows = (
            [str(row % 2), *(str(chance.randrange(99)) for _ in range(13))]
            + [f"{chance.randrange(20):08x}" for _ in range(26)]
            for row in range(40)
        )
        yield f"criteo/day_{day}", ["\t".join(row) for row in rows]
    features = "[{name: f0_a, field: '1', encoding: hash, hash_bucket: 8%s}, "
    features += "{name: f%s_b, field: '2', encoding: vocab, vocab_num_tokens: 9, max_len: 2%s}, "
    features += "{name: f%s_c, field: '3', encoding: hybrid, vocab_num_tokens: 2, hash_bucket: 4, "
    features += "max_len: 3, use_value: true%s}, "
    features += "{name: f%s_d, field: '4', encoding: vocab, vocab_num_tokens: 9%s}]"
    table = "{entity_id: user, y_ctr: click, y_cvr: buy, sample_id: id, token_separator: '|', "
    table += "value_separator: ':'}"
    yield (
        "table.yaml",
        ["train_ratio: 0.5", f"table: {table}", f"features: {features % ('', *(0, '') * 3)}"],
    )
    yield (
        "table.csv",
        ["id,user,click,buy,1,2,3,4"]
        + [
            f"{n},u{n % 9},{n % 2},0,a{n},b{n % 5}|c{n % 3},d{n}:2|e:1.5,f{n % 4}"
            for n in range(4_000)
        ],
    )
    sources = ", src: 0", *(1, ", src: 1") * 3
    yield "aliccp.yaml", ["train_ratio: 0.5", f"features: {features % sources}"]
    first_field, *other_fields = (field + "\x02{0}\x031.0" for field in "1234")
    impressions = (f"{n},{n % 2},0,u{n % 9},1,{first_field.format(n)}" for n in range(40))
    yield "skeleton.csv", list(impressions)
    yield "common.csv", [f"u{n},3,{chr(1).join(other_fields).format(n)}" for n in range(9)]


def _write_examples(path: Path) -> None:
    """Write Examples with features of every kind, alike and unlike, in a stream."""
    from ingot.converters.recsys.monolith import write_examples
    from ingot.converters.recsys.monolith.contract import FEATURE_KINDS, example_pb2

    examples = []
    for row in range(20):
        example = example_pb2.Example(label=[row % 2], instance_weight=1 + row, data_source_key=256)
        line = example.line_id
        line.uid, line.req_time, line.sample_rate, line.req_id = row, row, 1.0, f"käse {row}"
        line.actions.append(row)
        line.MergeFromString(b"\xe0\x25\x01")  # an unknown field
        for number, kind in FEATURE_KINDS.items():
            feature = example.named_feature.add(name=kind, id=number, sorted_id=row % 2).feature
            value = b"value" if kind.startswith("bytes") else row + 300
            if kind.endswith("_list"):
                getattr(feature, kind).value.extend([value] * (row % 3))
            elif kind.endswith("_lists"):
                getattr(feature, kind).list.add().value.extend([value, value])
            elif kind.endswith("_value"):
                setattr(feature, kind, value)
        example.named_raw_feature.add(name="raw").raw_feature.MergeFromString(b"")
        examples.append(example)
    write_examples(path, examples, sort_ids=[f"{row}".encode() for row in range(20)])
