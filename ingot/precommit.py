"""`python -m ingot.precommit FILE...`: the hook of pre-commit, which hands over changed files.

Each mapping that a changed file belongs to is checked once: the file itself, the mapping of golden
rows, the mapping of a pinned sample. What cannot be tried, since nothing lies beside it, has to be
a mapping at least.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ingot.cli.console import complain
from ingot.converters.errors import IngotError

_GOLDEN, _SAMPLE = ".golden.jsonl", ".sample"


def main(files: Sequence[str]) -> int:
    """Check the mappings of some files.

    Returns:
        The exit code: 0 if nothing is wrong with any, else 1.
    """
    mappings = dict.fromkeys(map(mapping_of, map(Path, files)))
    results = [_passes(one) for one in mappings if one is not None and one.is_file()]
    return 0 if all(results) else 1


def mapping_of(file: Path) -> Path | None:
    """The mapping that a file is, or belongs to; None if it is neither."""
    for folder in file.parents:
        if folder.suffix == _SAMPLE:
            return folder.with_suffix(".json")
    if file.name.endswith(_GOLDEN):
        return file.with_name(f"{file.name.removesuffix(_GOLDEN)}.json")
    return file if file.suffix == ".json" else None


def _passes(mapping: Path) -> bool:
    golden = ["--golden"] * mapping.with_suffix(_GOLDEN).is_file()
    if not golden and not mapping.with_suffix(_SAMPLE).is_dir():
        return _is_mapping(mapping)
    command = [sys.executable, "-P", "-m", "ingot", "check", "--quiet", *golden, "--", str(mapping)]
    return subprocess.run(command, check=False).returncode == 0


def _is_mapping(mapping: Path) -> bool:
    from ingot.converters.mapping import load

    try:
        load(mapping)
    except IngotError as error:
        complain(str(error))
        return False
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
