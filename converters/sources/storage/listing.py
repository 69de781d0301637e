"""Where files lie: local paths and fsspec URLs, found by file name, folder or glob.

Folders that ingot itself wrote are no data of that source.
"""

import errno
import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import orjson

from ingot.converters.errors import (
    SourceError,
    redact_urls,
    translate_read_errors,
    underlying_error,
)
from ingot.converters.json_yaml import shorten_text
from ingot.converters.rows import Json
from ingot.converters.sources.storage.places import (
    Entry,
    Listing,
    LocalFile,
    Place,
    UnreadableName,
    entry_etag,
    entry_mtime_ns,
)
from ingot.converters.sources.storage.remote import (
    FIRST_RETRIES,
    RemoteFile,
    call_with_retries,
    find_file_system,
    pin_revision,
)

__all__ = ["Entry", "Listing", "LocalFile", "Place", "RemoteFile", "file_stem", "list_location"]

_GLOB_MARKS = frozenset("*?[")
_SERVERS = ("postgresql://", "postgres://", "mysql://")
_ODD_NAME = "its name has empty parts, `.` or `..`: it is no path below a folder"


def list_location(location: str, *, whole: bool = True) -> Listing:
    """List the files that a location names: a file, a folder (with all below it) or a glob."""
    if location.startswith(_SERVERS):
        from ingot.converters.sources.tables.server_tables import list_table

        return list_table(location)
    if "://" in location and not location.startswith("file://"):
        return _list_remote(location)
    return _list_local(location.removeprefix("file://"), location, whole)


def _list_local(text: str, location: str, whole: bool) -> Listing:
    path = Path(text).expanduser()
    with translate_read_errors(location, "cannot list it"):
        if path.is_file():
            entry = _local_entry(path.name, str(path), path.stat())
            return Listing(base=file_stem(path.name), direct=True, entries=(entry,))
        if path.is_dir():
            closed: list[UnreadableName] = []
            walked = _walk_folder(str(path), "", frozenset(), None if whole else closed)
            entries = tuple(sorted(walked, key=lambda entry: entry.name))
            base, shut = path.resolve().name, tuple(closed)
            listing = Listing(base=base, direct=False, entries=entries, unreadable=shut)
            return _require_entries(listing, location)
        if _GLOB_MARKS & set(text):
            return _local_glob(text, location)
        if path.exists():
            raise SourceError(location, "neither a file nor a folder")
    raise SourceError(location, "no such file or folder", "check the spelling")


def _local_entry(name: str, path: str, stat: os.stat_result) -> Entry:
    place = LocalFile(path)
    return Entry(name=name, place=place, bytes=stat.st_size, mtime_ns=stat.st_mtime_ns)


_MOST_FOLDERS = 200  # in one another
_CLOSED = {
    errno.EACCES: ("no permission to list it", "check its access rights"),
    errno.EPERM: ("no permission to list it", "check its access rights"),
    errno.ENAMETOOLONG: ("its path is too long or too deep", "move it up, or leave it out"),
}


def _walk_folder(
    folder: str, prefix: str, above: frozenset[str], closed: list[UnreadableName] | None = None
) -> Iterator[Entry]:
    """Every file below a folder; links are followed, but into no folder that this one is in."""
    real = os.path.realpath(folder)
    if real in above:
        return
    try:
        if len(above) >= _MOST_FOLDERS:
            raise OSError(errno.ENAMETOOLONG, "")
        with os.scandir(folder) as scanned:
            children = sorted(scanned, key=lambda child: child.name)
    except OSError as error:
        if error.errno not in _CLOSED or not prefix:
            raise
        if closed is None:
            raise SourceError(shorten_text(folder, 200), *_CLOSED[error.errno]) from error
        closed.append(UnreadableName(prefix, _CLOSED[error.errno][0]))
        return
    for child in children:
        if _ask_entry(child.is_dir):
            yield from _walk_folder(child.path, f"{prefix}{child.name}/", above | {real}, closed)
        elif _ask_entry(child.is_file):
            yield _local_entry(prefix + child.name, child.path, child.stat())
        elif closed is not None:
            dangling = child.is_symlink()
            why = "a link that leads nowhere" if dangling else "neither a file nor a folder"
            closed.append(UnreadableName(prefix + child.name, why, dangling))


