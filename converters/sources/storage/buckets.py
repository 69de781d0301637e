"""Storages that pyarrow brings, as fsspec file systems: S3, Google Cloud Storage, HDFS.

S3 is always read by pyarrow, s3fs installed or not: it is there with every install, it answers each
fault with an error that says what it was, and one way of reading means one behaviour. What it lacks
is made good here:

- a body that is too short passes for a whole one (what is missing is memory that nobody wrote to),
  so reads are checked by their last byte;
- it knows no names with empty parts, `.` or `..`: these are listed apart;
- its listing has no ETag. A changed object has another time of change, which S3 keeps in seconds;
  an open file has its ETag.

Google Cloud Storage is read by gcsfs where that is installed, else by pyarrow.

Endpoint, region and keys come from the environment (docs/readers.md), else from what pyarrow finds.

This module is heavy: import it where a URL is opened.
"""

import datetime as dt
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs as pafs
from fsspec.implementations.arrow import ArrowFSWrapper

from ingot.converters.errors import (
    STORAGE_HINT,
    TRANSIENT_STATUSES,
    SourceError,
    StorageError,
    redact_urls,
)
from ingot.converters.settings import silence_timeout
from ingot.converters.sources.storage.places import entry_mtime_ns

_LISTING_TRIES = 5  # of one request, by the client itself: a listing is many of them
_CONNECT_SECONDS = 10.0
_GCS_SECONDS = 2.0  # that its client tries by itself; what fails is tried again anyway
_AWS = re.compile(r"AWS Error (\w+)(?: \(HTTP status (\d+)\))?")
# Some are told with status 400, or with none.
_DENIED = re.compile("ACCESS_DENIED|ACCESS_KEY|SIGNATURE|TOKEN|UNRECOGNIZED_CLIENT")
_MISSING = ("NO_SUCH_BUCKET", "NO_SUCH_KEY", "RESOURCE_NOT_FOUND")
_KEYS = (
    "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY or AWS_PROFILE; open data is read with"
    " AWS_SKIP_SIGNATURE=true"
)


class BucketFileSystem(ArrowFSWrapper):  # type: ignore[misc] # fsspec has no types
    """A file system of pyarrow that lists a tree in as few requests as it can."""

    cachable = False

    def __init__(
        self, fs: pafs.FileSystem, root: str, reader: pafs.FileSystem | None = None
    ) -> None:
        super().__init__(fs)
        self.root = root
        self.reader = reader or fs

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path

    def unstrip_protocol(self, name: str) -> str:
        """Return the URL of a path."""
        return self.root + name

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:  # noqa: ANN401 - fsspec's
        """Return the size, type and modification time of a path."""
        with translate_s3_errors(self.unstrip_protocol(path)):
            return dict(super().info(path, **kwargs))

    def find(
        self,
        path: str,
        maxdepth: int | None = None,
        withdirs: bool = False,
        detail: bool = False,
        **kwargs: Any,  # noqa: ANN401 - fsspec's
    ) -> dict[str, dict[str, Any]] | list[str]:
        """List everything below a path in one listing."""
        with translate_s3_errors(self.unstrip_protocol(path)):
            selector = pafs.FileSelector(path, recursive=maxdepth != 1, allow_not_found=True)
            infos = list(map(self._make_entry, self.fs.get_file_info(selector)))
        top = path.rstrip("/")
        entries = {
            info["name"]: info
            for info in infos
            if (withdirs or info["type"] == "file")
            and info["name"].removeprefix(top).strip("/").count("/") < (maxdepth or 1e9)
        }
        return entries if detail else list(entries)

    def read_from(self, path: str) -> "BucketFile":
        """Open a file for reading. Raises OSError, SourceError."""
        with translate_s3_errors(self.unstrip_protocol(path)):
            return BucketFile(self.reader.open_input_file(path), self.unstrip_protocol(path))


class BucketFile:
    """A file of pyarrow, read by position, with the marks of the object that was opened."""

    seekable = True

    def __init__(self, file: pa.NativeFile, url: str) -> None:
        self._file, self._url = file, url
        metadata = {
            name: value.decode("utf-8", "replace") for name, value in file.metadata().items()
        }
        self.size: int | None = int(file.size())
        self.etag = metadata.get("ETag")
        self.mtime_ns: int | None = None
        with suppress(KeyError, ValueError):
            changed = dt.datetime.fromisoformat(metadata["Last-Modified"])
            self.mtime_ns = entry_mtime_ns({"mtime": changed})

    def read(self, start: int, size: int) -> bytearray:
        """Read exactly `size` bytes from `start`; all of them have to be in the file."""
        with translate_s3_errors(self._url):
            data = self._read_marked(start, size, 0x5A)
            if data[-1] == 0x5A and self._read_marked(start + size - 1, 1, 0xA5)[0] != 0x5A:
                raise OSError(f"its answer lacks bytes of {start}-{start + size - 1}")
            return data

    def _read_marked(self, start: int, size: int, mark: int) -> bytearray:
        """Read over a buffer whose last byte is `mark`: bytes come in order, the last one last."""
        data = bytearray(size)
        data[-1] = mark
        self._file.seek(start)
        if self._file.readinto(data) != size:
            raise OSError(f"its answer ends within {start}-{start + size - 1}")
        return data

    def close(self) -> None:
        """Let go of it."""
        self._file.close()


