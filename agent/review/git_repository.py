"""Read a git repository with plumbing commands: nothing in it is executed, followed or fetched.

The content of a repository is not trusted. Commands run without a shell, hooks, file monitors,
pagers, external diffs and filters; revisions stand behind `--end-of-options`, names end with NUL,
and what a partial clone lacks is not fetched. The user's own settings stay (`safe.directory` is
one).
"""

import os
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, NamedTuple

from ingot.converters.errors import RevisionError
from ingot.converters.settings import Setting

WORKING_TREE = "working tree"
_QUIET = ("core.fsmonitor=false", f"core.hooksPath={os.devnull}", "protocol.allow=never")
_SURROUNDINGS = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
_ELSEWHERE = "run it in the folder of the repository, where `.git` lies"
# Branches that others are merged into, the likeliest first.
_MAIN = ("origin/HEAD", "origin/main", "origin/master", "main", "master")


@dataclass(frozen=True, kw_only=True, slots=True)
class ReviewOptions:
    """The settings of a review."""

    mappings: Annotated[
        str | None,
        Setting(
            "Glob of the JSON files that are mappings.", metavar="GLOB", default="all that hold one"
        ),
    ] = None
    source: Annotated[
        str | None,
        Setting("Data to try one mapping on, instead of its pinned sample.", metavar="PATH"),
    ] = None
    allow_breaking: Annotated[
        bool, Setting("Only warn about breaking changes and lost records.")
    ] = False
    offline: Annotated[bool, Setting("Do not read data from other machines.")] = False


class _Entry(NamedTuple):
    """A path of a tree: its mode as git writes it (`100644`, `120000`, ...) and its object."""

    mode: str
    blob: str


class _GitError(Exception):
    """A git command failed, with what git said."""


