"""Load tokenizers with the native libraries; fetch them from the Hugging Face Hub.

A file that is not a tokenizer is an error that says what it is instead. `HF_ENDPOINT`,
`HF_HUB_OFFLINE`, `HF_TOKEN` and `HF_HOME` mean what they mean to the Hub's own library.
"""

import json
import re
import stat
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from ingot.converters.errors import ConversionError, StorageError, translate_native_errors

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor
    from tokenizers import Tokenizer


TOKENIZER_HINT: Final = "give a Hugging Face tokenizer.json or a SentencePiece .model"

# Marks of a whole file or of its start: what stands there, what it is, what to do.
_STARTS: Final = (
    (b"version https://git-lfs", "a Git LFS pointer, not the file", "fetch the file: git lfs pull"),
    (b"#version:", "the merges.txt of a BPE tokenizer", "give the tokenizer.json beside it"),
    (b"\x1f\x8b", "gzip data", "unpack it"),
    (b"\x28\xb5\x2f\xfd", "zstandard data", "unpack it"),
    (b"PK\x03\x04", "a zip file or weights saved by torch", TOKENIZER_HINT),
    (b"\x80\x02", "a pickle", TOKENIZER_HINT),
    (b"GGUF", "a GGUF model", TOKENIZER_HINT),
    (b"\xef\xbb\xbf", "text that starts with a byte order mark", "remove the mark"),
    (b"\xff\xfe", "UTF-16 text", "save it as UTF-8"),
    (b"\xfe\xff", "UTF-16 text", "save it as UTF-8"),
    (b"<", "HTML or XML, such as an error page", "download the file itself"),
    (b"[", "a JSON list", TOKENIZER_HINT),
)
_TIKTOKEN_LINE: Final = re.compile(  # a token in base64, its rank
    rb"(?! )(?:[A-Za-z0-9+/]{4})*+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)? \d+\r?"
)
_CONFIG_KEYS: Final = ("tokenizer_class", "model_max_length", "chat_template", "bos_token")
_CAUSE_CHARACTERS: Final = 200


def wrong_file_error(location: str, data: bytes, cause: str) -> ConversionError:
    """Return the error for a file that neither library can load."""
    line = (cause.strip().splitlines() or ["it is damaged"])[0][:_CAUSE_CHARACTERS]
    problem, hint = _describe_data(data) or (line, TOKENIZER_HINT)
    return ConversionError(location, f"not a tokenizer: {problem}", hint)


def _describe_data(data: bytes) -> tuple[str, str] | None:
    if not data:
        return "it is empty", TOKENIZER_HINT
    for start, problem, hint in _STARTS:
        if data.startswith(start):
            return f"it is {problem}", hint
    if data.lstrip()[:1] == b"{":
        return _describe_json(data)
    line = data.split(b"\n", 1)[0]
    if _TIKTOKEN_LINE.fullmatch(line):
        return "it is a tiktoken file", "convert it to tokenizer.json, or take the model's own one"
    return None


def _describe_json(data: bytes) -> tuple[str, str] | None:
    """What a JSON object is, when it is no tokenizer; None where only the library knows why."""
    try:
        document: Any = json.loads(data)
    except (ValueError, RecursionError) as error:  # a decoding error is a ValueError too
        return f"it is not JSON, perhaps cut off: {error}"[:_CAUSE_CHARACTERS], "fetch it again"
    if isinstance(document.get("model"), dict):
        return None
    if any(key in document for key in _CONFIG_KEYS):
        return "it is a tokenizer_config.json", "give the tokenizer.json beside it"
    if document and all(isinstance(value, int) for value in document.values()):
        return "it is a vocab.json, tokens without a model", "give the tokenizer.json beside it"
    return 'it is a JSON object without "model"', TOKENIZER_HINT


class UnloadableError(Exception):
    """A library does not take the bytes; its text is what the library said."""