@contextmanager
def translate_s3_errors(url: str) -> Iterator[None]:
    """Tell errors of pyarrow's S3 that are final from others, which stay as they are."""
    try:
        yield
    except OSError as error:
        if not (known := _AWS.search(str(error))):
            raise
        where, name, status = redact_urls(url), known[1], int(known[2] or 0)
        if name in _MISSING or status == 404:
            problem = "no such bucket" if name == "NO_SUCH_BUCKET" else "no such file or folder"
            raise SourceError(where, problem, "check the spelling") from error
        if _DENIED.search(name) or status in (401, 403):
            raise SourceError(where, "no permission to read it", _KEYS) from error
        if 300 <= status < 500 and status not in TRANSIENT_STATUSES:
            hint = "is AWS_REGION the bucket's?" if status in (301, 307, 400) else STORAGE_HINT
            raise StorageError(where, f"refused with status {status}", hint) from error
        raise


def bucket_file_system(url: str, scheme: str) -> tuple[BucketFileSystem, str]:
    """Return the file system of an `s3://`, `gs://` or `hdfs://` URL, and the path inside it."""
    rest = url.partition("://")[2]
    netloc, _, path = rest.partition("/")
    if scheme == "hdfs":
        return BucketFileSystem(_hdfs_client(netloc), f"hdfs://{netloc}"), f"/{path}"
    if "@" in netloc:  # they would be seen by all who see the command
        hint = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment"
        raise SourceError(redact_urls(url), "keys are not taken from a URL", hint)
    path = rest.rstrip("/")
    if not path:
        raise SourceError(url, "no bucket is named", f"{scheme}://BUCKET/FOLDER")
    if any(part in ("", ".", "..") for part in path.split("/")):
        raise SourceError(url, "its name has empty parts, `.` or `..`", "check the spelling")
    if scheme == "gs":
        client = _gcs_client(_is_true_setting("GOOGLE_SKIP_SIGNATURE"), silence_timeout())
        return BucketFileSystem(client, "gs://"), path
    settings = tuple(_s3_settings(netloc).items())
    reader = _s3_client(settings, 1)
    return BucketFileSystem(_s3_client(settings, _LISTING_TRIES), "s3://", reader=reader), path


def _is_true_setting(name: str) -> bool:
    return os.environ.get(name, "").lower() in ("1", "true", "yes")


def _s3_settings(bucket: str) -> dict[str, Any]:
    env, seconds = os.environ, silence_timeout()
    endpoint = env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL") or None
    region = env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION")
    anonymous = _is_true_setting("AWS_SKIP_SIGNATURE")
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    key, secret, token = map(env.get, names)
    keys = {"access_key": key, "secret_key": secret, "session_token": token}
    return {
        **(keys if key and secret and not anonymous else {}),
        "anonymous": anonymous,
        "region": region or (None if endpoint else _region_of(bucket)),
        "endpoint_override": endpoint,
        "request_timeout": seconds,
        "connect_timeout": min(seconds, _CONNECT_SECONDS),
    }


@lru_cache(maxsize=8)
def _s3_client(settings: tuple[tuple[str, Any], ...], tries: int) -> pafs.FileSystem:
    """A client; it keeps its connections, so there is one for all files of the same settings."""
    again = pafs.AwsDefaultS3RetryStrategy(max_attempts=tries)
    return pafs.S3FileSystem(**dict(settings), retry_strategy=again)


@lru_cache(maxsize=256)
def _region_of(bucket: str) -> str:
    """The region that a bucket of Amazon says it is in."""
    where = f"s3://{bucket}"
    try:
        return str(pafs.resolve_s3_region(bucket))
    except (OSError, pa.ArrowInvalid) as error:
        if "not found" in str(error):
            raise SourceError(where, "no such bucket", "check the spelling") from error
        hint = "check the network; AWS_ENDPOINT_URL names another S3 than Amazon's"
        raise StorageError(where, "its region could not be found out", hint) from error


@lru_cache(maxsize=4)
def _gcs_client(anonymous: bool, seconds: float) -> pafs.FileSystem:
    limit = dt.timedelta(seconds=min(seconds, _GCS_SECONDS))
    return pafs.GcsFileSystem(anonymous=anonymous, retry_time_limit=limit)


@lru_cache(maxsize=8)
def _hdfs_client(netloc: str) -> pafs.FileSystem:
    parts = urlsplit(f"hdfs://{netloc}")
    try:
        return pafs.HadoopFileSystem(
            parts.hostname or "default", parts.port or 0, user=parts.username
        )
    except OSError as error:
        if "libhdfs" not in str(error):
            raise
        hint = "install Hadoop's client; set HADOOP_HOME, JAVA_HOME, CLASSPATH (ARROW_LIBHDFS_DIR)"
        raise SourceError(f"hdfs://{netloc}", "libhdfs is not found", hint) from error