def _ask_entry(asked: Callable[[], bool]) -> bool:
    """What a directory entry says about itself; a link that leads to itself is nothing."""
    try:
        return asked()
    except OSError as error:
        if error.errno == errno.ELOOP:
            return False
        raise


def _local_glob(text: str, location: str) -> Listing:
    top = Path(_fixed_part(text)).expanduser()
    pattern = str(Path(text).expanduser())
    paths = [Path(hit) for hit in glob.glob(pattern, recursive=True)]  # noqa: PTH207 - absolute too
    entries = {entry.name: entry for path in paths for entry in _matched_entries(top, path)}
    if not entries:
        raise SourceError(location, "no file matches", "quote the pattern and check the spelling")
    ordered = tuple(entries[name] for name in sorted(entries))
    return Listing(base=top.resolve().name, direct=False, entries=ordered)


def _matched_entries(top: Path, path: Path) -> Iterable[Entry]:
    """A file, or every file below a folder."""
    name = path.relative_to(top).as_posix()
    if path.is_dir():
        return _walk_folder(str(path), "" if name == "." else f"{name}/", frozenset())
    return [_local_entry(name, str(path), path.stat())] if path.is_file() else []


def _fixed_part(pattern: str) -> str:
    """The folder before the first wildcard of a pattern: `data/x*/y` gives `data/`."""
    first = min(pattern.index(mark) for mark in _GLOB_MARKS if mark in pattern)
    return pattern[: pattern.rfind("/", 0, first) + 1]


def _list_remote(url: str) -> Listing:
    file_system, path = call_with_retries(url, lambda: find_file_system(url), FIRST_RETRIES)
    file_system.invalidate_cache()  # a listing made before is not what is there now
    path = call_with_retries(url, lambda: pin_revision(file_system, path), FIRST_RETRIES)
    if _GLOB_MARKS & set(_strip_query(url, path)):
        top = _fixed_part(path).rstrip("/")
        hits = call_with_retries(url, lambda: file_system.glob(path, detail=True), FIRST_RETRIES)
        _require_bucket(file_system, url, path, hits)
        return _remote_listing(file_system, url, top, hits)
    info = call_with_retries(url, lambda: _remote_info(file_system, path), FIRST_RETRIES)
    if info is not None and info["type"] == "file":
        entry = _remote_entry(file_system, info, _strip_query(url, path).rpartition("/")[0])
        return Listing(base=file_stem(entry.name), direct=True, entries=(entry,))
    top = path.rstrip("/")
    hits = call_with_retries(url, lambda: file_system.find(path, detail=True), FIRST_RETRIES)
    if not hits and info is None:
        _require_bucket(file_system, url, path, hits)
        raise SourceError(redact_urls(url), "no such file or folder", "check the spelling")
    return _remote_listing(file_system, url, top, hits)


def _require_bucket(file_system: Any, url: str, path: str, hits: object) -> None:  # noqa: ANN401
    """Refuse a bucket that is not there, where nothing was found in it."""
    bucket = path.partition("/")[0]
    if hits or not url.startswith(("s3://", "gs://")):
        return
    if call_with_retries(url, lambda: _remote_info(file_system, bucket), FIRST_RETRIES) is None:
        raise SourceError(redact_urls(url), "no such bucket", "check the spelling")


def _strip_query(url: str, path: str) -> str:
    """A path without the query of a web address, which is neither name nor pattern."""
    return path.partition("?")[0] if url.startswith(("http://", "https://")) else path


def _remote_info(file_system: Any, path: str) -> dict[str, Json] | None:  # noqa: ANN401
    try:
        return dict(file_system.info(path))
    except (FileNotFoundError, NotADirectoryError) as error:
        if underlying_error(error) is not error:
            raise
        return None