def read_bounded_file(path: Path, limit: int, hint: str = TOKENIZER_HINT) -> bytes:
    """Return the bytes of a regular file of at most `limit` bytes."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ConversionError(str(path), "is not a regular file", hint)
        if status.st_size > limit:
            raise ConversionError(str(path), f"is larger than {limit >> 20} MiB", hint)
        return path.read_bytes()
    except OSError as error:
        raise ConversionError(str(path), f"cannot be read: {error.strerror}", hint) from error


def is_unicode(text: str) -> bool:
    """Return whether a text of a JSON document has no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@lru_cache(maxsize=1)
def load_huggingface(data: bytes) -> "Tokenizer":
    """Load the tokenizer of a `tokenizer.json`; callers share one object and must not change it."""
    from tokenizers import Tokenizer

    with translate_native_errors(UnloadableError):
        tokenizer = Tokenizer.from_buffer(data)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


@lru_cache(maxsize=1)
def load_sentencepiece(data: bytes) -> "SentencePieceProcessor":
    """Load the processor of a `.model`; callers share one object and must not change it."""
    from sentencepiece import SentencePieceProcessor

    model = SentencePieceProcessor()
    try:
        model.LoadFromSerializedProto(data)
    except (RuntimeError, UnicodeDecodeError) as error:  # its messages quote the bytes
        raise UnloadableError("it is not a SentencePiece model, or it is damaged") from error
    return model


Frame: TypeAlias = tuple[list[int], list[int]]

# What nearly every tokenizer can encode; the first words of the vocabulary serve the others.
# To list a whole vocabulary takes as long as to load a third of it.
_PROBES: Final = ("", "a", "b", "the quick brown fox", "1 + 2 = 3\n", "床前明月光")
_PROBE_TOKENS: Final = 64


class _UnencodableError(Exception):
    """The tokenizer does not encode a text."""


def common_frame(tokenizer: "Tokenizer") -> Frame | None:
    """Return the ids before and behind every text, None if they are not the same for all."""
    common: list[Frame] | None = None
    for text in _probe_texts(tokenizer):
        try:
            frames = _find_frames(tokenizer, text)
        except _UnencodableError:
            continue
        common = [one for one in frames if common is None or one in common]
    return common[0] if common is not None and len(common) == 1 else None


def _probe_texts(tokenizer: "Tokenizer") -> Iterator[str]:
    yield from _PROBES
    words = [word for number in range(_PROBE_TOKENS) if (word := tokenizer.id_to_token(number))]
    yield from words or sorted(tokenizer.get_vocab(with_added_tokens=False))[:_PROBE_TOKENS]


def _find_frames(tokenizer: "Tokenizer", text: str) -> list[Frame]:
    """Every way to read the ids with special tokens as a frame around those without."""
    with translate_native_errors(_UnencodableError):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        framed = tokenizer.encode(text, add_special_tokens=True).ids
    size = len(ids)
    starts = range(len(framed) - size + 1)
    return [(framed[:p], framed[p + size :]) for p in starts if framed[p : p + size] == ids]


_TOKENIZERS: Final = ("tokenizer.json", "tokenizer.model")  # the first that is there
_SIDE_FILES: Final = ("tokenizer_config.json", "chat_template.jinja", "special_tokens_map.json")
_URL: Final = re.compile(
    r"hf://(?P<repo>[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)?)(?:@(?P<revision>\w[\w./-]*))?",
    re.ASCII,
)
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_LONGEST_REVISION: Final = 255
_REFUSED: Final = frozenset({401, 403, 404, 451})
_HUB_CAUSE: Final = 300


class _Repository(NamedTuple):
    url: str  # as the user named it, for messages
    name: str
    revision: str


def fetch_tokenizer(url: str) -> Path:
    """The tokenizer of a repository of the Hub as a file on this machine.

    `tokenizer.json`, else `tokenizer.model`; its configuration and its chat template, if the same
    commit has them, lie beside it. What the cache holds is not fetched again; without a connection
    it answers for a branch too.
    """
    repository = _parse_url(url)
    # A file that the cache knows to be missing is asked for last: the library tries for long.
    names = sorted(_TOKENIZERS, key=lambda name: _is_known_absent(repository, name))
    fetched = next((path for name in names if (path := _fetch_file(repository, name))), None)
    if fetched is None:
        problem = f"the repository has neither {' nor '.join(_TOKENIZERS)}"
        raise ConversionError(url, problem, "name one that has, or convert its tokenizer first")
    # The rest of that commit, whatever the branch points to by now.
    commit = repository._replace(revision=fetched.parent.name)
    for name in _SIDE_FILES:
        _fetch_file(commit, name)
    return _fetch_file(commit, _TOKENIZERS[0]) or fetched


