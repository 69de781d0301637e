"""How fast mappings are that reshape rows: MB/s of `ingot convert` on one core, by shape.

    python benchmarks/harder_mappings.py [--mb 60] [--rounds 3] [--shape NAME]

Generated JSONL with the texts of `convert_speed.py`: paragraphs with questions (a record each),
turns as rows (a record for each group of rows), transcripts that are split at their speakers,
options that get letters and one of which is picked, and roles that are mapped with conditions.
The peer is a loop over the lines that parses each with orjson and keeps nothing.
"""

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
from convert_speed import parse_only, sentences
from measuring import ONE_CORE, Row, add_options, keep_rows, timed

Rows = Iterator[dict[str, object]]


def explode_rows(source: random.Random) -> Rows:
    """Articles with paragraphs, each with questions, as in SQuAD."""
    while True:
        paragraphs = [
            {
                "context": sentences(source, 5),
                "qas": [
                    {"question": sentences(source, 1), "answers": [{"text": sentences(source, 1)}]}
                    for _ in range(source.randint(1, 6))
                ],
            }
            for _ in range(source.randint(1, 4))
        ]
        yield {"title": sentences(source, 1), "paragraphs": paragraphs}


def group_rows(source: random.Random) -> Rows:
    """A turn a row, the turns of a thread one after the other."""
    thread = 0
    while True:
        for turn in range(source.randint(1, 4) * 2):
            yield {
                "thread": f"t{thread:08d}",
                "turn": turn,
                "by": ("user", "assistant")[turn % 2],
                "text": sentences(source, source.randint(1, 8)),
            }
        thread += 1


def transcript_rows(source: random.Random) -> Rows:
    """A conversation as one text, as in HH-RLHF."""
    while True:
        turns = []
        for _ in range(source.randint(1, 4)):
            turns.append("\n\nHuman: " + sentences(source, 2).strip())
            turns.append("\n\nAssistant: " + sentences(source, 5).strip())
        yield {"chosen": "".join(turns)}


def option_rows(source: random.Random) -> Rows:
    """Questions with four options."""
    while True:
        options = [sentences(source, 1).strip() for _ in range(4)]
        yield {
            "question": sentences(source, 2),
            "options": options,
            "answer": source.choice("ABCD"),
        }


def role_rows(source: random.Random) -> Rows:
    """Threads with names of speakers, and events that nobody said."""
    while True:
        events = [{"kind": "join", "who": "bot", "body": None}]
        for _ in range(source.randint(1, 6)):
            events.append({"kind": "say", "who": "ann", "body": sentences(source, 2)})
            events.append({"kind": "say", "who": "bot", "body": sentences(source, 6)})
        yield {"id": source.getrandbits(40), "events": events}


SHAPES: dict[str, tuple[Callable[[random.Random], Rows], dict[str, object]]] = {
    "explode": (
        explode_rows,
        {
            "each": "paragraphs[*].qas[*]",
            "messages": [
                {"role": "user", "content": ["^.context", "question"]},
                {"role": "assistant", "content": "answers[0].text"},
            ],
        },
    ),
    "group": (
        group_rows,
        {
            "group": {"by": ["thread"], "sort": "turn"},
            "messages": [{"each": "[*]", "role": {"path": "by"}, "content": "text"}],
        },
    ),
    "split": (
        transcript_rows,
        {
            "messages": [
                {
                    "role": {"split": {"\n\nHuman:": "user", "\n\nAssistant:": "assistant"}},
                    "content": "chosen",
                }
            ]
        },
    ),
    "options": (
        option_rows,
        {
            "messages": [
                {"role": "user", "content": ["question", {"path": "options[*]", "label": "A. "}]},
                {"role": "assistant", "content": {"path": "options[*]", "pick": "answer"}},
            ]
        },
    ),
    "roles": (
        role_rows,
        {
            "messages": [
                {
                    "each": "events[*]",
                    "where": [{"path": "kind", "in": ["say"]}],
                    "role": {"path": "who", "map": {"bot": "assistant", "*": "user"}},
                    "content": "body",
                }
            ],
            "meta": {"original_id": "id"},
        },
    ),
}


def measure(shape: str, size: int, rounds: int, work: Path) -> Row:
    """Both ways over one generated file in turn; the medians."""
    make, mapping = SHAPES[shape]
    source, stated = work / f"{shape}.jsonl", work / f"{shape}.mapping.json"
    rows = make(random.Random(shape))
    with source.open("wb") as out:
        while out.tell() < size:
            out.write(orjson.dumps(next(rows)) + b"\n")
    stated.write_text(json.dumps({"version": 2, **mapping}), encoding="utf-8")
    convert = [sys.executable, "-m", "ingot", "convert", str(stated), str(source)]
    parse = [sys.executable, __file__, "--parse", str(source)]
    ours, peers, peak = [], [], 0.0
    for number in range(rounds):
        out = ["--out", str(work / f"{shape}.{number}"), "--workers", "1"]
        run = timed([*convert, *out], cores=ONE_CORE)
        ours.append(run.seconds)
        peak = max(peak, run.memory)
        peers.append(timed(parse, cores=ONE_CORE).seconds)
    megabytes = source.stat().st_size / 1e6
    return Row(
        job=f"raw JSONL -> Parquet: {shape}",
        data=f"{megabytes:,.0f} MB, one core",
        unit="MB/s",
        ours=megabytes / sorted(ours)[rounds // 2],
        peers={"parse": megabytes / sorted(peers)[rounds // 2]},
        wanted="30 MB/s",
        peak_mb=peak,
    )


def main() -> None:
    """Measure every shape."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add_options(parser)
    parser.add_argument("--mb", type=int, help="size of each file: 60, or 6 with --quick")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shape", choices=list(SHAPES), action="append", help="default: all")
    parser.add_argument("--parse", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.parse:
        parse_only(args.parse, args.parse)
        return
    size = (args.mb or (6 if args.quick else 60)) * 1_000_000
    with tempfile.TemporaryDirectory(prefix="harder-mappings-") as work:
        for shape in args.shape or SHAPES:
            row = measure(shape, size, args.rounds, Path(work))
            print(f"{shape}: {row.ours:.1f} MB/s, {row.peak_mb:.0f} MB")
            keep_rows([row], args.keep_rows)


if __name__ == "__main__":
    main()
