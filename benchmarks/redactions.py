"""Count what redaction changes in the samples of data sets, by placeholder.

    python benchmarks/redactions.py FOLDER... [--show]

A data set is a folder that holds `raw/`, below a FOLDER. With `--show` every change is printed, so
that a person can say which of them are false.
"""

import argparse
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ingot.agent.privacy import Redactor
from ingot.agent.privacy.redaction import PLACED
from ingot.converters.errors import IngotError
from ingot.converters.rows import Json
from ingot.converters.sources import Source, open_source
from ingot.converters.sources.sample import draw_sample

AROUND = 60  # characters


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folders", nargs="+", type=Path)
    options.add_argument("--show", action="store_true")
    given = options.parse_args()
    kinds: Counter[str] = Counter()
    sets = changed_sets = values = changed = characters = 0
    for case in sorted({raw.parent for one in given.folders for raw in one.rglob("raw")}):
        rows = sampled_rows(case / "raw")
        sets += 1
        found = [*changes(rows)]
        values += sum(1 for row in rows for _ in scalars(row))
        characters += sum(len(str(one)) for row in rows for one in scalars(row))
        changed += len(found)
        changed_sets += bool(found)
        for old, new in found:
            kinds.update(re.sub(r" [a-z]+\]$", "]", one[0]) for one in PLACED.finditer(new))
            if given.show:
                print(f"{case.name}\t{around(old, new)}")
    print(f"{sets} data sets, {characters:,} characters in {values:,} values")
    print(f"{changed} values changed, in {changed_sets} data sets: {dict(kinds.most_common())}")


def sampled_rows(folder: Path) -> list[Json]:
    """Rows of all roots of a source; none where it cannot be read."""
    try:
        source = open_source(str(folder))
        return [row.value for one in readings(source) for row in draw_sample(one).rows]
    except IngotError:
        return []


def readings(source: Source) -> Iterator[Source]:
    """The source as it is read without a mapping, and by its best root."""
    yield source
    if source.roots and source.spec.root is None and source.roots[0].path != "$":
        yield source.with_spec(replace(source.spec, root=source.roots[0].path))


def changes(rows: list[Json]) -> Iterator[tuple[str, str]]:
    """Every value that the redactor changes, and what it becomes; the same pair once."""
    redactor = Redactor("redacted", rows)
    pairs = (
        pair
        for row in rows
        for pair in zip(scalars(row), scalars(redactor.value(row).json), strict=True)
    )
    yield from dict.fromkeys((str(old), str(new)) for old, new in pairs if old != new)


def scalars(value: Json) -> Iterator[Json]:
    """Texts and numbers, keys among them."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from scalars(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from scalars(inner)
    else:
        yield value


def around(old: str, new: str) -> str:
    """Where two texts begin to differ."""
    same = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), 0)
    begin = max(0, same - AROUND)
    return f"{old[begin : same + AROUND]!r}\t{new[begin : same + AROUND]!r}"


if __name__ == "__main__":
    main()
