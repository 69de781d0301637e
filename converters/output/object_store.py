"""Files of results in object stores: put under their final names, listed, read and deleted.

A store is a file system of fsspec that a URL names: `s3://BUCKET/FOLDER` by s3fs, others by their
packages. A file is put from a finished local one, in one request or as a multipart upload that is
aborted when it fails, so that a name never holds a part of a file. What was put is looked at: its
size and, on S3, its ETag, which is made of the MD5 of the content; where the ETag is another (a
bucket that encrypts with keys of its own), the file is read back.

A request that fails is repeated INGOT_STORAGE_RETRIES times after failures that may pass. A file
that is to be created and is there already with the same content counts as created: the answer to an
earlier request may have been lost.
"""

import hashlib
import json
import math
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from ingot.converters.errors import (
    IngotError,
    OutputError,
    SourceError,
    StorageError,
    UnreachableStoreError,
    error_text,
    http_status,
    is_transient,
    redact_urls,
)
from ingot.converters.output.files import (
    MANIFEST,
    FileEntry,
    cache_folder,
    encode_json,
    hash_file,
    hold_lock,
    is_store_url,
    output_errors,
    write_file,
)
from ingot.converters.rows import Json
from ingot.converters.settings import silence_timeout, storage_retries

T = TypeVar("T")

CHUNK: Final = 16 << 20  # bytes of one part of a multipart upload; S3 has at most 10,000 of them
_CONCURRENCY: Final = 4  # parts of one file at a time: they are held in memory
_FIRST_WAIT = 0.2  # seconds; each is three times the one before, and 15 at most
_CLIENT_TRIES: Final = 3  # of one request by the client of S3, before the whole file is put again
_HINT: Final = (
    "check the network, the name and the credentials, and run the same command again: finished"
    " shards are kept"
)
_USER: Final = re.compile(r"://[^/:]*:[^/@]*@|^s3a?://[^/]*@|\?")
_EXISTS: Final = (412,)
_CONFLICT: Final = 409  # another writer is just creating the same name


@dataclass(frozen=True, slots=True)
class StoredFile:
    """What a listing tells of a file; the ETag is None where the store has none of its content."""

    bytes: int
    etag: str | None


def check_url(url: str) -> str:
    """A URL of a destination without a slash at its end. Raises OutputError for an unfit one."""
    scheme, _, rest = url.rstrip("/").partition("://")
    if _USER.search(url):
        hint = "give them in the environment"
        raise OutputError(redact_urls(url), "keys are not taken from a URL", hint)
    if not rest or any(part in ("", ".", "..") for part in rest.split("/")[scheme == "hdfs" :]):
        problem = "names no bucket, or has empty parts, `.` or `..`"
        raise OutputError(url, problem, f"{scheme if rest else 's3'}://BUCKET/FOLDER")
    return f"{'s3' if scheme == 's3a' else scheme}://{rest}"


def put_file(local: Path, url: str, *, if_absent: bool = False) -> str | None:
    """Put a finished local file under its name; return the ETag where the store has one.

    Raises:
        OutputError: it cannot be written, or what is there afterwards is not the file.
        FileExistsError: with `if_absent`, another content is there.
    """
    system, path = _open_store(url)
    more = {"chunksize": CHUNK} if _is_s3(url) else {}
    mode = "create" if if_absent else "overwrite"
    try:
        _ask(url, lambda: system.put_file(str(local), path, mode=mode, **more))
    except FileExistsError:
        if not _is_same(_find_file(url), url, local, by_size=False):
            raise
    there = _find_file(url)
    if not _is_same(there, url, local):
        problem = "what is there after the file was written is not the file"
        raise OutputError(redact_urls(url), problem, "run the same command again")
    return there.etag


def put_bytes(data: bytes, url: str, *, if_absent: bool = False) -> None:
    """Put a small file under its name. Raises OutputError, FileExistsError as `put_file` does."""
    system, path = _open_store(url)
    mode = "create" if if_absent else "overwrite"
    try:
        _ask(url, lambda: system.pipe_file(path, data, mode=mode))
    except FileExistsError:
        if _ask(url, lambda: system.cat_file(path)) != data:
            raise


