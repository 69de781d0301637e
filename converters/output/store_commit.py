"""A result in an object store: shards put by several writers, complete once its manifest is there.

    OUT/records/, OUT/rejected/         the parts, under their final names from the beginning
    OUT/.ingot-work/claim.json          which result is being written there, and since when
    OUT/.ingot-work/KEY/000012.json     what came of a shard; its parts are there
    OUT/manifest.json                   written last, only where there is none

A store has no renames and no locks. So a run claims its destination by creating `claim.json`, which
one of several different runs can do; runs of the same identity share a claim, for they write equal
bytes. A shard that has a file in `.ingot-work` is not converted again, by whomever it was written.
Before the manifest is created, every part is compared with what its shard said of it.
"""

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ingot.converters.errors import (
    CommittedElsewhereError,
    ConversionError,
    OutputError,
    redact_urls,
)
from ingot.converters.output.commit import FinishedResult, StagedResult, has_counts, own_manifest
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
    holds_sha256,
    list_names,
    put_bytes,
    put_file,
    read_json,
)
from ingot.converters.output.sharding import COMMAND_FILE, JobShard, command_document
from ingot.converters.output.worker_pool import WorkerDiedError
from ingot.converters.progress import host_facts
from ingot.converters.rows import Json

if TYPE_CHECKING:
    from ingot.converters.output.identity import RunIdentity

STORE_WORK: Final = ".ingot-work"
_CLAIM: Final = f"{STORE_WORK}/claim.json"
_PARTS: Final = re.compile(
    r"(records|rejected)/part-\d+(_\d+)?\.(parquet|jsonl)"
    r"|shard-\d+(\.loss_mask)?\.(bin|idx|meta\.json|rejects\.jsonl)"
)
_SMALL: Final = frozenset({"mapping.json", "report.md", "blend.txt", RUN})
_KEY_CHARS: Final = 16


@dataclass(frozen=True, kw_only=True)
class ShardStore:
    """Where the writers of one result put what came of its shards."""

    url: str
    key: str  # of the run's identity

    @property
    def where(self) -> str:
        """The destination as it may be shown."""
        return redact_urls(self.url)

    @property
    def folder(self) -> str:
        """Where the shards of this result are entered."""
        return f"{STORE_WORK}/{self.key[:_KEY_CHARS]}"

    def committed_error(self) -> CommittedElsewhereError:
        """The error for a result that is there now, and was not when this run began."""
        hint = "run again to see whether its result is the same"
        return CommittedElsewhereError(self.where, "another run committed first", hint)

    def find_shard(self, name: str) -> dict[str, Json] | None:
        """What came of a shard, None where nobody has finished it."""
        return read_json(f"{self.url}/{self.folder}/{name}.json")

    def finished(self) -> set[str]:
        """The names of the shards that are finished."""
        return self.shards_among(list_names(self.url))

    def shards_among(self, names: Iterable[str]) -> set[str]:
        """The names of the shards that files of the destination enter."""
        own = (Path(name) for name in names if name.startswith(f"{self.folder}/"))
        return {name.stem for name in own if name.name != COMMAND_FILE}

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

    def _put_part(self, local: Path, path: str) -> str | None:
        try:
            return put_file(local, f"{self.url}/{path}", if_absent=True)
        except FileExistsError:  # of a run whose claim was replaced, or of a former result
            self.check_claim()
            return put_file(local, f"{self.url}/{path}")

    def check_claim(self) -> None:
        """See that this result is still the one that is written here. Raises OutputError."""
        claim = read_json(f"{self.url}/{_CLAIM}")
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

    @property
    def place(self) -> Path | str:
        """The URL; it holds no secret, for those are refused."""
        return self.store.url

    def list_files(self, known: Iterable[FileEntry]) -> list[FileEntry]:
        """The files of the result: the `known` ones are in the store, the others here."""
        with output_errors(self.out):
            files = [*list_files(self.result), *known]
        return sorted(files, key=lambda one: Path(one["path"]))

    def commit(self, manifest: dict[str, Json], run: dict[str, Json]) -> None:
        """Compare the parts with what their shards said, and put the small files, one at last."""
        url = self.store.url
        files: list[FileEntry] = manifest["files"]
        self.store.check_claim()
        there = list_names(url)
        local = {one["path"] for one in files if (self.result / one["path"]).exists()}
        strange = there.keys() - {one["path"] for one in files} - {RUN, MANIFEST}
        _check_foreign(self.store, filter(_is_own, strange), strange)
        delete(url, filter(_is_own, strange))  # of a run that was replaced
        for one in files:
            if one["path"] not in local:
                self._check_part(one, there.get(one["path"]))
        for name in sorted(local):
            put_file(self.result / name, f"{url}/{name}")
        put_bytes(encode_json(run), f"{url}/{RUN}")
        self.store.check_claim()
        try:
            put_bytes(encode_json(manifest), f"{url}/{MANIFEST}", if_absent=True)
        except FileExistsError as error:
            raise self.store.committed_error() from error
        _clear_work(self.store, there)

    def _check_part(self, part: FileEntry, there: StoredFile | None) -> None:
        """See that a part is what its shard put there; else its shard is to be converted again."""
        path, said = part["path"], self.etags.get(part["path"])
        if there is not None and there.bytes == part["bytes"]:
            url = f"{self.store.url}/{path}"
            if there.etag == said or holds_sha256(url, part["sha256"]):
                return
        number = Path(path).name.partition("-")[2].partition(".")[0].partition("_")[0]
        delete(self.store.url, [f"{self.store.folder}/{int(number):06d}.json"])
        problem = f"{path} is not what was written there"
        hint = "run the same command again, when nothing else writes there: its shard is made anew"
        raise OutputError(self.store.where, problem, hint)


