"""The errors of ingot: one class per situation that a caller catches, and foreign errors as these.

A command ends with the `ExitCode` of the error that ended it.

IngotError
├── SourceError      the raw data cannot be read              exit 1
│   └── StorageError its storage cannot be reached            exit 4
├── MappingError     a mapping file is wrong, all problems    exit 2
│   ├── FeaturemapError the same of a featuremap              exit 2
│   └── ParametersError the same of a file of parameters      exit 2
├── ConversionError  a conversion cannot go on                exit 1
│   ├── NoTokensError no text gives a token                   exit 1
│   └── DriftError   the data's shape is not the mapping's    exit 1
├── OutputError      the destination cannot be written        exit 1
│   ├── CommittedElsewhereError another run committed first   exit 1
│   └── UnreachableStoreError its storage cannot be reached   exit 4
├── RevisionError    there is no such revision or repository  exit 2
├── ReviewNeeded     a person has to decide before going on   exit 3
│   └── CountsReviewNeeded counts of all rows pass a gate     exit 3
├── BudgetReached    one more question passes a limit         exit 3
└── ModelError       an LLM endpoint failed                   exit 4

Fields are positional, so that errors survive pickling between processes; the text is made in
`__str__`.
Foreign errors are translated once, at the boundary, with `raise ... from`.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from importlib.util import find_spec
from typing import Annotated, Final, cast

# Of a field of a dataclass: in its JSON (json_yaml.encode) it stands only if it has been set.
OMIT = "left out where it has its default"


class ExitCode(IntEnum):
    """How a command ended, for whoever started it; docs/cli.md says when to try again."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    PERSON_NEEDED = 3
    UNREACHABLE = 4
    PART_DONE = 5
    INTERRUPTED = 130  # 128 and the number of the signal, as shells count
    TERMINATED = 143


class IngotError(Exception):
    """Base of everything that ingot raises on purpose; `exit_code` is the process's exit status."""

    exit_code = ExitCode.FAILED


class _LocatedError(IngotError):
    """An error with a place, a problem and what to do about it."""

    def __init__(self, where: str, problem: str, hint: str = "") -> None:
        super().__init__(where, problem, hint)
        self.where = where
        self.problem = problem
        self.hint = hint

    def hide(self, redact: Callable[[str], str]) -> None:
        """Redact what the problem quotes; class and fields stay."""
        self.problem = redact(self.problem)
        self.args = (self.where, self.problem, *self.args[2:])

    @property
    def summary(self) -> str:
        """Return the place and the problem, without what to do about it."""
        return f"{self.where}: {self.problem}" if self.where else self.problem

    def __str__(self) -> str:
        return f"{self.summary} ({self.hint})" if self.hint else self.summary


class SourceError(_LocatedError):
    """The raw data cannot be read. Fields: where (file, URL or folder), problem, hint."""


class StorageError(SourceError):
    """A storage that holds raw data cannot be reached. Fields: where (URL), problem, hint."""

    exit_code = ExitCode.UNREACHABLE


class ConversionError(_LocatedError):
    """A conversion cannot go on. Fields: where, problem, hint."""


class DriftError(ConversionError):
    """The data has not the shape that the mapping was made for. Fields: where, problem, hint."""


class NoTokensError(ConversionError):
    """There are texts, and none of them gives a token. Fields: where, problem, hint."""


class OutputError(_LocatedError):
    """The destination cannot be written or is taken. Fields: where, problem, hint."""


class CommittedElsewhereError(OutputError):
    """Another run has committed a result there meanwhile. Fields: where, problem, hint."""


class UnreachableStoreError(OutputError):
    """A storage that results go to cannot be reached. Fields: where (URL), problem, hint."""

    exit_code = ExitCode.UNREACHABLE


class RevisionError(_LocatedError):
    """What is to be reviewed cannot be found. Fields: where (revision or folder), problem, hint."""

    exit_code = ExitCode.USAGE


class ReviewNeeded(_LocatedError):  # noqa: N818 - a state, not a mistake
    """A person has to decide. Fields: where (the proposal), problem (why), hint (the command)."""

    exit_code = ExitCode.PERSON_NEEDED


