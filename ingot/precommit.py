"""`python -m ingot.precommit FILE...`: the hook of pre-commit, which hands over changed files.

Each mapping that a changed file belongs to is checked once: the file itself, the mapping of golden
rows, the mapping of a pinned sample. What cannot be tried, since nothing lies beside it, has to be
a mapping at least. Golden rows and samples of a mapping that is not there are a mistake, and so are
links: what they lead to is none of the files that were changed.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ingot.cli.console import print_error
from ingot.converters.errors import ExitCode, IngotError

_GOLDEN, _SAMPLE = ".golden.jsonl", ".sample"
_OF_FILES = ("INGOT_CONFIG", "INGOT_PROFILE")  # a file of settings may be one of those changed


def main(files: Sequence[str]) -> int:
    """Check the mappings of some files."""
    changed: dict[Path, Path] = {}
    for file in map(Path, files):
        if (mapping := find_mapping(file)) is not None:
            changed.setdefault(mapping, file)
    results = [
        _passes(mapping) if os.path.lexists(mapping) else _needs_no_mapping(mapping, file)
        for mapping, file in changed.items()
    ]
    return ExitCode.DONE if all(results) else ExitCode.FAILED


def find_mapping(file: Path) -> Path | None:
    """Return the mapping that a file is, or belongs to; None if it is neither."""
    for folder in file.parents:
        if folder.suffix == _SAMPLE:
            return folder.with_suffix(".json")
    if file.name.endswith(_GOLDEN):
        return file.with_name(f"{file.name.removesuffix(_GOLDEN)}.json")
    return file if file.suffix == ".json" else None


def _needs_no_mapping(mapping: Path, file: Path) -> bool:
    """Whether a file needs no mapping: it is gone, or is none of the things beside one."""
    if file == mapping or not file.exists():
        return True
    print_error(f"{file}: there is no mapping {mapping} that it belongs to")
    return False


def _passes(mapping: Path) -> bool:
    for file in (mapping, mapping.with_suffix(_GOLDEN)):
        if file.is_symlink():
            print_error(f"{file}: is a link, which is not followed")
            return False
    golden = ["--golden"] * mapping.with_suffix(_GOLDEN).is_file()
    if not golden and not mapping.with_suffix(_SAMPLE).is_dir():
        return _is_mapping(mapping)
    command = [sys.executable, "-P", "-m", "ingot", "check", "--quiet", *golden, "--", str(mapping)]
    own = {name: value for name, value in os.environ.items() if name not in _OF_FILES}
    return subprocess.run(command, env=own, check=False).returncode == 0


def _is_mapping(mapping: Path) -> bool:
    from ingot.converters.mapping.bind import load_mapping

    try:
        load_mapping(mapping)
    except IngotError as error:
        print_error(str(error))
        return False
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
