"""What the shards left, put together to one result: parts numbered through, tokens, manifest."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from ingot.converters import manifest as manifests
from ingot.converters.commit import Staged, writing
from ingot.converters.records import part_name
from ingot.converters.rows import Json
from ingot.converters.shard import RECORDS, REJECTED, shard_name

if TYPE_CHECKING:
    from ingot.converters.megatron.monitor import Monitor

TOKENS: Final = "tokens"
TOKEN_FACTS: Final = (
    "documents",
    "sequences",
    "tokens",
    "characters",
    "rejected",
    "dtype",
    "eod_id",
    "vocabulary",
)
_NAME_BYTES = 100


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The parts of a result as its manifest lists them: path, bytes, sha256, in order."""

    records: list[dict[str, Json]]
    rejected: list[dict[str, Json]]


def number_parts(staged: Staged, shards: list[dict[str, Json]]) -> Parts:
    """Move the parts of all shards into the result, numbered through in the order of the shards.

    Raises:
        OutputError: they cannot be moved.
    """
    with writing(staged.out):
        return Parts(
            records=_number(staged, shards, "parts", RECORDS),
            rejected=_number(staged, shards, "rejected_parts", REJECTED),
        )


def _number(
    staged: Staged, shards: list[dict[str, Json]], kind: str, folder: str
) -> list[dict[str, Json]]:
    (staged.result / folder).mkdir(exist_ok=True)
    entries: list[dict[str, Json]] = []
    for number, shard in enumerate(shards):
        for part in shard[kind]:
            there = staged.work / shard_name(number) / part["path"]
            name = f"{folder}/{part_name(len(entries), there.suffix.lstrip('.'))}"
            entries.append({**part, "path": name})
            # A run that was killed in here had moved some of them already.
            if there.exists():
                there.rename(staged.result / name)
    return entries


def make_tokens(
    staged: Staged, parts: Parts, tokenizer: str, name: str, monitor: "Monitor"
) -> dict[str, Json] | None:
    """Make `tokens/NAME.bin|.idx|.meta.json` of the record parts; None if there is no record.

    Conversations also give `NAME.loss_mask.bin|.idx`. Records that the tokenizer refuses are listed
    in a reject part of their own. What a run that was killed had tokenized is gone on with.

    Raises:
        ConversionError: the tokenizer does not serve, or gives not a single token.
        OutputError: the files cannot be written.
    """
    from ingot.converters import megatron

    if not parts.records:
        return None
    files = megatron.stamped(staged.result / entry["path"] for entry in parts.records)
    stats = megatron.build(
        files,
        tokenizer,
        staged.result / TOKENS / name,
        megatron.BuildOptions(append_eod=True),
        megatron.WorkOptions(resume=True, overwrite=True, tmp_dir=staged.work),
        beside=megatron.Beside(
            rejects=staged.result / REJECTED / part_name(len(parts.rejected), "jsonl"),
            run=staged.work / "tokens.run.json",
        ),
        monitor=monitor,
    )
    return {fact: getattr(stats, fact) for fact in TOKEN_FACTS}


def tokenizer_facts(given: str) -> dict[str, Json]:
    """What a manifest says of a tokenizer.

    It is loaded before anything is converted, so that an unfit one is not found out at the end.

    Raises:
        ConversionError: the tokenizer is none, or has no end-of-document token.
    """
    from ingot.converters.megatron.chats.templates import load_template
    from ingot.converters.megatron.tokenizer import find_eod, load_tokenizer

    loaded = load_tokenizer(given)
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


def finish(
    staged: Staged,
    identity: manifests.Identity,
    manifest: dict[str, Json],
    run: dict[str, Json],
    *,
    files: dict[str, bytes],
    parts: Parts | None = None,
) -> dict[str, Json]:
    """Write the small files, complete manifest (in place) and run, and commit; gives the run.

    Raises:
        OutputError: something cannot be written; the destination is what it was.
    """
    known = [*parts.records, *parts.rejected] if parts else []
    with writing(staged.out):
        for name, content in files.items():
            (staged.result / name).write_bytes(content)
        manifest["files"] = manifests.list_files(staged.result, known)
    run = {
        **run,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": manifests.host_facts(),
        "inputs": manifests.input_stamps(identity.source),
        "notes": list(staged.notes),
    }
    staged.commit(manifest, run)
    return run