class CountsReviewNeeded(ReviewNeeded):
    """A gate on all rows stops a conversion, whose parts are kept.

    Fields: where (the source), problem, hint, counts (by gate the rows; who approves them goes on).
    """

    def __init__(self, where: str, problem: str, hint: str, counts: dict[str, int]) -> None:
        super().__init__(where, problem, hint)
        self.args = (where, problem, hint, counts)
        self.counts = counts


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong in a mapping."""

    pointer: str  # a JSON Pointer into the mapping document
    code: str  # an error name of the language reference (`bad_path`, ...), or `schema`
    expected: str
    got: str
    nearest: str | None = None  # the closest path that exists
    path: Annotated[str, OMIT] = ""  # what it is about, as the mapping spells it, "" = nothing
    values: Annotated[tuple[tuple[str, int], ...], OMIT] = ()  # found there, each with how often
    words: Annotated[str, OMIT] = ""  # the same for a person, "" = as the fields above say it
    command: Annotated[str, OMIT] = ""  # of `ingot chat`, which solves it, "" = none does

    def __str__(self) -> str:
        if not self.words:
            return self.detail
        solved = f" In chat: {self.command}" if self.command else ""
        return f"{self.words}{solved} ({self.pointer or '/'}: {self.code})"

    @property
    def typed(self) -> str:
        """Return the problem in words, with the command for a person who may type it."""
        solved = f" Type: {self.command}" if self.command else ""
        return f"{self.words or self.detail}{solved}"

    @property
    def detail(self) -> str:
        """Return the problem as whoever writes the document reads it."""
        text = f"{self.pointer or '/'}: {self.code}: expected {self.expected}, got {self.got}"
        return f"{text}; nearest: {self.nearest}" if self.nearest else text


class MappingError(IngotError):
    """A mapping is wrong; carries every problem at once. Fields: where, problems."""

    exit_code = ExitCode.USAGE
    noun = "mapping"

    def __init__(self, where: str, problems: tuple[Problem, ...]) -> None:
        super().__init__(where, problems)
        self.where = where
        self.problems = problems

    def __str__(self) -> str:
        if [one.code for one in self.problems] == ["unreadable"]:  # no mapping, so none in it
            return f"{self.where}: {self.problems[0].got}"
        count = count_text(len(self.problems), "problem")
        return "\n  ".join([f"{self.where}: {count} in the {self.noun}", *map(str, self.problems)])


class FeaturemapError(MappingError):
    """A featuremap is wrong; carries every problem at once. Fields: where (file), problems."""

    noun = "featuremap"


class ParametersError(MappingError):
    """A file of parameters is wrong; carries every problem at once. Fields: where, problems."""

    noun = "parameters"


class BudgetReached(_LocatedError):  # noqa: N818 - a state, not a mistake
    """One more question to a model would pass a limit that the user set; it was not asked.

    Fields: where, problem (which limit, what is spent), hint (the option that raises it). `notes`
    say what was found out before, as a reply's do; they travel along when it is pickled.
    """

    exit_code = ExitCode.PERSON_NEEDED
    notes: tuple[str, ...] = ()


class ModelError(_LocatedError):
    """An LLM endpoint failed.

    Fields: where (host or model), problem, hint, kind (one of `KINDS`, empty if no endpoint was
    asked). `notes` say what was found out before, as a reply's do; they travel along when it is
    pickled.
    """

    exit_code = ExitCode.UNREACHABLE
    notes: tuple[str, ...] = ()
    KINDS = (
        *("unreachable", "timeout", "rate_limited", "quota", "server_error", "unauthorized"),
        *("no_such_model", "refused", "blank", "redirect", "not_openai", "too_large"),
        "bad_request",
    )

    def __init__(self, where: str, problem: str, hint: str = "", kind: str = "") -> None:
        super().__init__(where, problem, hint)
        self.args = (where, problem, hint, kind)
        self.kind = kind


def count_text(number: float, noun: str) -> str:
    """Return a count with its noun: `1 row`, `2 rows`, `1,200 rows`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def error_text(error: BaseException) -> str:
    """Return the reason of a foreign error on one line of at most 300 characters."""
    text = getattr(error, "strerror", None) or str(error)
    lines = str(text).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__


