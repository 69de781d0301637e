"""Fetch tokenizers from the Hugging Face Hub, through its own library and its cache.

`HF_ENDPOINT`, `HF_HUB_OFFLINE`, `HF_TOKEN` and `HF_HOME` mean what they mean to the library.
"""

import re
from pathlib import Path
from typing import Final, NamedTuple

from ingot.converters.errors import ConversionError, StorageError

_TOKENIZERS: Final = ("tokenizer.json", "tokenizer.model")  # the first that is there
_SIDE_FILES: Final = ("tokenizer_config.json", "chat_template.jinja", "special_tokens_map.json")
_URL: Final = re.compile(
    r"hf://(?P<repo>[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)?)(?:@(?P<revision>\w[\w./-]*))?",
    re.ASCII,
)
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_LONGEST_REVISION: Final = 255
_REFUSED: Final = frozenset({401, 403, 404, 451})
_CAUSE_CHARACTERS: Final = 300


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
    named = _parse_url(url)
    # A file that the cache knows to be missing is asked for last: the library tries for long.
    names = sorted(_TOKENIZERS, key=lambda name: _is_known_absent(named, name))
    found = next((path for name in names if (path := _fetch_file(named, name))), None)
    if found is None:
        raise ConversionError(
            url,
            f"the repository has neither {' nor '.join(_TOKENIZERS)}",
            "name one that has, or convert its tokenizer first",
        )
    # The rest of that commit, whatever the branch points to by now.
    commit = named._replace(revision=found.parent.name)
    for name in _SIDE_FILES:
        _fetch_file(commit, name)
    return _fetch_file(commit, _TOKENIZERS[0]) or found


def _parse_url(url: str) -> _Repository:
    match = _URL.fullmatch(url)
    revision = (match and match["revision"]) or "main"
    if match is None or ".." in url or len(revision) > _LONGEST_REVISION:
        raise ConversionError(
            url, "is no repository of the Hub", "write hf://NAME or hf://OWNER/NAME, then @REVISION"
        )
    return _Repository(url, match["repo"], revision)


def _fetch_file(repository: _Repository, name: str) -> Path | None:
    """A file of a repository; None where it has no such file."""
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
        raise ConversionError(
            repository.url, f"no revision {repository.revision!r}", "name a branch, tag or commit"
        ) from error
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

    held = any(isinstance(_cache_entry(repository, name), str) for name in _TOKENIZERS)
    return bool(constants.HF_HUB_OFFLINE) and held


def _cache_entry(repository: _Repository, name: str) -> object:
    """What the cache has: the path as a str, a mark that there is no such file, None."""
    try:
        from huggingface_hub import errors, try_to_load_from_cache
    except ImportError as error:
        raise ConversionError(
            repository.url, "the Hugging Face Hub needs an extra package", 'pip install "ingot[hf]"'
        ) from error
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
        return ConversionError(
            repository.url,
            f"no such repository, or no access to it (status {status})",
            "check the name; a private or gated one needs HF_TOKEN",
        )
    if constants.HF_HUB_OFFLINE:
        return StorageError(
            repository.url,
            f"{name} is not in the cache, and HF_HUB_OFFLINE is set",
            "fetch it once with a connection",
        )
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return StorageError(
        repository.url,
        f"cannot fetch {name}: {lines[0][:_CAUSE_CHARACTERS]}",
        "check the network and HF_ENDPOINT, or set HF_HUB_OFFLINE=1 to take what the cache holds",
    )