def _parse_url(url: str) -> _Repository:
    match = _URL.fullmatch(url)
    revision = (match and match["revision"]) or "main"
    if match is None or ".." in url or len(revision) > _LONGEST_REVISION:
        hint = "write hf://NAME or hf://OWNER/NAME, then @REVISION"
        raise ConversionError(url, "is not a repository of the Hub", hint)
    return _Repository(url, match["repo"], revision)


def _fetch_file(repository: _Repository, name: str) -> Path | None:
    """A file of a repository; None if it has no such file."""
    from huggingface_hub import errors, hf_hub_download

    if _COMMIT.fullmatch(repository.revision) and _is_known_absent(repository, name):
        return None  # a commit does not change
    try:
        return Path(hf_hub_download(repository.name, name, revision=repository.revision))
    except errors.LocalEntryNotFoundError as error:
        if _is_known_absent(repository, name) or _is_cache_final(repository):
            return None
        raise _hub_error(repository, name, error.__cause__ or error) from error
    except errors.EntryNotFoundError:
        return None
    except errors.RevisionNotFoundError as error:
        problem = f"no revision {repository.revision!r}"
        raise ConversionError(repository.url, problem, "name a branch, tag or commit") from error
    except Exception as error:  # of the library and of the HTTP client that it happens to use
        raise _hub_error(repository, name, error) from error


def _is_known_absent(repository: _Repository, name: str) -> bool:
    """Whether the Hub has said before that a commit, or a branch by then, has no such file."""
    known = _cache_entry(repository, name)
    return known is not None and not isinstance(known, str)  # the library's mark


def _is_cache_final(repository: _Repository) -> bool:
    """Whether the cache is all there is, and what it lacks of a commit that it holds is not there.

    A whole repository that was fetched before has no marks of what it lacks.
    """
    from huggingface_hub import constants

    is_cached = any(isinstance(_cache_entry(repository, name), str) for name in _TOKENIZERS)
    return bool(constants.HF_HUB_OFFLINE) and is_cached


def _cache_entry(repository: _Repository, name: str) -> object:
    """What the cache has: the path as a str, a mark that there is no such file, None."""
    try:
        from huggingface_hub import errors, try_to_load_from_cache
    except ImportError as error:
        problem = "the Hugging Face Hub needs an extra package"
        raise ConversionError(repository.url, problem, 'pip install "ingot[hf]"') from error
    try:
        return try_to_load_from_cache(repository.name, name, revision=repository.revision)
    except errors.HFValidationError as error:
        raise ConversionError(repository.url, str(error), "write hf://OWNER/NAME") from error


def _hub_error(
    repository: _Repository, name: str, error: BaseException
) -> ConversionError | StorageError:
    """What it means that the Hub did not give a file."""
    from huggingface_hub import constants

    status = getattr(getattr(error, "response", None), "status_code", None)
    if status in _REFUSED:
        problem = f"no such repository, or no access to it (status {status})"
        hint = "check the name; a private or gated one needs HF_TOKEN"
        return ConversionError(repository.url, problem, hint)
    lines = str(error).strip().splitlines() or [type(error).__name__]
    problem = f"cannot fetch {name}: {lines[0][:_HUB_CAUSE]}"
    hint = "check the network and HF_ENDPOINT, or set HF_HUB_OFFLINE=1 to take what the cache holds"
    if constants.HF_HUB_OFFLINE:
        problem = f"{name} is not in the cache, and HF_HUB_OFFLINE is set"
        hint = "fetch it once with a connection"
    return StorageError(repository.url, problem, hint)