_NO_NAME = re.compile(
    r"(?:[Nn]ame|host).{0,20}(?:resol|not known)|getaddrinfo|resolve host|address associated"
)
STORAGE_HINT = "check the network, the name and the credentials"
TRANSIENT_STATUSES = (408, 425, 429)  # of the statuses that say that the request is wrong
_NO_FILE = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)
FINAL_ERRORS = (*_NO_FILE, ValueError, ImportError)


def is_transient(error: BaseException) -> bool:
    """Return whether an error may be gone the next time."""
    error = underlying_error(error)
    if not isinstance(error, Exception) or isinstance(error, (SourceError, *FINAL_ERRORS)):
        return False
    status = http_status(error)
    return status is None or not 300 <= status < 500 or status in TRANSIENT_STATUSES


def is_unresolved(error: BaseException) -> bool:
    """Return whether the name of a server could not be resolved."""
    return bool(_NO_NAME.search(f"{error} {error.__cause__} {error.__context__}"))


def underlying_error(error: BaseException) -> BaseException:
    """Return the error that caused another: fsspec reports any web failure as a missing file."""
    cause = error.__cause__
    if (
        not isinstance(error, FileNotFoundError)
        or cause is None
        or http_status(cause) in (404, 410)
    ):
        return error
    of_client = type(cause).__module__.partition(".")[0] == "aiohttp"
    return cause if of_client or isinstance(cause, ConnectionError | TimeoutError) else error


def http_status(error: BaseException) -> int | None:
    """Return the HTTP status in an error of a client: they name it differently."""
    answer = getattr(error, "response", None)
    if isinstance(answer, dict):  # botocore's
        return cast("int | None", answer.get("ResponseMetadata", {}).get("HTTPStatusCode"))
    named = {"status": error, "status_code": answer, "code": error}
    codes = (getattr(holder, name, None) for name, holder in named.items())
    return next((one for one in codes if isinstance(one, int)), None)


class PanickedError(Exception):
    """Native code panicked; the object it panicked in may be left unusable."""


@contextmanager
def catch_panics() -> Iterator[None]:
    """Turn a panic of native code into PanickedError; interrupts and exits pass."""
    try:
        yield
    except BaseException as error:
        # every extension module has a PanicException of its own, none can be imported
        if type(error).__name__ != "PanicException":
            raise
        raise PanickedError(f"panic: {error}") from error


@contextmanager
def translate_native_errors(kind: type[Exception]) -> Iterator[None]:
    """Raise whatever a library raises, panics included, as one class: none is more precise."""
    try:
        with catch_panics():
            yield
    except Exception as error:
        raise kind(str(error)) from error


class _LibraryError(Exception):
    """What a library raised that raises nothing more precise."""


@contextmanager
def translate_library_errors(
    where: str, problem: str, hint: str = "check the version, or restore the table"
) -> Iterator[None]:
    """Raise what a library raises, panics included, as SourceError; errors of ingot pass."""
    try:
        with translate_native_errors(_LibraryError):
            yield
    except _LibraryError as error:
        if isinstance(error.__cause__, IngotError):
            raise error.__cause__ from error
        message = error_text(error).partition(", /")[0]  # without places in the library's own code
        raise SourceError(where, f"{problem}: {message}", hint) from error


# Modules whose exceptions say that the data is damaged.
_LIBRARIES: Final = ("zlib", "lzma", "_lzma", "zipfile", "tarfile", "zstandard", "pyarrow")
_DAMAGE_ERRORS = (UnicodeError, ValueError, NotImplementedError, RuntimeError)


class translate_read_errors:  # noqa: N801 - used as a function; a generator takes three times as long
    """Translate what goes wrong while `where` is read; `problem` says what cannot be done."""

    def __init__(self, where: str, problem: str = "cannot read it") -> None:
        self._where, self._problem = where, problem

    def __enter__(self) -> None:
        """Enter the block."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Raise SourceError in place of a foreign error of reading."""
        if isinstance(error, Exception):
            _raise_read_error(self._where, self._problem, error)


