"""A result in an object store: shards put by several writers, complete once its manifest is there.

    OUT/records/, OUT/rejected/         the parts, under their final names from the beginning
    OUT/.ingot-work/claim.json          which result is being written there, and since when
    OUT/.ingot-work/KEY/000012.json     what came of a shard; its parts are there
    OUT/.ingot-work/KEY/files.json      files that are going to be deleted, or put as a whole result
    OUT/manifest.json                   written last, only where there is none

A store has no renames and no locks. So a run claims its destination by creating `claim.json`, which
one of several different runs can do; runs of the same identity share a claim, for they write equal
bytes. A shard that has a file in `.ingot-work` is not converted again, by whomever it was written.
Before the manifest is created, every part is compared with what its shard said of it.
Results of jobs that put no shards: see identity.
"""

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from ingot.converters.errors import (
    CommittedElsewhereError,
    ConversionError,
    OutputError,
    redact_urls,
)
from ingot.converters.output.commit import (
    StagedResult,
    find_finished,
    has_counts,
    own_manifest,
)
from ingot.converters.output.difference import (
    FinishedResult,
    ResultIdentity,
    describe_difference,
)
from ingot.converters.output.files import (
    MANIFEST,
    RUN,
    FileEntry,
    encode_json,
    list_files,
    output_errors,
)
from ingot.converters.output.object_store import (
    StoredFile,
    check_url,
    delete,
    holds_file,
    holds_sha256,
    list_names,
    put_bytes,
    put_file,
    read_json,
)
from ingot.converters.output.pieces import NameFiles
from ingot.converters.output.sharding import (
    COMMAND_FILE,
    JOB_FILE,
    OTHER_PARTS,
    JobShard,
    command_document,
)
from ingot.converters.output.worker_pool import WorkerDiedError
from ingot.converters.progress import host_facts, raise_if_stopping
from ingot.converters.rows import Json

STORE_WORK: Final = ".ingot-work"
CLAIM: Final = f"{STORE_WORK}/claim.json"
_PARTS: Final = re.compile(
    r"(records|rejected)/part-\d+(_\d+)?\.(parquet|jsonl)"
    r"|shard-\d+(\.loss_mask)?\.(bin|idx|meta\.json|rejects\.jsonl)"
)
_SMALL: Final = frozenset({"mapping.json", "report.md", "blend.txt", RUN})
_KEY_CHARS: Final = 16
PUT_NAMES: Final = "files.json"  # of files that are going to be put or deleted
_NOTES: Final = (COMMAND_FILE, JOB_FILE, PUT_NAMES)  # beside the entries of shards
_PUTS: Final = 4  # files at a time


@dataclass(frozen=True, kw_only=True)
class ShardStore:
    """Where the writers of one result put what came of its shards."""

    url: str
    key: str  # of the run's identity

    @property
    def where(self) -> str:
        """Return the destination as it may be shown."""
        return redact_urls(self.url)

    @property
    def folder(self) -> str:
        """Return where the shards of this result are entered."""
        return f"{STORE_WORK}/{self.key[:_KEY_CHARS]}"

    def committed_error(self) -> CommittedElsewhereError:
        """Return the error for a result that appeared after this run began."""
        hint = "run again to see whether its result is the same"
        return CommittedElsewhereError(self.where, "another run committed first", hint)

    def find_shard(self, name: str) -> dict[str, Json] | None:
        """Return the document of a finished shard, None if nobody has finished it."""
        return read_json(f"{self.url}/{self.folder}/{name}.json")

    def finished(self) -> set[str]:
        """Return the names of the finished shards."""
        return self.shards_among(list_names(self.url))

    def shards_among(self, names: Iterable[str]) -> set[str]:
        """Return the names of the shards to which files of the destination belong."""
        paths = (Path(name) for name in names if name.startswith(f"{self.folder}/"))
        return {name.stem for name in paths if name.name not in _NOTES}

    def put_shard(
        self, name: str, parts: Iterable[tuple[Path, str]], document: Mapping[str, object]
    ) -> dict[str, str]:
        """Put the parts of a shard, given with their names in the result, and then enter it.

        Returns the ETags of the parts, where the store has them. Raises OutputError.
        """
        self.check_claim()
        etags = {path: self._put_part(local, path) for local, path in parts}
        known = {path: etag for path, etag in etags.items() if etag is not None}
        entry = encode_json({**document, "etags": known})
        put_bytes(entry, f"{self.url}/{self.folder}/{name}.json")
        return known

    def do_piece(self, name: str, make: Callable[[Path], Any], files: NameFiles[Any]) -> Any:  # noqa: ANN401 - what its maker returned
        """Have a shard made in a temporary folder and put it, or find it done."""
        done = self.find_shard(name)
        if done is not None:
            return done
        with tempfile.TemporaryDirectory(prefix="ingot-") as folder, output_errors(folder):
            document = make(Path(folder))
            parts = [(Path(folder, file_name), path) for file_name, path in files(document)]
            return {**document, "etags": self.put_shard(name, parts, document)}

    def _put_part(self, local: Path, path: str) -> str | None:
        try:
            return put_file(local, f"{self.url}/{path}", if_absent=True)
        except FileExistsError:  # of a run whose claim was replaced, or of a former result
            self.check_claim()
            return put_file(local, f"{self.url}/{path}")

    def check_claim(self) -> None:
        """See that this result is still the one that is written here. Raises OutputError."""
        claim = read_json(f"{self.url}/{CLAIM}")
        if claim is not None and claim.get("key") == self.key:
            return
        if claim is None and own_manifest(read_json(f"{self.url}/{MANIFEST}")):
            raise self.committed_error()
        problem = "another run has replaced what this one was writing there"
        raise OutputError(self.where, problem, "run again when nothing else writes there")