def _run_git(folder: Path, *words: str, stdin: bytes = b"") -> bytes:
    settings = [word for setting in _QUIET for word in ("-c", setting)]
    try:
        ran = subprocess.run(
            ["git", "--no-pager", *settings, *words],
            cwd=folder,
            env=os.environ | _SURROUNDINGS,
            input=stdin,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError as error:
        hint = "install git, or name two files: ingot review OLD.json NEW.json"
        raise RevisionError("git", "not found on this machine", hint) from error
    if ran.returncode:
        raise _GitError(ran.stderr.decode(errors="replace").strip().partition("\n")[0])
    return ran.stdout


def _run_or_raise(
    folder: Path, location: str, problem: str, *words: str, stdin: bytes = b""
) -> bytes:
    try:
        return _run_git(folder, *words, stdin=stdin)
    except _GitError as error:
        raise RevisionError(location, f"{problem}: {error}") from error


@dataclass(frozen=True, kw_only=True, slots=True)
class Repository:
    """A repository; `root` is the top folder of its working tree, or the folder of a bare one."""

    root: Path

    def commit(self, name: str) -> str:
        """Return the id of the commit that a revision names. Raises RevisionError."""
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        try:
            return _run_git(self.root, *words).decode().strip()
        except _GitError as error:
            self._begun()
            hint = "git fetch brings those of others; a shallow clone lacks old ones"
            raise RevisionError(repr(name), "no such revision in this repository", hint) from error
        except ValueError as error:  # a NUL in an argument
            raise RevisionError(repr(name), "no such revision in this repository") from error

    def main(self) -> str:
        """Return the branch that others are merged into, as a revision. Raises RevisionError."""
        for name in _MAIN:
            words = ("rev-parse", "--verify", "--quiet", "--abbrev-ref", "--end-of-options", name)
            try:
                return _run_git(self.root, *words).decode().strip() or name
            except _GitError:
                continue
        self._begun()
        hint = "name what to compare with: --base REF"
        raise RevisionError(str(self.root), "there is no branch main or master", hint)

    def _begun(self) -> None:
        """Raise RevisionError if there is no commit at all."""
        try:
            commits = _run_git(self.root, "rev-list", "--max-count=1", "--all", "HEAD", "--")
        except _GitError:  # there is no HEAD yet
            commits = _run_git(self.root, "rev-list", "--max-count=1", "--all", "--")
        if not commits:
            hint = "commit the files to compare with first"
            raise RevisionError(str(self.root), "the repository has no commit yet", hint)

    def merge_base(self, base: str, head: str) -> str:
        """Return the commit at which `head` left `base`; `base` if they share no history."""
        try:
            return (
                _run_git(self.root, "merge-base", "--end-of-options", base, head).decode().strip()
            )
        except _GitError:
            return base

    def tree(self, commit: str) -> dict[str, _Entry]:
        """Return every file of a commit by path. Raises RevisionError."""
        words = ("ls-tree", "-r", "-z", "--full-tree", "--end-of-options", commit)
        listed = _run_or_raise(self.root, commit, "its files cannot be listed", *words)
        entries = {}
        for line in listed.split(b"\0")[:-1]:
            facts, _, name = line.partition(b"\t")
            mode, _, blob = facts.decode().split(" ")
            entries[os.fsdecode(name)] = _Entry(mode, blob)
        return entries

    def names(self) -> list[str]:
        """List the paths of the working tree that git does not ignore. Raises RevisionError."""
        location, problem = str(self.root), "cannot list its files"
        inside = ("rev-parse", "--is-inside-work-tree")
        words = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        within = _run_or_raise(self.root, location, problem, *inside).strip() == b"true"
        listed = _run_or_raise(self.root, location, problem, *words) if within else b""
        if not within:
            hint = "name what to review: --head REF"
            raise RevisionError(str(self.root), "the repository has no working tree", hint)
        return sorted({os.fsdecode(name) for name in listed.split(b"\0")[:-1]})

    def hashing(self) -> str:
        """Return the hash that names objects: `sha1` or `sha256`."""
        return _run_git(self.root, "rev-parse", "--show-object-format").decode().strip()

    def sizes(self, blobs: Iterable[str]) -> dict[str, int]:
        """Return the size in bytes of every object that is here."""
        names = sorted(set(blobs))
        output = self._batch("--batch-check=%(objectname) %(objectsize)", names).decode()
        pairs = (line.rpartition(" ") for line in output.splitlines())
        return {blob: int(size) for blob, _, size in pairs if size.isdigit()}

    def read(self, blobs: Iterable[str], *, max_bytes: int) -> dict[str, bytes]:
        """Return the bytes of every object that is not larger than `max_bytes` bytes."""
        names = set(blobs)
        sizes = self.sizes(names)
        if missing := sorted(names - sizes.keys()):
            hint = "a partial clone lacks it: fetch without --filter"
            raise RevisionError(str(self.root), f"object {missing[0]} is missing", hint)
        fitting = sorted(blob for blob, size in sizes.items() if size <= max_bytes)
        output = self._batch("--batch=%(objectsize)", fitting)
        contents, position = {}, 0
        for blob in fitting:
            line = output.index(b"\n", position)
            start, stop = line + 1, line + 1 + int(output[position:line])
            contents[blob] = output[start:stop]
            position = stop + 1
        return contents

    def _batch(self, form: str, blobs: Sequence[str]) -> bytes:
        if not blobs:
            return b""
        stdin = "".join(f"{blob}\n" for blob in blobs).encode()
        problem = "cannot read its objects"
        return _run_or_raise(self.root, str(self.root), problem, "cat-file", form, stdin=stdin)


def open_repository(folder: Path) -> Repository:
    """Open the repository that a folder belongs to. Raises RevisionError."""
    try:
        is_bare = _run_git(folder, "rev-parse", "--is-bare-repository").strip() == b"true"
        root = _run_git(folder, "rev-parse", "--absolute-git-dir" if is_bare else "--show-toplevel")
    except _GitError as error:
        hint = "or name two files: ingot review OLD.json NEW.json"
        problem = str(error).removeprefix("fatal: ")
        raise RevisionError(
            str(folder), f"cannot open a git repository: {problem}", hint
        ) from error
    path = Path(os.fsdecode(root.removesuffix(b"\n")))
    # Files of a tree may look like a bare repository, and core.worktree may name any folder.
    marked = any((one / ".git").exists() for one in (path.parents if is_bare else [path]))
    if marked == is_bare:
        raise RevisionError(str(path), "is not the folder of a git repository", _ELSEWHERE)
    return Repository(root=path)


_MOST_PAIRS = 250_000  # beyond, only files of the same content or the same name are paired
_CHUNK = re.compile(rb"[^\n]{0,63}\n|[^\n]{1,64}")


def find_renames(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> dict[str, str]:
    """Find which new file was which removed one, as git does: new path -> old path.

    First files of the same content, those that keep their name before others; then files of a name
    that occurs once on each side and that share 75 %; then those that share most, at least 50 %.
    """
    moves: dict[str, str] = {}
    for is_named in (True, False):
        same = defaultdict[tuple[bytes, str], list[str]](list)
        for old_path in sorted(before.keys() - moves.values(), reverse=True):
            same[before[old_path], _file_name(old_path) if is_named else ""].append(old_path)
        for path in sorted(after.keys() - moves.keys()):
            if twins := same[after[path], _file_name(path) if is_named else ""]:
                moves[path] = twins.pop()
    old = {path: _count_bytes(before[path]) for path in before.keys() - moves.values()}
    new = {path: _count_bytes(after[path]) for path in after.keys() - moves.keys()}

    def measure(pairs: Iterable[tuple[str, str]]) -> list[tuple[float, bool, str, str]]:
        return sorted(
            (
                -(new[path] & old[old_path]).total()
                / max(new[path].total(), old[old_path].total(), 1),
                _file_name(path) != _file_name(old_path),
                path,
                old_path,
            )
            for path, old_path in pairs
        )

    by_name = [_find_unique_names(side) for side in (new, old)]
    similar = measure(
        (by_name[0][name], by_name[1][name]) for name in by_name[0].keys() & by_name[1].keys()
    )
    all_similar = measure(product(new, old)) if len(new) * len(old) <= _MOST_PAIRS else []
    for share, _, path, old_path in [*(one for one in similar if one[0] <= -0.75), *all_similar]:
        if share <= -0.5 and path in new and old_path in old:
            moves[path] = old_path
            del new[path], old[old_path]
    return moves


def _find_unique_names(paths: Collection[str]) -> dict[str, str]:
    counts = Counter(map(_file_name, paths))
    return {_file_name(path): path for path in paths if counts[_file_name(path)] == 1}


def _file_name(path: str) -> str:
    return path.rpartition("/")[2]


def _count_bytes(data: bytes) -> Counter[bytes]:
    """Count the bytes of every line, a long one in pieces."""
    counts: Counter[bytes] = Counter()
    for chunk in _CHUNK.findall(data):
        counts[chunk] += len(chunk)
    return counts
