"""What goes wrong on the way to a remote storage: told apart, tried again, told without secrets.

What says that data is not there or not allowed is final. All else is tried again, a bounded number
of times with growing waits, and then it is a `StorageError`.

    INGOT_STORAGE_RETRIES   how often a read is tried again where it failed (default 5)
    INGOT_STORAGE_TIMEOUT   seconds of silence that a storage may keep (default 30)
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar
from urllib.parse import urlsplit

from ingot.converters.errors import SourceError, StorageError
from ingot.converters.readers.faults import reading

T = TypeVar("T")

RETRIES: Final = "INGOT_STORAGE_RETRIES"
TIMEOUT: Final = "INGOT_STORAGE_TIMEOUT"
FIRST_RETRIES: Final = 2  # of what is asked first: a name that is wrong is not worth a long wait
HINT: Final = "check the network, the name and the credentials"
_FIRST_WAIT = 0.2
_GROWTH = 3
_LONGEST_WAIT = 15
_PASSING = (408, 425, 429)  # of the statuses that say that the request is wrong

_NOT_THERE = (
    FileNotFoundError,
    PermissionError,
    IsADirectoryError,
    NotADirectoryError,
    ValueError,
    ImportError,
)


def silence() -> float:
    """Seconds without a byte after which a storage counts as gone. Raises SourceError."""
    return _number(TIMEOUT, 30.0, 1.0)


def retries() -> int:
    """How often a read that failed is tried again. Raises SourceError."""
    return int(_number(RETRIES, 5, 0))


def _number(name: str, usual: float, least: float) -> float:
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


def persistent(url: str, act: Callable[[], T], most: int | None = None) -> T:
    """What `act` gives; it is called again after a failure that may pass.

    Args:
        url: what is reached, for messages.
        act: asks the storage; can be called several times.
        most: how often it is tried again; None = as the user set it.

    Raises:
        SourceError: not there, not allowed, an unknown protocol or a package that is missing.
        StorageError: the storage cannot be reached.
    """
    from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential

    again = Retrying(
        stop=stop_after_attempt(1 + (retries() if most is None else min(most, retries()))),
        wait=wait_exponential(multiplier=_FIRST_WAIT, exp_base=_GROWTH, max=_LONGEST_WAIT),
        retry=retry_if_exception(may_pass),
        reraise=True,
    )
    with reaching(url):
        return again(act)


def may_pass(error: BaseException) -> bool:
    """Whether an error may be gone the next time."""
    error = behind(error)
    if not isinstance(error, Exception) or isinstance(error, (SourceError, *_NOT_THERE)):
        return False
    status = _status(error)
    return status is None or not 300 <= status < 500 or status in _PASSING


def behind(error: BaseException) -> BaseException:
    """What an error stands for: fsspec says of whatever ails a web address that it is not there."""
    cause = error.__cause__
    if not isinstance(error, FileNotFoundError) or cause is None or _status(cause) in (404, 410):
        return error
    of_client = type(cause).__module__.partition(".")[0] == "aiohttp"
    return cause if of_client or isinstance(cause, ConnectionError | TimeoutError) else error


def _status(error: BaseException) -> int | None:
    """The HTTP status in an error of a client: they name it differently."""
    for holder, name in ((error, "status"), (_response(error), "status_code"), (error, "code")):
        if isinstance(value := getattr(holder, name, None), int):
            return value
    return None


def _response(error: BaseException) -> object:
    return getattr(error, "response", None)


@contextmanager
def reaching(url: str) -> Iterator[None]:
    """Translate what goes wrong between here and a remote storage, once.

    Every storage has errors of its own without a common base. What says that the data is not there
    or not allowed is a `SourceError`; all else means that the storage does not answer.

    Raises:
        SourceError: no such file, no permission, an unknown protocol or a package that is missing.
        StorageError: the storage cannot be reached.
    """
    try:
        yield
    except SourceError:
        raise
    except Exception as error:
        with reading(redacted(url), "cannot open it"):
            raise _translated(redacted(url), behind(error)) from error


def _translated(where: str, error: BaseException) -> BaseException:
    """What an error of a storage is to ingot; what `reading` translates stays as it is."""
    if isinstance(error, _NOT_THERE):
        return error
    if _status(error) in (401, 403):
        return SourceError(where, "no permission to read it", "check the credentials")
    text = str(error).strip().splitlines() or [type(error).__name__]
    return StorageError(where, f"cannot be reached: {redacted(text[0])[:300]}", HINT)


_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"<>]+")
_USER = re.compile(r"://[^/?#\s]*@")
_SECRET = re.compile(
    r"([?&;][^=&;#]*(?:sig|sign|token|secret|key|pass|pwd|auth|cred|session|amz|goog)[^=&;#]*=)[^&;#]*",
    re.IGNORECASE,
)


def redacted(text: str) -> str:
    """A URL, or a text with URLs, without users, passwords, keys and signatures.

    The user of `hdfs://user@host` goes too: what stands before an `@` may be a key.
    """
    return _URL.sub(lambda found: _without_secrets(found[0]), text)


def _without_secrets(url: str) -> str:
    return _SECRET.sub(r"\1***", _USER.sub("://***@", url))


def refuse_secrets(url: str) -> None:
    """Refuse keys in the URL of a bucket: they would be seen by all who see the command.

    Raises:
        SourceError: there is a user or a password in it.
    """
    if "@" in urlsplit(url).netloc:
        hint = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment"
        raise SourceError(redacted(url), "keys are not taken from a URL", hint)