@dataclass(frozen=True, kw_only=True)
class StoredResult(StagedResult):
    """One run's hold on a destination in a store; its folders are local and temporary."""

    store: ShardStore
    shards_found: int = 0  # in the store, finished before this run began
    # Of the parts in the store: which shard each is of, and its ETag.
    shards: dict[str, str] = field(default_factory=dict)
    etags: dict[str, str] = field(default_factory=dict)

    @property
    def place(self) -> Path | str:
        """Return the URL; it holds no secret, for such URLs are refused."""
        return self.store.url

    @property
    def pieces(self) -> ShardStore:
        """Return where the shards go."""
        return self.store

    def take_part(self, piece: str, path: str, name: str, etag: str | None = None) -> None:
        """Note the shard and the ETag of a part that its shard has put."""
        self.shards[name] = piece
        if etag is not None:  # an unfinished run of before has none
            self.etags[name] = etag

    def found_facts(self) -> dict[str, Json]:
        """Return what run.json says of what the run found of an unfinished one."""
        return {"resumed": self.resumed, "shards_found": self.shards_found}

    def list_files(self, known: Iterable[FileEntry]) -> list[FileEntry]:
        """Return the result's files: the `known` ones are in the store, the others here."""
        with output_errors(self.out):
            files = [*list_files(self.result), *known]
        return sorted(files, key=lambda one: Path(one["path"]))

    def commit(self, manifest: dict[str, Json], run: dict[str, Json]) -> None:
        """Compare the parts with what their shards said, and put the small files, one at last."""
        url = self.store.url
        files: list[FileEntry] = manifest["files"]
        self.store.check_claim()
        existing = list_names(url)
        local = {one["path"] for one in files if (self.result / one["path"]).exists()}
        strange = existing.keys() - {one["path"] for one in files} - {RUN, MANIFEST}
        leftover = strange & _find_own(url, existing)
        _check_foreign(self.store, leftover, strange)
        delete(url, leftover)  # of a run that was replaced
        for one in files:
            if one["path"] not in local:
                self._check_part(one, existing.get(one["path"]))

        def put(name: str) -> None:
            raise_if_stopping()
            local_path, target = self.result / name, f"{url}/{name}"
            if name not in existing or not holds_file(existing[name], target, local_path):
                put_file(local_path, target)

        with ThreadPoolExecutor(_PUTS) as threads:
            list(threads.map(put, sorted(local)))
        put_bytes(encode_json(run), f"{url}/{RUN}")
        self.store.check_claim()
        try:
            put_bytes(encode_json(manifest), f"{url}/{MANIFEST}", if_absent=True)
        except FileExistsError as error:
            raise self.store.committed_error() from error
        _clear_work(self.store, existing)

    def _check_part(self, part: FileEntry, stored: StoredFile | None) -> None:
        """See that a part is what its shard put there; else its shard is to be converted again."""
        path, etag = part["path"], self.etags.get(part["path"])
        if stored is not None and stored.bytes == part["bytes"]:
            url = f"{self.store.url}/{path}"
            if stored.etag == etag or holds_sha256(url, part["sha256"]):
                return
        delete(self.store.url, [f"{self.store.folder}/{self.shards[path]}.json"])
        problem = f"{path} is not what was written there"
        hint = "make sure that nothing else writes there, then run the command again"
        raise OutputError(self.store.where, problem, hint)