def read_json(url: str) -> dict[str, Json] | None:
    """The JSON object behind a URL; None where there is no such file, or it holds none."""
    system, path = _open_store(url)
    try:
        document = json.loads(cast(bytes, _ask(url, lambda: system.cat_file(path))))
    except (FileNotFoundError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def list_names(url: str) -> dict[str, StoredFile]:
    """Every file below a URL, by its name relative to it, in order."""
    system, path = _open_store(url)
    try:
        found = _ask(url, lambda: system.find(path, detail=True))
    except FileNotFoundError:
        return {}
    # s3fs lists a folder under its own name if its first file came meanwhile.
    if found.get(path, {}).get("type") == "file":
        raise OutputError(redact_urls(url), "is a file", "choose a folder that does not exist yet")
    names = {name.removeprefix(path).lstrip("/"): info for name, info in found.items()}
    return {name: _stored_file(names[name]) for name in sorted(names) if name}


def delete(url: str, names: Iterable[str]) -> None:
    """Delete files below a URL, one after the other; a missing file is ignored."""
    for name in names:
        system, path = _open_store(f"{url}/{name}")
        try:
            _ask(url, partial(system.rm_file, path))
        except FileNotFoundError:
            continue


def holds_sha256(url: str, sha256: str) -> bool:
    """Whether the content of a file has this hash; it is read."""
    system, path = _open_store(url)

    def read() -> str:
        digest = hashlib.sha256()
        with system.open(path, "rb", block_size=CHUNK, cache_type="readahead") as stream:
            while data := stream.read(CHUNK):
                digest.update(data)
        return digest.hexdigest()

    return _ask(url, read) == sha256


@contextmanager
def _read_errors(url: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise SourceError(redact_urls(url), "is not there", "check the spelling") from error
    except OutputError as error:
        lost = isinstance(error, UnreachableStoreError)
        raise (StorageError if lost else SourceError)(*error.args) from error


def fetch_file(url: str, local: Path) -> None:
    """Get a file of a store; `local` is there as a whole or not at all. Raises SourceError."""
    system, path = _open_store(url)
    draft = local.with_name(f".{local.name}.{os.getpid()}.tmp")
    try:
        with _read_errors(url):
            _ask(url, lambda: system.get_file(path, str(draft)))
        draft.replace(local)
    finally:
        draft.unlink(missing_ok=True)


def fetch_result(url: str) -> Path:
    """A local copy of a finished result, in the user's cache until somebody deletes it there.

    Every file is got once, and compared with the manifest. Several processes may do this at a time.

    Raises SourceError: there is no finished result, or a file is not what the manifest lists.
    """
    url = check_url(url)
    with _read_errors(url):
        manifest = read_json(f"{url}/{MANIFEST}")
    files: list[FileEntry] | None = (manifest or {}).get("files")
    if manifest is None or not isinstance(files, list):
        raise SourceError(redact_urls(url), "holds no finished result", f"it has no {MANIFEST}")
    data = encode_json(manifest)
    folder = cache_folder("results") or Path(tempfile.gettempdir(), "ingot-results")
    folder /= hashlib.sha256(data).hexdigest()[:32]
    with output_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with hold_lock(folder.with_suffix(".lock"), wait_s=math.inf):
            if not (folder / MANIFEST).exists():
                with ThreadPoolExecutor(_CONCURRENCY) as threads:
                    list(threads.map(partial(_fetch_listed, url, folder), files))
                write_file(folder / MANIFEST, data)
    return folder


def local_folder(place: str | os.PathLike[str]) -> Path:
    """A folder itself, or the local copy of the finished result at a URL; see `fetch_result`."""
    place = os.fspath(place)
    return fetch_result(place) if is_store_url(place) else Path(place)


def _fetch_listed(url: str, folder: Path, file: FileEntry) -> None:
    """Get a file of a result; one that is there was compared when it came."""
    place = f"{url}/{file['path']}"
    local = folder / file["path"]
    if not local.resolve().is_relative_to(folder.resolve()):
        raise SourceError(redact_urls(place), "lies outside the result", "is it ingot's manifest?")
    if local.exists():
        return
    local.parent.mkdir(parents=True, exist_ok=True)
    draft = local.with_name(f".{local.name}.draft")
    fetch_file(place, draft)
    if hash_file(draft) != file["sha256"]:
        draft.unlink()
        raise SourceError(redact_urls(place), "is not what the manifest lists", "convert it again")
    draft.replace(local)


def holds_file(there: StoredFile, url: str, local: Path) -> bool:
    """Whether a file that was listed holds what a local one holds."""
    return _is_same(there, url, local, by_size=False)


def _is_same(there: StoredFile, url: str, local: Path, *, by_size: bool = True) -> bool:
    """Whether a store holds what a local file holds; by its size alone where there is no ETag."""
    if there.bytes != local.stat().st_size:
        return False
    if there.etag is None and by_size:
        return True
    if there.etag is not None and there.etag == _make_etag(local):
        return True
    with local.open("rb") as stream:
        return holds_sha256(url, hashlib.file_digest(stream, "sha256").hexdigest())


def _make_etag(local: Path) -> str:
    """The ETag that S3 gives to a file that `put_file` puts."""
    with local.open("rb") as stream:
        if local.stat().st_size < 2 * CHUNK:  # s3fs puts it in one request
            return hashlib.file_digest(stream, "md5").hexdigest()
        digests = [
            hashlib.md5(data, usedforsecurity=False).digest()
            for data in iter(lambda: stream.read(CHUNK), b"")
        ]
    whole = hashlib.md5(b"".join(digests), usedforsecurity=False)
    return f"{whole.hexdigest()}-{len(digests)}"


def _find_file(url: str) -> StoredFile:
    system, path = _open_store(url)
    return _stored_file(_ask(url, lambda: system.info(path)))


def _stored_file(info: dict[str, Any]) -> StoredFile:
    etag = info.get("ETag")  # of S3; an `etag` of other stores says nothing of the content
    return StoredFile(int(info["size"] or 0), str(etag).strip('"') if etag else None)


def _is_s3(url: str) -> bool:
    return url.startswith("s3://")


def _open_store(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path inside it."""
    try:
        if _is_s3(url):
            env = os.environ
            endpoint = env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL")
            region = env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION")
            system = _s3_client(endpoint, region, silence_timeout(), storage_retries(), os.getpid())
            return system, url.removeprefix("s3://")
        import fsspec

        system, path = fsspec.core.url_to_fs(url, use_listings_cache=False)
    except ImportError as error:
        hint = 'pip install "ingot[s3]"' if _is_s3(url) else "install the package it names"
        raise OutputError(redact_urls(url), error_text(error), hint) from error
    except ValueError as error:  # no such protocol
        raise OutputError(redact_urls(url), error_text(error), "s3://BUCKET/FOLDER") from error
    return system, str(path)


@lru_cache(maxsize=4)
def _s3_client(
    endpoint: str | None, region: str | None, seconds: float, retries: int, _process: int
) -> Any:  # noqa: ANN401 - s3fs has no types
    """A client; keys, where the environment names none, are those that the SDK of S3 finds."""
    try:
        import s3fs
    except ImportError as error:
        raise ImportError("writing to s3:// needs the package s3fs") from error
    tries = {"total_max_attempts": min(_CLIENT_TRIES, 1 + retries), "mode": "standard"}
    limits = {"read_timeout": seconds, "connect_timeout": min(seconds, 10), "retries": tries}
    system = s3fs.S3FileSystem(
        endpoint_url=endpoint,
        client_kwargs={"region_name": region} if region else {},
        config_kwargs=limits,
        max_concurrency=_CONCURRENCY,
        use_listings_cache=False,
        skip_instance_cache=True,
    )
    system.retries = 1  # what the client gives up `_ask` repeats
    return system


def _ask(url: str, act: Callable[[], T]) -> T:
    """What `act` gives; it is called again after a failure that may pass.

    Raises OutputError; FileExistsError and FileNotFoundError are for the caller to judge.
    """
    from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential

    again = Retrying(
        stop=stop_after_attempt(1 + storage_retries()),
        wait=wait_exponential(multiplier=_FIRST_WAIT, exp_base=3, max=15),
        retry=retry_if_exception(_may_pass),
        reraise=True,
    )
    try:
        return again(act)
    except (IngotError, FileExistsError):
        raise
    except Exception as error:
        told = _client_error(error)
        if http_status(told) in _EXISTS:
            raise FileExistsError(redact_urls(url)) from error
        if isinstance(error, FileNotFoundError) and "NoSuchBucket" not in str(told):
            raise
        raise _output_error(url, error, told) from error


def _client_error(error: BaseException) -> BaseException:
    """The error of the client that s3fs made an OSError of: it knows the status."""
    cause = error.__cause__
    return cause if isinstance(error, OSError) and cause and http_status(cause) else error


def _may_pass(error: BaseException) -> bool:
    told = _client_error(error)
    if isinstance(error, IngotError | FileExistsError) or "Credentials" in type(told).__name__:
        return False
    return http_status(told) == _CONFLICT or is_transient(told)


def _output_error(url: str, error: Exception, told: BaseException) -> OutputError:
    where = redact_urls(url)
    if isinstance(error, PermissionError) or http_status(told) in (401, 403):
        return OutputError(where, "no permission", "check the credentials")
    if isinstance(error, FileNotFoundError):
        return OutputError(where, "no such bucket", "make it, or check the spelling")
    kind = UnreachableStoreError if _may_pass(error) else OutputError
    return kind(where, f"the request failed: {redact_urls(error_text(told))}", _HINT)
