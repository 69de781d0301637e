"""Tokenize the records of a result: the token files beside them, and their counts."""

import re
from collections.abc import Sequence
from typing import Final, TypedDict, cast

from ingot.converters.errors import NoTokensError
from ingot.converters.output.commit import StagedResult
from ingot.converters.output.files import FileEntry
from ingot.converters.progress import Watch

TOKENS: Final = "tokens"
_NAME_BYTES: Final = 100


class TokenCounts(TypedDict):
    """The counts of the token files of a result."""

    documents: int
    sequences: int
    tokens: int
    characters: int
    rejected: int
    dtype: str
    eod_id: int | None
    vocabulary: int


def make_tokens(
    staged: StagedResult,
    records: Sequence[FileEntry],
    tokenizer: str,
    *,
    name: str,
    rejects: str,
    watch: Watch = lambda _: None,
) -> TokenCounts | None:
    """Make the token files of record parts; `rejects` gets the records that are refused.

    `name` is that of the source.
    """
    from ingot.converters import megatron
    from ingot.converters.megatron.messages import BuildMeter

    if not records:
        return None
    try:
        stats = megatron.build(
            megatron.stamp_files(staged.result / entry["path"] for entry in records),
            tokenizer,
            staged.result / TOKENS / tokens_name(name),
            megatron.BuildOptions(append_eod=True),
            megatron.WorkOptions(resume=True, overwrite=True, tmp_dir=staged.work),
            beside=megatron.SideFiles(
                rejects=staged.result / rejects, run=staged.work / "tokens.run.json"
            ),
            monitor=BuildMeter(watch),
        )
    except NoTokensError as error:
        hint = f"the tokenizer {tokenizer} refuses or drops every record: name another"
        raise NoTokensError(str(staged.place), error.problem, hint) from error
    counts = {name: getattr(stats, name) for name in TokenCounts.__annotations__}
    return cast("TokenCounts", counts)


def tokenizer_facts(tokenizer: str) -> dict[str, str | int | None]:
    """What a manifest says of a tokenizer; it is loaded first, so that an unfit one shows."""
    from ingot.converters.megatron.chat.templates import load_template
    from ingot.converters.megatron.tokenizer import find_eod, load_tokenizer

    loaded = load_tokenizer(tokenizer)
    return {
        "file": loaded.path.name,
        "sha256": loaded.sha256,
        "eod_id": find_eod(loaded),
        "chat_template": load_template(None, loaded).sha256,
    }


def tokens_name(source_name: str) -> str:
    """A file name for the data set: the source's name, odd characters replaced by `_`."""
    name = re.sub(r"[^\w.-]+", "_", source_name).strip("._")
    cut = name.encode("utf-8", "ignore")[:_NAME_BYTES].decode("utf-8", "ignore")
    return cut or TOKENS