def _find_own(url: str, names: Iterable[str]) -> set[str]:
    """Those of some names that ingot has put, or was going to put when it was killed."""
    entered = [name for name in names if re.fullmatch(rf"{STORE_WORK}/[^/]+/{PUT_NAMES}", name)]
    documents = (read_json(f"{url}/{name}") or {} for name in entered)
    named = _SMALL.union(*(one.get("files", ()) for one in documents))
    return {name for name in names if name in named or _PARTS.fullmatch(name)}


def _check_foreign(store: ShardStore, own_names: Iterable[str], names: Iterable[str]) -> None:
    """Refuse files that neither a result nor a run of ingot has written."""
    foreign = sorted(
        name for name in {*names} - {*own_names} if not name.startswith(f"{STORE_WORK}/")
    )
    if foreign:
        problem = f"holds files that are not part of the result, such as {foreign[0]}"
        raise OutputError(store.where, problem, "move them away, or choose another folder")


def check_store(url: str) -> str:
    """Return the checked URL of a store that can be reached. Raises OutputError."""
    read_json(f"{(url := check_url(url))}/{CLAIM}")
    return url


def find_result(location: Path | str) -> FinishedResult | None:
    """Find a finished result in a folder or at the URL of an object store. Raises OutputError."""
    if isinstance(location, Path):
        return find_finished(location)
    manifest = own_manifest(read_json(f"{location}/{MANIFEST}"))
    return _find_finished(ShardStore(url=location, key=""), list_names(location), manifest)


def remove_stored(url: str) -> None:
    """Delete the result at a URL, its manifest first; files of others stay."""
    listed = {one["path"] for one in (read_json(f"{url}/{MANIFEST}") or {}).get("files", [])}
    names = list_names(url)
    own_names = _find_own(url, names)
    delete(url, [MANIFEST, *(name for name in names if name in listed or name in own_names)])


def _find_finished(
    store: ShardStore, existing: dict[str, StoredFile], manifest: dict[str, Json] | None
) -> FinishedResult | None:
    """The finished result of which this is the manifest, None if a file of it is gone or cut."""
    if manifest is None or not has_counts(manifest):
        return None
    sizes = [(one.get("path"), one.get("bytes")) for one in manifest.get("files") or []]
    if any(name not in existing or existing[name].bytes != size for name, size in sizes):
        return None
    run = read_json(f"{store.url}/{RUN}") or {}
    return FinishedResult(folder=Path(store.where), manifest=manifest, run=run)


def find_equal(
    store: ShardStore, identity: ResultIdentity, *, overwrite: bool
) -> tuple[dict[str, StoredFile], FinishedResult | None]:
    """Return the existing files and the equal result; refuse to replace what must stay."""
    existing = list_names(store.url)
    manifest = own_manifest(read_json(f"{store.url}/{MANIFEST}")) if MANIFEST in existing else None
    finished = _find_finished(store, existing, manifest)
    differs = identity.difference(finished) if finished else None
    if finished is not None and differs is None:
        _clear_work(store, existing)
        return existing, finished
    if manifest is not None and not overwrite:
        problem = f"holds another result: {differs}" if differs else "holds a damaged result"
        hint = "choose another folder, or replace the result with `overwrite`"
        raise OutputError(store.where, problem, hint)
    own_names = {one.get("path") for one in (manifest or {}).get("files") or []}
    if manifest or CLAIM in existing:
        own_names |= _find_own(store.url, existing)
    _check_foreign(store, {*own_names, *([MANIFEST] if manifest else [])}, existing)
    return existing, None


def note_part(
    store: ShardStore, shard: JobShard | None, identity: ResultIdentity, names: Iterable[str]
) -> None:
    """Note the command of a part of a job, for `ingot merge`, and the job, for other jobs."""
    is_noted = f"{store.folder}/{JOB_FILE}" in names
    if shard is not None and not shard.merges and not is_noted:
        folder_url = f"{store.url}/{store.folder}"
        put_bytes(command_document(), f"{folder_url}/{COMMAND_FILE}")
        put_bytes(encode_json(identity.job_document()), f"{folder_url}/{JOB_FILE}")