def _remote_listing(
    file_system: Any,  # noqa: ANN401
    url: str,
    top: str,
    hits: dict[str, dict[str, Json]],
) -> Listing:
    infos = [info for info in hits.values() if info["type"] == "file"]
    listed = [_remote_entry(file_system, info, top) for info in infos]
    entries = sorted(listed, key=lambda entry: entry.name)
    listing = Listing(
        base=re.sub("@[0-9a-f]{40}$", "", top.rpartition("/")[2]),  # a commit of the Hub
        direct=False,
        entries=tuple(entry for entry in entries if not _is_odd_name(entry.name)),
        unreadable=tuple(
            UnreadableName(entry.name, _ODD_NAME) for entry in entries if _is_odd_name(entry.name)
        ),
    )
    return _require_entries(listing, redact_urls(url))


def _is_odd_name(name: str) -> bool:
    return any(part in ("", ".", "..") for part in name.split("/"))


def _remote_entry(file_system: Any, info: dict[str, Json], top: str) -> Entry:  # noqa: ANN401
    path = str(info["name"])
    url = str(file_system.unstrip_protocol(path))
    size: int | None = info.get("size")
    mtime_ns, etag = entry_mtime_ns(info), entry_etag(info)
    return Entry(
        name=_strip_query(url, path).removeprefix(top).removeprefix("/"),
        place=RemoteFile(url=url, size=size, etag=etag, mtime_ns=mtime_ns),
        bytes=size or 0,
        mtime_ns=mtime_ns,
        etag=etag,
    )


def _require_entries(listing: Listing, location: str) -> Listing:
    if not listing.entries:
        raise SourceError(location, "no files in it", "is this the right folder or pattern?")
    return listing


_COMPRESSED = (".gz", ".gzip", ".zst", ".zstd", ".bz2", ".xz", ".tgz", ".tbz2", ".txz", ".tar")


def file_stem(name: str) -> str:
    """Return a file's name without folders and extensions: `a/train.jsonl.gz` gives `train`."""
    base = name.rpartition("/")[2]
    while base.lower().endswith(_COMPRESSED) and base.rpartition(".")[0]:
        base = base.rpartition(".")[0]
    head, dot, _ = base.rpartition(".")
    return head if dot and head else base


def path_stem(name: str) -> str:
    """Return a file's relative name without extensions: `a/train.jsonl.gz` gives `a/train`."""
    folder, slash, base = name.rpartition("/")
    return f"{folder}{slash}{file_stem(base)}"


def matches_globs(name: str, patterns: Sequence[str] | None, whole: str = "") -> bool:
    """Return whether a name (relative, with `/`) is chosen; the last pattern that matches decides.

    `whole`: what the file is called from outside of its archive; patterns may mean either name.

    A pattern that begins with `!` excludes; if all do, everything else is chosen. As in gitignore a
    pattern without a slash matches in every folder, `*` stays inside a folder and `**` does not.
    """
    if patterns is None:
        return True
    verdict = all(pattern.startswith("!") for pattern in patterns)
    for pattern in patterns:
        glob = _compile_glob(pattern.removeprefix("!"))
        if glob.fullmatch(name) or (whole and glob.fullmatch(whole)):
            verdict = not pattern.startswith("!")
    return verdict


def literal_glob(name: str) -> str:
    """Return a glob that matches one file, or with it some that differ in a glob character."""
    return "".join("?" if char in "*?[!" else char for char in name)


@cache
def _compile_glob(pattern: str) -> re.Pattern[str]:
    anywhere = "" if "/" in pattern.rstrip("/") else "(?:.*/)?"
    return re.compile(
        anywhere + _glob_regex(pattern.removeprefix("./").removeprefix("/")), re.DOTALL
    )


