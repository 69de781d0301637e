"""A git repository, read with plumbing commands: nothing of it is executed, followed or fetched.

What a repository holds is not trusted. Commands run without a shell, hooks, file monitors, pagers,
external diffs and filters; revisions stand behind `--end-of-options`, names end with NUL, and what
a partial clone lacks is not fetched. The user's own settings stay (`safe.directory` is one).
"""

import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

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
# What a hook is told about the repository that it belongs to.
_PLACES = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_WORK_TREE",
)
# Branches that others are merged into, the likeliest first.
_MAIN = ("origin/HEAD", "origin/main", "origin/master", "main", "master")


@dataclass(frozen=True, kw_only=True, slots=True)
class ReviewOptions:
    """The settings of a review."""

    mappings: Annotated[
        str | None,
        Setting(
            "Glob of the JSON files that are mappings.",
            metavar="GLOB",
            default="all that hold one",
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A path of a tree: its mode as git writes it (`100644`, `120000`, ...) and its object."""

    mode: str
    blob: str


class GitError(Exception):
    """What git said, where it did not do what it was asked; the callers know what it means."""


def run_git(folder: Path, *words: str, given: bytes = b"", without: Sequence[str] = ()) -> bytes:
    """What a git command writes."""
    settings = [word for setting in _QUIET for word in ("-c", setting)]
    kept = {key: value for key, value in os.environ.items() if key not in without}
    try:
        ran = subprocess.run(
            ["git", "--no-pager", *settings, *words],
            cwd=folder,
            env=kept | _SURROUNDINGS,
            input=given,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError as error:
        hint = "install git, or name two files: ingot review OLD.json NEW.json"
        raise RevisionError("git", "not found on this machine", hint) from error
    if ran.returncode:
        raise GitError(ran.stderr.decode(errors="replace").strip().partition("\n")[0])
    return ran.stdout


@dataclass(frozen=True, kw_only=True, slots=True)
class Repository:
    """A repository; `root` is the uppermost folder of its working tree, a bare one's own folder."""

    root: Path

    def commit(self, name: str) -> str:
        """The id of the commit that a revision names. Raises RevisionError."""
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        try:
            return run_git(self.root, *words).decode().strip()
        except GitError as error:
            self._begun()
            hint = "git fetch brings those of others; a shallow clone lacks old ones"
            raise RevisionError(repr(name), "no such revision in this repository", hint) from error
        except ValueError as error:  # a NUL in an argument
            raise RevisionError(repr(name), "no such revision in this repository") from error

    def main(self) -> str:
        """The branch that others are merged into, as a revision. Raises RevisionError."""
        for name in _MAIN:
            words = ("rev-parse", "--verify", "--quiet", "--abbrev-ref", "--end-of-options", name)
            try:
                return run_git(self.root, *words).decode().strip() or name
            except GitError:
                continue
        self._begun()
        hint = "name what to compare with: --base REF"
        raise RevisionError(str(self.root), "there is no branch main or master", hint)

    def _begun(self) -> None:
        """Raise RevisionError where there is no commit at all."""
        try:
            found = run_git(self.root, "rev-list", "--max-count=1", "--all", "HEAD", "--")
        except GitError:  # there is no HEAD yet
            found = run_git(self.root, "rev-list", "--max-count=1", "--all", "--")
        if not found:
            hint = "commit first what is to be compared with"
            raise RevisionError(str(self.root), "the repository has no commit yet", hint)

    def merge_base(self, base: str, head: str) -> str:
        """The commit at which `head` left `base`; `base` where their histories do not meet."""
        try:
            return run_git(self.root, "merge-base", "--end-of-options", base, head).decode().strip()
        except GitError:
            return base

    def tree(self, commit: str) -> dict[str, Entry]:
        """Every path of a commit that is no folder. Raises RevisionError."""
        try:
            listed = run_git(
                self.root, "ls-tree", "-r", "-z", "--full-tree", "--end-of-options", commit
            )
        except GitError as error:
            raise RevisionError(commit, f"its files cannot be listed: {error}") from error
        found = {}
        for line in listed.split(b"\0")[:-1]:
            facts, _, name = line.partition(b"\t")
            mode, _, blob = facts.decode().split(" ")
            found[os.fsdecode(name)] = Entry(mode=mode, blob=blob)
        return found

    def names(self) -> list[str]:
        """Every path of the working tree but what git ignores. Raises RevisionError."""
        words = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        try:
            within = run_git(self.root, "rev-parse", "--is-inside-work-tree").strip() == b"true"
            listed = run_git(self.root, *words) if within else b""
        except GitError as error:
            raise RevisionError(str(self.root), f"cannot list its files: {error}") from error
        if not within:
            hint = "name what to review: --head REF"
            raise RevisionError(str(self.root), "the repository has no working tree", hint)
        return sorted({os.fsdecode(name) for name in listed.split(b"\0")[:-1]})

    def hashing(self) -> str:
        """The hash that names objects: `sha1` or `sha256`."""
        return run_git(self.root, "rev-parse", "--show-object-format").decode().strip()

    def sizes(self, blobs: Iterable[str]) -> dict[str, int]:
        """The size in bytes of every object that is here."""
        wanted = sorted(set(blobs))
        told = self._batch("--batch-check=%(objectname) %(objectsize)", wanted).decode()
        pairs = (line.rpartition(" ") for line in told.splitlines())
        return {blob: int(size) for blob, _, size in pairs if size.isdigit()}

    def read(self, blobs: Iterable[str], *, most: int) -> dict[str, bytes]:
        """The bytes of every object that is no larger than `most` bytes."""
        asked = set(blobs)
        sizes = self.sizes(asked)
        if missing := sorted(asked - sizes.keys()):
            hint = "a partial clone lacks it: fetch without --filter"
            raise RevisionError(str(self.root), f"object {missing[0]} is missing", hint)
        wanted = sorted(blob for blob, size in sizes.items() if size <= most)
        told = self._batch("--batch=%(objectsize)", wanted)
        found, at = {}, 0
        for blob in wanted:
            line = told.index(b"\n", at)
            start, stop = line + 1, line + 1 + int(told[at:line])
            found[blob] = told[start:stop]
            at = stop + 1
        return found

    def _batch(self, form: str, blobs: Sequence[str]) -> bytes:
        if not blobs:
            return b""
        try:
            return run_git(
                self.root, "cat-file", form, given="".join(f"{b}\n" for b in blobs).encode()
            )
        except GitError as error:
            raise RevisionError(str(self.root), f"cannot read its objects: {error}") from error


def open_repository(folder: Path) -> Repository:
    """The repository that a folder belongs to. Raises RevisionError."""
    try:
        bare = run_git(folder, "rev-parse", "--is-bare-repository").strip() == b"true"
        root = run_git(folder, "rev-parse", "--absolute-git-dir" if bare else "--show-toplevel")
    except GitError as error:
        hint = "or name two files: ingot review OLD.json NEW.json"
        said = str(error).removeprefix("fatal: ")
        raise RevisionError(str(folder), f"no git repository to review: {said}", hint) from error
    return Repository(root=Path(os.fsdecode(root.removesuffix(b"\n"))))


def find_renames(
    folder: Path, before: Mapping[str, bytes], after: Mapping[str, bytes]
) -> dict[str, str]:
    """Which of the files that are new was which of those that are gone, as git finds it (50 %)."""
    if not before or not after:
        return {}
    try:
        _run_in_own_repository(folder, "init", "--quiet", "--bare", "--template=", ".")
        trees = [_write_tree(folder, files) for files in (before, after)]
        words = ("diff-tree", "-r", "-z", "--raw", "-M50%", "-l1000", "--no-ext-diff")
        told = _run_in_own_repository(folder, *words, "--end-of-options", *trees)
    except GitError as error:
        raise RevisionError(str(folder), f"cannot look for renamed files: {error}") from error
    return dict(_parse_renames(told.split(b"\0")[:-1]))


def _run_in_own_repository(folder: Path, *words: str, given: bytes = b"") -> bytes:
    """A command in a repository of our own, wherever a hook says that work is done."""
    return run_git(folder, *words, given=given, without=_PLACES)


def _write_tree(folder: Path, files: Mapping[str, bytes]) -> str:
    """A tree of regular files in a repository of their own."""
    paths = []
    for number, content in enumerate(files.values()):
        paths.append(folder / f"file-{number}")
        paths[-1].write_bytes(content)
    listed = "".join(f"{path.resolve()}\n" for path in paths).encode()
    blobs = _run_in_own_repository(
        folder, "hash-object", "-w", "--no-filters", "--stdin-paths", given=listed
    )
    _run_in_own_repository(folder, "read-tree", "--empty")
    lines = [
        b"100644 %s\t%s\0" % (blob, os.fsencode(name))
        for blob, name in zip(blobs.split(), files, strict=True)
    ]
    _run_in_own_repository(folder, "update-index", "-z", "--index-info", given=b"".join(lines))
    return _run_in_own_repository(folder, "write-tree").decode().strip()


def _parse_renames(told: Sequence[bytes]) -> Iterable[tuple[str, str]]:
    """(new path, old path) of the raw lines that tell of a rename."""
    at = 0
    while at < len(told):
        status = told[at].rpartition(b" ")[2]
        if status.startswith(b"R"):
            yield os.fsdecode(told[at + 2]), os.fsdecode(told[at + 1])
        at += 3 if status[:1] in b"RC" else 2