@contextmanager
def stage_in_store(
    url: str,
    identity: ResultIdentity,
    *,
    overwrite: bool = False,
    shard: JobShard | None = None,
) -> Iterator[StagedResult]:
    """Take hold of a destination in a store, for one run of possibly several of one identity.

    A part of a job (`shard`) also notes its command.

    The rules are those of `commit.stage`. After a ConversionError, which says that the data does
    not fit, nothing stays; after any other error the finished shards stay for the next run of the
    same identity.
    """
    store = ShardStore(url=check_url(url), key=identity.key())
    existing, finished = find_equal(store, identity, overwrite=overwrite)
    with tempfile.TemporaryDirectory(prefix="ingot-") as folder:
        work, result = Path(folder, "work"), Path(folder, "result")
        staged = StoredResult(out=result, work=work, result=result, store=store)
        if finished is not None:
            yield replace(staged, done=finished)
            return
        merges = shard is not None and shard.merges  # which never removes another job
        goes_on = take_claim(store, existing, identity, overwrite=overwrite and not merges)
        work.mkdir()
        result.mkdir()
        note_part(store, shard, identity, existing)
        done = goes_on * len(store.shards_among(existing))
        try:
            yield replace(staged, resumed=done > 0, shards_found=done)
        except WorkerDiedError:
            raise
        except ConversionError:
            if shard is None:
                _discard(store)
            raise


def check_claimed(store: ShardStore, identity: ResultIdentity) -> None:
    """Refuse a destination where another result is being written. Raises OutputError."""
    claim = read_json(f"{store.url}/{CLAIM}")
    if claim is not None and claim.get("key") != store.key:
        raise _claimed_error(store, claim, identity)


def take_claim(
    store: ShardStore, existing: dict[str, StoredFile], identity: ResultIdentity, *, overwrite: bool
) -> bool:
    """Claim the destination, and remove what is replaced; whether an unfinished run goes on."""
    claim = read_json(f"{store.url}/{CLAIM}")
    ours = claim is not None and claim.get("key") == store.key
    if ours and MANIFEST not in existing:
        return True
    if claim is not None and not ours:
        if not overwrite:
            raise _claimed_error(store, claim, identity)
        delete(store.url, [CLAIM])
    if not ours and not _create_claim(store, identity):
        return True
    if MANIFEST not in existing and read_json(f"{store.url}/{MANIFEST}") is not None:
        delete(store.url, [CLAIM])  # it came since the destination was listed
        raise store.committed_error()
    # The manifest first, so that a result that lacks files never has one.
    own_names = {MANIFEST, CLAIM, *(f"{store.folder}/{name}" for name in _NOTES)}
    if rest := [name for name in existing if name not in own_names]:
        enter_names(store, existing)
    delete(store.url, [MANIFEST, *rest] if MANIFEST in existing else rest)
    return False


def enter_names(store: ShardStore, names: Iterable[str]) -> None:
    """Enter files that are going to be put or deleted, so that later runs know whose they are."""
    files = sorted(one for one in names if one != MANIFEST and not one.startswith(STORE_WORK))
    put_bytes(encode_json({"files": files}), f"{store.url}/{store.folder}/{PUT_NAMES}")


def _create_claim(store: ShardStore, identity: ResultIdentity) -> bool:
    """Create the claim; False where another writer of the same result has just done so."""
    since = datetime.now(UTC).isoformat(timespec="seconds")
    claim = {"key": store.key, "settled": identity.settled, "since": since, "host": host_facts()}
    try:
        put_bytes(encode_json(claim), f"{store.url}/{CLAIM}", if_absent=True)
    except FileExistsError:
        first = read_json(f"{store.url}/{CLAIM}") or {}
        if first.get("key") == store.key:
            return False
        raise _claimed_error(store, first, identity) from None
    return True


def _claimed_error(
    store: ShardStore, claim: dict[str, Json], identity: ResultIdentity
) -> OutputError:
    theirs = claim.get("settled") or {}
    differs = describe_difference(identity.settled, theirs, identity.words) or "other input files"
    their_work = replace(store, key=str(claim.get("key"))).folder
    if noted := read_json(f"{store.url}/{their_work}/{JOB_FILE}"):
        differs = f"{OTHER_PARTS}: {identity.job_difference(noted)}"
    problem = f"another run is writing there since {claim.get('since')}: {differs}"
    hint = "wait for it or choose another folder; if it is dead, replace it with `overwrite`"
    return OutputError(store.where, problem, hint)


def _discard(store: ShardStore) -> None:
    """Remove what an unfinished run wrote, if the claim is still its own."""
    with suppress(OutputError):  # people are told what is wrong with the data
        store.check_claim()
        names = list_names(store.url)
        delete(store.url, _find_own(store.url, names))
        _clear_work(store, names)


def _clear_work(store: ShardStore, names: Iterable[str]) -> None:
    """Remove the shards of a result, then its claim; those of another one stay."""
    delete(store.url, [name for name in names if name.startswith(f"{store.folder}/")])
    claim = read_json(f"{store.url}/{CLAIM}") if CLAIM in names else None
    if claim is not None and claim.get("key") == store.key:
        delete(store.url, [CLAIM])
