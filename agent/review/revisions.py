"""The two sides of a review: files of a commit, of the working tree, or two single files.

Only what a review reads is listed: JSON files, golden rows and pinned samples, and links, which are
not followed. Submodules are not entered.
"""

import hashlib
import json
import os
import posixpath
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from ingot.agent.review.git_repository import WORKING_TREE, Repository
from ingot.agent.review.golden_rows import golden_file
from ingot.agent.review.pinning.pinned_sample import ABOUT, pinned_folder
from ingot.converters.errors import RevisionError, translate_read_errors
from ingot.converters.mapping import language
from ingot.converters.mapping.bind import MAX_BYTES
from ingot.converters.mapping.documents.writer import to_document
from ingot.converters.output.files import encode_json
from ingot.converters.sources.storage.places import storage_places
from ingot.converters.sources.tables.table_folders import list_tables

MOST_SAMPLE = 64 << 20  # bytes of a pinned sample or of golden rows
_LINK = "a symbolic link to "
_LONGEST_LINK = 4096  # bytes of where a link leads

# Paths -> bytes of those that are there and no larger than so many bytes.
Contents = Callable[[Collection[str], int], dict[str, bytes]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """One side of a review.

    Attributes:
        others: path -> what it is instead (`a symbolic link to PLACE`, `a submodule`).
        folder: what stands before its paths when they are shown, with a slash.
        commit: whose files they are, None = of no commit.
        tip: the commit of `name`; of a base, `commit` is where the other side left it.
    """

    name: str
    files: Mapping[str, str]
    others: Mapping[str, str]
    contents: Contents
    folder: str = ""
    commit: str | None = None
    tip: str | None = None

    def shown(self, path: str) -> str:
        """Return a path as people read it."""
        return f"{self.folder}{path}"

    def linked_place(self, path: str) -> str | None:
        """Return the path that a link leads to, None for what is no link."""
        _, mark, target = self.others.get(path, "").partition(_LINK)
        return posixpath.normpath(posixpath.join(posixpath.dirname(path), target)) if mark else None


def is_json(path: str) -> bool:
    """Check whether a file has the name of a JSON file."""
    return path.lower().endswith(".json")


def is_reviewed(path: str) -> bool:
    """Check whether a review may have to read a file of this path."""
    return is_json(path) or path.endswith((".golden.jsonl", ".sample")) or ".sample/" in path


def commit_side(repository: Repository, commit: str, name: str) -> Side:
    """List the files of a commit. Raises RevisionError."""
    tree = repository.tree(commit)
    regular = {path: one.blob for path, one in tree.items() if one.mode.startswith("100")}
    files = {path: blob for path, blob in regular.items() if is_reviewed(path)}
    links = {path: one.blob for path, one in tree.items() if one.mode == "120000"}
    leads = repository.read(links.values(), max_bytes=_LONGEST_LINK)
    irregular = {path: _LINK + os.fsdecode(leads.get(blob, b"?")) for path, blob in links.items()}
    irregular |= dict.fromkeys(tree.keys() - regular.keys() - links.keys(), "a submodule")

    def contents(paths: Collection[str], max_bytes: int) -> dict[str, bytes]:
        blobs = repository.read((files[path] for path in paths), max_bytes=max_bytes)
        return {path: blobs[files[path]] for path in paths if files[path] in blobs}

    return Side(
        name=name, files=files, others=irregular, contents=contents, commit=commit, tip=commit
    )


def working_tree_side(repository: Repository) -> Side:
    """List the files of the working tree, without those that git ignores."""
    root = repository.root
    names = [one for one in repository.names() if is_reviewed(one) or (root / one).is_symlink()]
    return _disk_side(root, names, WORKING_TREE, repository.hashing())


def require_inside(source: str, repository: Repository) -> None:
    """Refuse data of a repository that lie elsewhere: a link in it may lead anywhere.

    What is named outside of it, or behind a URL, is the word of the user.
    """
    path_text, root = source.removeprefix("file://"), repository.root.resolve()
    path = Path(path_text).absolute()
    if "://" in path_text or all(one.resolve() != root for one in (path, *path.parents)):
        return
    for entry in list_tables(source).entries:
        for file in map(str, storage_places(entry.place)):
            if root not in Path(file).resolve().parents:
                hint = "name data that lie in it"
                raise RevisionError("--source", f"{file} leads out of the repository", hint)


def file_side(path: Path) -> Side:
    """List one mapping file with the golden rows and the pinned sample beside it."""
    own_files = [path.name, golden_file(path).name]
    if pinned_folder(path).is_symlink():
        own_files.append(pinned_folder(path).name)
    for root, folders, files in os.walk(pinned_folder(path)):
        names = [*files, *(one for one in folders if Path(root, one).is_symlink())]
        own_files += [Path(root, name).relative_to(path.parent).as_posix() for name in names]
    side = _disk_side(path.parent, own_files, str(path), "sha1", followed=path.name)
    return replace(side, folder=str(path).removesuffix(path.name))


def _disk_side(
    root: Path, names: Iterable[str], name: str, hashing: str, *, followed: str = ""
) -> Side:
    """List files of this machine; a link is followed only if the user named it."""
    files, irregular = {}, {}
    for path in names:
        kind = "" if path == followed else _describe_irregular(root, path)
        if kind is None:
            continue
        if kind:
            irregular[path] = kind
        elif (root / path).is_file():
            files[path] = _object_id(root / path, hashing)

    def contents(paths: Collection[str], max_bytes: int) -> dict[str, bytes]:
        data_by_path = {}
        for path in paths:
            with translate_read_errors(str(root / path)):
                if (root / path).stat().st_size <= max_bytes:
                    data_by_path[path] = (root / path).read_bytes()
        return data_by_path

    return Side(name=name, files=files, others=irregular, contents=contents)


def _describe_irregular(root: Path, path: str) -> str | None:
    """Say what a path is instead of a regular file, "" for one, None if there is nothing.

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
    if not stat.S_ISLNK(mode):
        return "a submodule" if stat.S_ISDIR(mode) else "no regular file"
    return _LINK + os.readlink(root / path)  # noqa: PTH115 - as it is spelt


def _object_id(path: Path, hashing: str) -> str:
    """Return git's name of the file's content; its size if no review reads it."""
    size = path.stat().st_size
    if size > (MAX_BYTES if is_json(path.name) else MOST_SAMPLE):
        return f"{size} bytes"
    with translate_read_errors(str(path)):
        data = path.read_bytes()
    digest = hashlib.new(hashing, b"blob %d\0" % len(data), usedforsecurity=False)
    digest.update(data)
    return digest.hexdigest()


def write_sidecars(side: Side, mapping: str, folder: Path) -> Path:
    """Write the pinned sample and the golden rows of a mapping into an empty folder."""
    mapping_file = folder / "mapping.json"
    names = {golden_file(Path(mapping)).as_posix(): golden_file(mapping_file)}
    prefix = f"{pinned_folder(Path(mapping)).as_posix()}/"
    for path in side.files:
        inner = PurePosixPath(path.removeprefix(prefix))
        if path.startswith(prefix) and ".." not in inner.parts:
            names[path] = pinned_folder(mapping_file) / inner
    sidecars = [path for path in names if path in side.files]
    for path, data in side.contents(sidecars, MOST_SAMPLE).items():
        names[path].parent.mkdir(parents=True, exist_ok=True)
        names[path].write_bytes(data)
    return mapping_file


_SMALLER = 0.5  # of a sample's bytes: it may lack rows that it states
SIDECARS = {"sample": ".sample", "golden": ".golden.jsonl"}
_SIDECAR = re.compile(r"(.*?[^/])(?:\.sample(?:/.*)?|\.golden\.jsonl)", re.DOTALL)


@dataclass(frozen=True, kw_only=True, slots=True)
class Extent:
    """How much there is of a pinned sample: the rows that it states, and the bytes of its files."""

    rows: int
    size: int


def _sidecar_path(mapping: str, name: str) -> str:
    return mapping.removesuffix(".json") + SIDECARS[name]


def sidecar_owner(path: str) -> str | None:
    """Return the mapping that a sidecar's path belongs to, None if it is not a sidecar."""
    match = _SIDECAR.fullmatch(path)
    return f"{match[1]}.json" if match else None


def sidecar_ids(side: Side, mapping: str, name: str) -> dict[str, str]:
    """Return what names the contents of one kind of sidecar of a mapping, also of links."""
    sidecar = _sidecar_path(mapping, name)
    return {
        path[len(sidecar) :]: one
        for listed in (side.files, side.others)
        for path, one in listed.items()
        if path == sidecar or (name == "sample" and path.startswith(f"{sidecar}/"))
    }


def describe_odd_files(side: Side, mapping: str) -> str:
    """Say what in the sample beside a mapping is not a regular file, "" if nothing is."""
    path = _sidecar_path(mapping, "sample")
    irregular = [one for one in side.others if one == path or one.startswith(f"{path}/")]
    return f"{min(irregular)} is {side.others[min(irregular)]}" if irregular else ""


def sample_extent(side: Side, mapping: str) -> Extent | None:
    """Measure the sample beside a mapping, None if there is none."""
    folder = _sidecar_path(mapping, "sample")
    paths = [path for path in side.files if path.startswith(f"{folder}/")]
    if (about_path := f"{folder}/{ABOUT}") not in paths:
        return None
    contents = side.contents(paths, MOST_SAMPLE)
    try:
        stated_rows = json.loads(contents.get(about_path, b""))["rows"]
    except (ValueError, RecursionError, KeyError, TypeError):
        stated_rows = 0
    rows = stated_rows if isinstance(stated_rows, int) else 0
    return Extent(rows=rows, size=sum(map(len, contents.values())))


def shrunken_sample(old: Extent | None, new: Extent | None) -> tuple[str, str] | None:
    """Return the rule and the words for a sample that shows less than before, else None."""
    if old is None:
        return None
    if new is None:
        return "sample_removed", f"the pinned sample of {old.rows} rows is gone"
    prefix = "the pinned sample has fewer"
    if new.rows < old.rows:
        return "sample_smaller", f"{prefix} rows: {old.rows} → {new.rows}"
    if new.size < old.size * _SMALLER:
        return "sample_smaller", f"{prefix} bytes: {old.size} → {new.size}"
    return None


@contextmanager
def mapping_files(
    old: Path | language.Mapping, new: Path | language.Mapping
) -> Iterator[tuple[Path, Path]]:
    """Yield the files of two mappings by name, or those of trees in a removed folder."""
    with TemporaryDirectory(prefix="ingot-") as folder:
        files = {"old": Path(folder, "old.json"), "new": Path(folder, "new.json")}
        for name, one in (("old", old), ("new", new)):
            if isinstance(one, Path):
                files[name] = one
            else:
                files[name].write_bytes(encode_json(to_document(one), sort_keys=False))
        yield files["old"], files["new"]
