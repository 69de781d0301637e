"""The one place where errors of storage, compression and file formats become `SourceError`.

It imports none of the libraries that raise them, so that `redact_urls` costs nothing.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar
from urllib.parse import urlsplit

from ingot.converters.errors import SourceError, StorageError, error_text

# Modules whose exceptions say that the data is damaged.
_LIBRARIES: Final = ("zlib", "lzma", "_lzma", "zipfile", "tarfile", "zstandard", "pyarrow")
_DAMAGE_ERRORS = (UnicodeError, ValueError, NotImplementedError, RuntimeError)


@contextmanager
def translate_read_errors(where: str, problem: str = "cannot read it") -> Iterator[None]:
    """Translate what goes wrong while `where` is read; `problem` says what cannot be done."""
    try:
        yield
    except SourceError:
        raise
    except FileNotFoundError as error:
        raise SourceError(where, "no such file or folder", "check the spelling") from error
    except PermissionError as error:
        raise SourceError(where, "no permission to read it", "check its access rights") from error
    except EOFError as error:
        raise truncated_error(where) from error
    except ImportError as error:
        raise SourceError(where, error_text(error), "install the package it names") from error
    except Exception as error:
        if not isinstance(error, (OSError, *_DAMAGE_ERRORS)) and not _is_damage(error):
            raise
        hint = "is the file whole? fetch or copy it again"
        raise SourceError(where, f"{problem}: {error_text(error)}", hint) from error


def _is_damage(error: Exception) -> bool:
    """Whether one of the libraries that read files raised it."""
    modules = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return not modules.isdisjoint(_LIBRARIES)


def truncated_error(where: str, detail: str = "the compressed data ends too early") -> SourceError:
    """The error for data that stops in the middle."""
    return SourceError(where, f"cut off: {detail}", "fetch or copy the file again")


T = TypeVar("T")

RETRIES: Final = "INGOT_STORAGE_RETRIES"
TIMEOUT: Final = "INGOT_STORAGE_TIMEOUT"
FIRST_RETRIES: Final = 2  # of what is asked first: a name that is wrong is not worth a long wait
HINT: Final = "check the network, the name and the credentials"
_FIRST_WAIT = 0.2
_GROWTH = 3
_LONGEST_WAIT = 15
_TRANSIENT_STATUSES = (408, 425, 429)  # of the statuses that say that the request is wrong

_FINAL_ERRORS = (
    FileNotFoundError,
    PermissionError,
    IsADirectoryError,
    NotADirectoryError,
    ValueError,
    ImportError,
)


def silence_timeout() -> float:
    """Seconds without a byte after which a storage counts as gone. Raises SourceError."""
    return _number_setting(TIMEOUT, 30.0, 1.0)


def retry_count() -> int:
    """How often a read that failed is tried again. Raises SourceError."""
    return int(_number_setting(RETRIES, 5, 0))


def _number_setting(name: str, usual: float, least: float) -> float:
    text = os.environ.get(name)
    if not text:
        return usual
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not least <= value <= 86_400:
        raise SourceError(name, f"{text[:40]!r} is no number from {least:g} to 86400", "correct it")
    return value


def call_with_retries(url: str, act: Callable[[], T], most: int | None = None) -> T:
    """What `act` gives; it is called again after a failure that may pass."""
    from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential

    again = Retrying(
        stop=stop_after_attempt(1 + (retry_count() if most is None else min(most, retry_count()))),
        wait=wait_exponential(multiplier=_FIRST_WAIT, exp_base=_GROWTH, max=_LONGEST_WAIT),
        retry=retry_if_exception(is_transient),
        reraise=True,
    )
    with translate_remote_errors(url):
        return again(act)


def is_transient(error: BaseException) -> bool:
    """Whether an error may be gone the next time."""
    error = underlying_error(error)
    if not isinstance(error, Exception) or isinstance(error, (SourceError, *_FINAL_ERRORS)):
        return False
    status = _http_status(error)
    return status is None or not 300 <= status < 500 or status in _TRANSIENT_STATUSES


def underlying_error(error: BaseException) -> BaseException:
    """What an error stands for: fsspec says of whatever ails a web address that it is not there."""
    cause = error.__cause__
    if (
        not isinstance(error, FileNotFoundError)
        or cause is None
        or _http_status(cause) in (404, 410)
    ):
        return error
    of_client = type(cause).__module__.partition(".")[0] == "aiohttp"
    return cause if of_client or isinstance(cause, ConnectionError | TimeoutError) else error


def _http_status(error: BaseException) -> int | None:
    """The HTTP status in an error of a client: they name it differently."""
    for holder, name in (
        (error, "status"),
        (getattr(error, "response", None), "status_code"),
        (error, "code"),
    ):
        if isinstance(value := getattr(holder, name, None), int):
            return value
    return None


@contextmanager
def translate_remote_errors(url: str) -> Iterator[None]:
    """Translate what goes wrong between here and a remote storage, once.

    Every storage has errors of its own without a common base. What says that the data is not there
    or not allowed is a `SourceError`; all else means that the storage does not answer.
    """
    try:
        yield
    except SourceError:
        raise
    except Exception as error:
        with translate_read_errors(redact_urls(url), "cannot open it"):
            raise _translate_error(redact_urls(url), underlying_error(error)) from error


def _translate_error(where: str, error: BaseException) -> BaseException:
    """What an error of a storage is to ingot; what `reading` translates stays as it is."""
    if isinstance(error, _FINAL_ERRORS):
        return error
    if _http_status(error) in (401, 403):
        return SourceError(where, "no permission to read it", "check the credentials")
    return StorageError(where, f"cannot be reached: {redact_urls(error_text(error))}", HINT)


_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"<>]+")
_USER = re.compile(r"://[^/?#\s]*@")
_SECRET = re.compile(
    r"([?&;][^=&;#]*(?:sig|sign|token|secret|key|pass|pwd|auth|cred|session|amz|goog)[^=&;#]*=)[^&;#]*",
    re.IGNORECASE,
)


def redact_urls(text: str) -> str:
    """A URL, or a text with URLs, without users, passwords, keys and signatures.

    The user of `hdfs://user@host` goes too: what stands before an `@` may be a key.
    """
    return _URL.sub(lambda found: _SECRET.sub(r"\1***", _USER.sub("://***@", found[0])), text)


def refuse_secrets(url: str) -> None:
    """Refuse keys in the URL of a bucket: they would be seen by all who see the command."""
    if "@" in urlsplit(url).netloc:
        hint = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment"
        raise SourceError(redact_urls(url), "keys are not taken from a URL", hint)