def _raise_read_error(where: str, problem: str, error: Exception) -> None:
    """Raise what an error of reading means; nothing for a mistake."""
    if isinstance(error, FileNotFoundError):
        hint = "check the spelling; if it was removed while it was read, by a vacuum too, run again"
        raise SourceError(where, "no such file or folder", hint) from error
    if isinstance(error, PermissionError):
        raise SourceError(where, "no permission to read it", "check its access rights") from error
    if isinstance(error, EOFError):
        raise truncated_error(where) from error
    if isinstance(error, ImportError):
        raise SourceError(where, error_text(error), "install the package it names") from error
    if isinstance(error, MemoryError):
        hint = "is the file complete? it may give a wrong size for its content"
        problem = f"{problem}: it asks for more memory than there is"
        raise SourceError(where, problem, hint) from error
    modules = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    if isinstance(error, (OSError, *_DAMAGE_ERRORS)) or modules & {*_LIBRARIES}:
        hint = "is the file complete? fetch or copy it again"
        raise SourceError(where, f"{problem}: {error_text(error)}", hint) from error


def truncated_error(where: str, detail: str = "the compressed data ends too early") -> SourceError:
    """Return the error for data that stops in the middle."""
    return SourceError(where, f"cut off: {detail}", "fetch or copy the file again")


def missing_package(
    where: str, what: str, package: str, extra: str, other_hint: str = ""
) -> SourceError:
    """Return the error for what needs a package that an extra of ingot installs."""
    hint = f'pip install "ingot[{extra}]"{other_hint}'
    return SourceError(where, f"{what} needs the package {package}", hint)


def require_package(
    where: str, what: str, package: str, extra: str, module: str = "", other_hint: str = ""
) -> None:
    """Raise SourceError where a package is not installed. Its module is not imported."""
    if find_spec(module or package.replace("-", "_")) is None:
        raise missing_package(where, what, package, extra, other_hint)


_URL = re.compile(r"(?<![A-Za-z0-9+.-])[A-Za-z0-9+.-]++://[^\s'\"<>]+")
_USER = re.compile(r"://[^/?#\s]*@")  # even of HDFS: it may be a key
_NAMED = "(?:sig|token|secret|key|pass|pwd|auth|cred|session|amz|goog)"
_PLAIN = rf"[?&;](?:(?!{_NAMED})[^=&;#])*+"
# What is no secret is taken too, as far as its name: so no part of a URL is read twice.
_SECRET = re.compile(
    rf"({_PLAIN}{_NAMED}[^=&;#]*+=)[^&;#]*|{_PLAIN}(?:{_NAMED}[^=&;#]*+)?", re.IGNORECASE
)


def redact_urls(text: str) -> str:
    """Return a URL, or a text with URLs, without users, passwords, keys and signatures."""
    return _URL.sub(lambda url: _SECRET.sub(_hide_value, _USER.sub("://***@", url[0])), text)


def _hide_value(found: re.Match[str]) -> str:
    return f"{found[1]}***" if found[1] else found[0]


class ArgumentError(ValueError):
    """An argument of a Python function is wrong. Fields: argument, problem."""

    def __init__(self, argument: str, problem: str) -> None:
        super().__init__(argument, problem)
        self.argument = argument
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.argument}: {self.problem}"


class PartDone(Exception):  # noqa: N818 - no error
    """A part of a job (`--shard`) has done its own `pieces` of the `whole` ones, and ends.

    The command ends with `ExitCode.PART_DONE`. `phase`, such as `1/2`, is one that other parts have
    not done yet; None after the last one.
    """

    def __init__(self, out: str, shard: str, pieces: int, whole: int, phase: str | None) -> None:
        super().__init__(out, shard, pieces, whole, phase)
        self.out, self.shard, self.phase = out, shard, phase
        self.pieces, self.whole = pieces, whole

    def __str__(self) -> str:
        return f"part {self.shard} is done"
