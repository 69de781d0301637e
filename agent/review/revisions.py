"""The two sides of a review: files of a commit, of the working tree, or two files by themselves.

Only what a review reads is listed: JSON files, golden rows and pinned samples. Links are not
followed, submodules not entered.
"""

import hashlib
import os
import stat
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from ingot.agent.pinning.samples import pinned_folder
from ingot.agent.review.golden import golden_file
from ingot.agent.review.repository import WORKING_TREE, Repository
from ingot.converters.readers.faults import reading

MOST_MAPPING = 1 << 20  # bytes of a file that may be a mapping
MOST_SAMPLE = 64 << 20  # bytes of a pinned sample or of golden rows

# Paths -> bytes of those that are there and no larger than so many bytes.
Contents = Callable[[Collection[str], int], dict[str, bytes]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """One side of a review.

    Attributes:
        name: the revision or the file, as people call it.
        files: path -> what names its content, for regular files.
        others: path -> what it is instead (`a symbolic link`, `a submodule`).
        contents: reads some of the files.
        folder: what stands before its paths where people read them, with a slash.
        commit: whose files they are, None = of no commit.
        tip: the commit that `name` stands for, where another one is compared: at which the other
            side left it. None = of no commit.
    """

    name: str
    files: Mapping[str, str]
    others: Mapping[str, str]
    contents: Contents
    folder: str = ""
    commit: str | None = None
    tip: str | None = None

    def shown(self, path: str) -> str:
        """A path as people read it."""
        return f"{self.folder}{path}"


def reviewed(path: str) -> bool:
    """Whether a review may have to read a file of this path."""
    return path.endswith((".json", ".golden.jsonl", ".sample")) or ".sample/" in path


def of_commit(repository: Repository, commit: str, name: str) -> Side:
    """The files of a commit. Raises RevisionError."""
    tree = {path: one for path, one in repository.tree(commit).items() if reviewed(path)}
    files = {path: one.blob for path, one in tree.items() if one.mode.startswith("100")}
    others = {path: _kind(one.mode) for path, one in tree.items() if path not in files}

    def contents(paths: Collection[str], most: int) -> dict[str, bytes]:
        found = repository.read((files[path] for path in paths), most=most)
        return {path: found[files[path]] for path in paths if files[path] in found}

    return Side(name=name, files=files, others=others, contents=contents, commit=commit, tip=commit)


def _kind(mode: str) -> str:
    return {"120000": "a symbolic link", "160000": "a submodule"}.get(mode, "no regular file")


def of_working_tree(repository: Repository) -> Side:
    """The files as they lie in the working tree, those that git ignores left out.

    Raises:
        RevisionError: they cannot be listed.
        SourceError: one of them cannot be read.
    """
    names = [name for name in repository.names() if reviewed(name)]
    return _on_disk(repository.root, names, WORKING_TREE, repository.hashing())


def of_file(path: Path) -> Side:
    """One mapping file with the golden rows and the pinned sample beside it."""
    beside = [path.name, golden_file(path).name]
    if pinned_folder(path).is_symlink():
        beside.append(pinned_folder(path).name)
    for root, folders, files in os.walk(pinned_folder(path)):
        names = [*files, *(one for one in folders if Path(root, one).is_symlink())]
        beside += [Path(root, name).relative_to(path.parent).as_posix() for name in names]
    side = _on_disk(path.parent, beside, str(path), "sha1", followed=path.name)
    return replace(side, folder=str(path).removesuffix(path.name))


def _on_disk(
    root: Path, names: Iterable[str], name: str, hashing: str, *, followed: str = ""
) -> Side:
    """Files of this machine; a link is followed only where the user named it.

    Raises:
        SourceError: one of them cannot be read.
    """
    files, others = {}, {}
    for path in names:
        kind = "" if path == followed else _odd(root, path)
        if kind is None:
            continue
        if kind:
            others[path] = kind
        elif (root / path).is_file():
            files[path] = _object_id(root / path, hashing)

    def contents(paths: Collection[str], most: int) -> dict[str, bytes]:
        found = {}
        for path in paths:
            with reading(str(root / path)):
                if (root / path).stat().st_size <= most:
                    found[path] = (root / path).read_bytes()
        return found

    return Side(name=name, files=files, others=others, contents=contents)


def _odd(root: Path, path: str) -> str | None:
    """What a path is instead of a regular file, "" for one, None where there is nothing.

    What lies behind a link to a folder is not there, as for git.
    """
    parents = [root.joinpath(*PurePosixPath(path).parts[:n]) for n in range(1, path.count("/") + 1)]
    try:
        if any(parent.is_symlink() for parent in parents):
            return None
        mode = (root / path).lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISREG(mode):
        return ""
    return "a symbolic link" if stat.S_ISLNK(mode) else "no regular file"


def _object_id(path: Path, hashing: str) -> str:
    """What git names the file's content; of one that no review reads only its size."""
    size = path.stat().st_size
    if size > (MOST_MAPPING if path.suffix == ".json" else MOST_SAMPLE):
        return f"{size} bytes"
    with reading(str(path)):
        data = path.read_bytes()
    digest = hashlib.new(hashing, b"blob %d\0" % len(data), usedforsecurity=False)
    digest.update(data)
    return digest.hexdigest()


def laid_out(side: Side, mapping: str, folder: Path) -> Path:
    """Write the pinned sample and the golden rows of a mapping of a side into an empty folder.

    Returns:
        where the mapping would lie there: `pinned_folder` and `golden_file` of it are right.
    """
    place = folder / "mapping.json"
    names = {golden_file(Path(mapping)).as_posix(): golden_file(place)}
    beside = f"{pinned_folder(Path(mapping)).as_posix()}/"
    for path in side.files:
        inner = PurePosixPath(path.removeprefix(beside))
        if path.startswith(beside) and ".." not in inner.parts:
            names[path] = pinned_folder(place) / inner
    wanted = [path for path in names if path in side.files]
    for path, data in side.contents(wanted, MOST_SAMPLE).items():
        names[path].parent.mkdir(parents=True, exist_ok=True)
        names[path].write_bytes(data)
    return place
