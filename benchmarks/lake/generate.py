"""A lake of made-up data sets, with the truth about it.

    python benchmarks/lake/generate.py OUT [--size full|test|middle] [--seed 7]

OUT/lake is the lake: at full size over 2,000 files in over 300 data sets, over 25 of them broken.
OUT/truth.json says of every set which files it has, what it is, how many rows, and what is beside
it; OUT/records/KEY.jsonl holds what its records must say, as a text or as roles and contents;
OUT/mappings holds mappings that are approved beforehand, OUT/model.json what a model has to answer
to which question (`served.py` does). Rows are written from what they are to say; nothing of ingot
is used. The same size and seed give the same bytes.
"""

import argparse
import json
import os
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import broken
import special
from sets import LAYOUTS, Made, Maker, Plan
from shapes import SHAPES, TABLES
from words import LANGUAGES, Writer

_TEAMS: Final = (
    "news",
    "forum",
    "support",
    "wiki",
    "books",
    "law",
    "medicine",
    "radio",
    "school",
    "travel",
)
_PACKINGS: Final = ("", "", "gz", "", "zst", "", "bz2", "xz")


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large a lake is.

    Attributes:
        sets: with nothing special about them.
        files: in most of them, at most; every 20th has `many`.
        many: files of the largest.
        rows: in a file, at most.
        families, of_each: shapes that a model is asked about, and sets of each.
        names: sets with odd names.
        thin: of sets with an encoding, an archive or nothing to read every so-many-th is made.
        broken: kinds of broken sets.
    """

    sets: int
    files: int
    many: int
    rows: int
    families: int
    of_each: int
    names: int
    thin: int = 1
    broken: tuple[str, ...] = broken.KINDS


SIZES: Final = {
    "test": Size(
        sets=4,
        files=3,
        many=4,
        rows=14,
        families=2,
        of_each=2,
        names=3,
        thin=4,
        broken=tuple(broken.KINDS[::6]),
    ),
    "middle": Size(sets=40, files=4, many=12, rows=60, families=6, of_each=3, names=12),
    "full": Size(sets=230, files=10, many=60, rows=60, families=12, of_each=3, names=20),
}


def lake(size: Size, seed: int) -> Iterator[Made]:
    """The sets of a lake."""
    maker = Maker(Writer(random.Random(seed)))
    for number in range(size.sets):
        yield maker.make(_plan(maker, size, number))
    yield from list(special.encodings(maker))[:: size.thin]
    yield from list(special.archives(maker))[:: size.thin]
    yield from special.texts(maker)
    yield from special.nested(maker)
    yield from special.repeats(maker)
    yield from special.configs(maker)
    yield from special.mixed(maker)
    yield from special.filtered(maker)
    yield from special.asked(maker, size.families, size.of_each)
    yield from special.names(maker, size.names)
    yield from special.others(maker)
    yield from list(special.irrelevant(maker))[:: size.thin]
    yield from broken.broken(maker.write, size.broken)


def _plan(maker: Maker, size: Size, number: int) -> Plan:
    """What the set of a number is like: shapes, formats and layouts meet each other in turn."""
    chance = maker.write.chance
    shape = list(SHAPES.values())[number % len(SHAPES)]
    form = shape.forms[number // len(SHAPES) % len(shape.forms)]
    files = size.many if number % 20 == 19 else chance.randint(1, size.files)
    rows = chance.randint(max(6, size.rows // 8), size.rows)
    layout = list(LAYOUTS)[number % len(LAYOUTS)] if files > 1 else "single"
    whole = form not in ("jsonl", *TABLES)
    total = rows * files
    return Plan(
        key=f"set-{number:03d}",
        place=f"{_TEAMS[number % len(_TEAMS)]}/{shape.name}-{number:03d}",
        shape=shape,
        form=form,
        layout=layout,
        language=LANGUAGES[number // 3 % len(LANGUAGES)],
        files=files,
        rows=rows,
        packing="" if whole and form not in ("list",) else _PACKINGS[number % len(_PACKINGS)],
        blanks=total // 25 if shape.blank and number % 2 else 0,
        cuts=total // 40 if form == "jsonl" and number % 4 == 2 else 0,
        within=total // 30 if number % 5 == 3 else 0,
        across=total // 10 if number % 3 == 0 else 0,
    )


def generate(out: Path, size: Size, seed: int = 7) -> dict[str, Any]:
    """Write a lake and its truth; the truth is given back."""
    sets = list(lake(size, seed))
    for made in sets:
        _write(out, made)
    _links(out / "lake")
    (out / "mappings").mkdir(exist_ok=True)
    truth = {
        "seed": seed,
        "sets": {made.key: _told(made) for made in sets},
        "files": sum(len(made.files) + len(made.beside) for made in sets),
        "broken": sum(made.kind == "broken" for made in sets),
    }
    (out / "truth.json").write_text(json.dumps(truth, indent=1) + "\n")
    (out / "model.json").write_text(json.dumps(special.replies(sets), indent=1) + "\n")
    return truth


def _write(out: Path, made: Made) -> None:
    for name, data in (made.files | made.beside).items():
        file = out / "lake" / made.place / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    if made.records is not None:
        records = out / "records" / f"{made.key}.jsonl"
        records.parent.mkdir(parents=True, exist_ok=True)
        records.write_text("".join(json.dumps(one) + "\n" for one in made.records))
    if made.mapping is not None:
        mapping = out / "mappings" / f"{made.place.replace('/', '--')}.json"
        mapping.parent.mkdir(parents=True, exist_ok=True)
        mapping.write_text(json.dumps(made.mapping, indent=2) + "\n")


def _links(root: Path) -> None:
    """What is no file: links in a circle, to nowhere and out of the lake, and a pipe."""
    folder = root / "inbox" / "links"
    folder.mkdir(parents=True, exist_ok=True)
    for name, target in (("up", ".."), ("self", "self"), ("nowhere", "gone.jsonl")):
        with suppress(FileExistsError):
            (folder / name).symlink_to(target)
    with suppress(FileExistsError):
        os.mkfifo(folder / "pipe.jsonl")


def _told(made: Made) -> dict[str, Any]:
    place = Path(made.place)
    return {
        "place": made.place,
        "files": sorted((place / name).as_posix() for name in made.files),
        "beside": sorted((place / name).as_posix() for name in made.beside),
        "kind": made.kind,
        "status": list(made.status),
        "rows": made.rows,
        "records": None if made.records is None else len(made.records),
        "filtered": made.filtered,
        "asks": made.asks,
        "notes": made.notes,
    }


def main() -> None:
    """The command."""
    parse = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parse.add_argument("out", type=Path)
    parse.add_argument("--size", choices=SIZES, default="full")
    parse.add_argument("--seed", type=int, default=7)
    given = parse.parse_args()
    truth = generate(given.out, SIZES[given.size], given.seed)
    print(f"{truth['files']} files, {len(truth['sets'])} sets, {truth['broken']} of them broken")


if __name__ == "__main__":
    main()
