"""The one place where errors of storage, compression and file formats become `SourceError`."""

import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import zstandard

from ingot.converters.errors import SourceError

_DAMAGED = (
    zlib.error,
    lzma.LZMAError,
    zstandard.ZstdError,
    zipfile.BadZipFile,
    tarfile.TarError,
    pa.ArrowException,
    UnicodeError,
    ValueError,
    NotImplementedError,
    RuntimeError,
)


@contextmanager
def reading(where: str, problem: str = "cannot read it") -> Iterator[None]:
    """Translate what goes wrong while `where` is read; `problem` says what cannot be done.

    Raises:
        SourceError: for every error of the operating system, a codec, an archive or Arrow.
    """
    try:
        yield
    except SourceError:
        raise
    except FileNotFoundError as error:
        raise SourceError(where, "no such file or folder", "check the spelling") from error
    except PermissionError as error:
        raise SourceError(where, "no permission to read it", "check its access rights") from error
    except EOFError as error:
        raise cut_off(where) from error
    except (OSError, *_DAMAGED) as error:
        hint = "is the file whole? fetch or copy it again"
        raise SourceError(where, f"{problem}: {_first_line(error)}", hint) from error
    except ImportError as error:
        raise SourceError(where, _first_line(error), "install the package it names") from error


def cut_off(where: str, detail: str = "the compressed data ends too early") -> SourceError:
    """The error for data that stops in the middle."""
    return SourceError(where, f"cut off: {detail}", "fetch or copy the file again")


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return text[0][:300] if text else type(error).__name__