def _is_own(name: str) -> bool:
    return name in _SMALL or _PARTS.fullmatch(name) is not None


def _check_foreign(store: ShardStore, own: Iterable[str], there: Iterable[str]) -> None:
    """Refuse files that neither a result nor a run of ingot has written."""
    foreign = sorted(name for name in {*there} - {*own} if not name.startswith(f"{STORE_WORK}/"))
    if foreign:
        problem = f"holds files that are not part of the result, such as {foreign[0]}"
        raise OutputError(store.where, problem, "move them away, or choose another folder")


def check_store(url: str) -> None:
    """See that a store can be reached, before anything costly is done. Raises OutputError."""
    read_json(f"{check_url(url)}/{_CLAIM}")


def _find_finished(
    store: ShardStore, there: dict[str, StoredFile], manifest: dict[str, Json] | None
) -> FinishedResult | None:
    """The finished result of which this is the manifest, None if a file of it is gone or cut."""
    if manifest is None or not has_counts(manifest):
        return None
    sizes = [(one.get("path"), one.get("bytes")) for one in manifest.get("files") or []]
    if any(name not in there or there[name].bytes != size for name, size in sizes):
        return None
    run = read_json(f"{store.url}/{RUN}") or {}
    return FinishedResult(folder=Path(store.where), manifest=manifest, run=run)