_GLOB_TOKEN = re.compile(r"\*\*/|\*\*|\*|\?|\[!?[^\]]{1,256}\]|.", re.DOTALL)
_GLOB_REGEX = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def _glob_regex(pattern: str) -> str:
    if pattern.endswith("/"):
        pattern += "**"
    parts = []
    for token in _GLOB_TOKEN.findall(pattern):
        if token in _GLOB_REGEX:
            parts.append(_GLOB_REGEX[token])
        elif len(token) > 2 and token.startswith("["):
            inner = token[1:-1].replace("\\", "\\\\").replace("[", "\\[")
            parts.append(f"[^{inner[1:]}]" if inner.startswith("!") else f"[{inner}]")
        else:
            parts.append(re.escape(token))
    return "".join(parts)


OWN_RESULT = "a result of ingot"
_MANIFEST = "manifest.json"
_MOST_BYTES = 256 << 20  # of a manifest, which names every file of the source
_PROPOSAL = ".proposal"
_PROPOSAL_FILES = frozenset({"mapping.json", "report.md"})
_SAMPLE_PARTS = frozenset({"sample.json", "data"})
_SAMPLE = re.compile(r"(.*\.sample)/(sample\.json|data/.*)", re.DOTALL)
# A lake, and a result that is being written in an object store.
_LAKE = re.compile(r"(.+)/(?:\.ingot-lake/state\.sqlite|\.ingot-work/.+)", re.DOTALL)
_STORE_WORK = ".ingot-work"
_UNFINISHED = re.compile(r"\..+\.ingot-.+")


def drop_own_results(listing: Listing, location: str) -> Listing:
    """Return the listing without the folders that hold results.

    Their names are in its `results`.
    """
    if listing.direct:
        return listing
    entries = listing.entries
    names = {entry.name.partition("/")[0] for entry in entries}
    if _STORE_WORK in names and _MANIFEST not in names:
        problem = "is an unfinished result of ingot: it has no manifest"
        hint = "wait for the run that writes it, or run that command again"
        raise SourceError(redact_urls(location), problem, hint)
    folders = set(_own_folders(entries))
    if not folders:
        return listing
    outer = {folder for folder in folders if folders.isdisjoint(enclosing_folders(folder))}
    outside = tuple(entry for entry in entries if outer.isdisjoint(enclosing_folders(entry.name)))
    return replace(listing, entries=outside, results=tuple(sorted(outer)))


def enclosing_folders(name: str) -> list[str]:
    """Return the folders that a name lies in, outermost first: `a` and `a/b` of `a/b/c`."""
    return list(accumulate(name.split("/")[:-1], "{}/{}".format))


def _own_folders(entries: Sequence[Entry]) -> Iterator[str]:
    """Folders with a manifest, a lake's state, a proposal or a sample, and unfinished ones."""
    parts: dict[str, set[str]] = {}
    for entry in entries:
        folder, _, base = entry.name.rpartition("/")
        if folder and base == _MANIFEST and _is_own_manifest(entry):
            yield folder
        if folder.endswith(_PROPOSAL):
            parts.setdefault(folder, set()).add(base)
        if match := _SAMPLE.fullmatch(entry.name):
            parts.setdefault(match[1], set()).add(match[2].partition("/")[0])
        if match := _LAKE.fullmatch(entry.name):
            yield match[1]
        for above in enclosing_folders(entry.name) if ".ingot-" in entry.name else ():
            if _UNFINISHED.fullmatch(above.rpartition("/")[2]):
                yield above
    for folder, names in parts.items():
        if names >= (_PROPOSAL_FILES if folder.endswith(_PROPOSAL) else _SAMPLE_PARTS):
            yield folder


def _is_own_manifest(entry: Entry) -> bool:
    """Whether a manifest is one of ingot; one that cannot be read is not, and is judged as data."""
    if entry.bytes > _MOST_BYTES:
        return False
    try:
        with translate_read_errors(str(entry.place)), entry.place.open() as raw:
            manifest = orjson.loads(raw.read())
    except SourceError:
        return False
    versions = manifest.get("versions") if isinstance(manifest, dict) else None
    return isinstance(versions, dict) and isinstance(versions.get("ingot"), str)