@contextmanager
def stage_in_store(
    url: str,
    identity: "RunIdentity",
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
    there = list_names(store.url)
    manifest = own_manifest(read_json(f"{store.url}/{MANIFEST}")) if MANIFEST in there else None
    found = _find_finished(store, there, manifest)
    differs = identity.difference(found) if found else None
    with tempfile.TemporaryDirectory(prefix="ingot-") as folder:
        work, result = Path(folder, "work"), Path(folder, "result")
        held = StoredResult(out=result, work=work, result=result, store=store)
        if found is not None and differs is None:
            _clear_work(store, there)
            yield replace(held, done=found)
            return
        _check_free(store, there, manifest, overwrite=overwrite, differs=differs)
        goes_on = _claim(store, there, identity, overwrite=overwrite)
        work.mkdir()
        result.mkdir()
        if shard is not None and not shard.merges:
            put_bytes(command_document(), f"{store.url}/{store.folder}/{COMMAND_FILE}")
        done = goes_on * len(store.shards_among(there))
        try:
            yield replace(held, resumed=done > 0, shards_found=done)
        except WorkerDiedError:
            raise
        except ConversionError:
            if shard is None:
                _discard(store)
            raise


def _check_free(
    store: ShardStore,
    there: dict[str, StoredFile],
    manifest: dict[str, Json] | None,
    *,
    overwrite: bool,
    differs: str | None,
) -> None:
    """Refuse files of others, and without `overwrite` a result."""
    if manifest is not None and not overwrite:
        problem = f"holds another result: {differs}" if differs else "holds a damaged result"
        hint = "choose another folder, or replace the result with `overwrite`"
        raise OutputError(store.where, problem, hint)
    listed = {one.get("path") for one in (manifest or {}).get("files") or []}
    begun = filter(_is_own, there) if manifest or _CLAIM in there else ()
    _check_foreign(store, {*listed, *begun, *([MANIFEST] if manifest else [])}, there)


def _claim(
    store: ShardStore, there: dict[str, StoredFile], identity: "RunIdentity", *, overwrite: bool
) -> bool:
    """Claim the destination, and remove what is replaced; whether an unfinished run goes on."""
    claim = read_json(f"{store.url}/{_CLAIM}")
    ours = claim is not None and claim.get("key") == store.key
    if ours and MANIFEST not in there:
        return True
    if claim is not None and not ours:
        if not overwrite:
            raise _claimed_error(store, claim, identity)
        delete(store.url, [_CLAIM])
    if not ours and not _create_claim(store, identity):
        return True
    if MANIFEST not in there and read_json(f"{store.url}/{MANIFEST}") is not None:
        delete(store.url, [_CLAIM])  # it came since the destination was listed
        raise store.committed_error()
    # The manifest first, so that a result that lacks files never has one.
    rest = [name for name in there if name not in (MANIFEST, _CLAIM)]
    delete(store.url, [MANIFEST, *rest] if MANIFEST in there else rest)
    return False


def _create_claim(store: ShardStore, identity: "RunIdentity") -> bool:
    """Create the claim; False where another writer of the same result has just done so."""
    since = datetime.now(UTC).isoformat(timespec="seconds")
    claim = {"key": store.key, "settled": identity.settled, "since": since, "host": host_facts()}
    try:
        put_bytes(encode_json(claim), f"{store.url}/{_CLAIM}", if_absent=True)
    except FileExistsError:
        first = read_json(f"{store.url}/{_CLAIM}") or {}
        if first.get("key") == store.key:
            return False
        raise _claimed_error(store, first, identity) from None
    return True


def _claimed_error(
    store: ShardStore, claim: dict[str, Json], identity: "RunIdentity"
) -> OutputError:
    from ingot.converters.output.identity import describe_difference

    theirs = claim.get("settled") or {}
    differs = describe_difference(identity.settled, theirs, identity.words) or "other input files"
    problem = f"another run is writing there since {claim.get('since')}: {differs}"
    hint = "wait for it or choose another folder; if it is dead, replace it with `overwrite`"
    return OutputError(store.where, problem, hint)


def find_store_commands(url: str) -> list[dict[str, Json]]:
    """What the parts of jobs noted of their commands, see `sharding.find_commands`."""
    work = f"{check_url(url)}/{STORE_WORK}"
    named = (name for name in list_names(work) if Path(name).name == COMMAND_FILE)
    return [read_json(f"{work}/{name}") or {} for name in named]


def _discard(store: ShardStore) -> None:
    """Remove what an unfinished run wrote, if the claim is still its own."""
    with suppress(OutputError):  # people are told what is wrong with the data
        store.check_claim()
        there = list_names(store.url)
        delete(store.url, filter(_is_own, there))
        _clear_work(store, there)


def _clear_work(store: ShardStore, there: Iterable[str]) -> None:
    """Remove the shards of a result, then its claim; those of another one stay."""
    delete(store.url, [name for name in there if name.startswith(f"{store.folder}/")])
    claim = read_json(f"{store.url}/{_CLAIM}") if _CLAIM in there else None
    if claim is not None and claim.get("key") == store.key:
        delete(store.url, [_CLAIM])
