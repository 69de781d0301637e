"""The settings of a run, and what of them a mapper may know."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

from ingot.converters.convert.options import (
    ApproveCounts,
    Language,
    Limit,
    Overwrite,
    Records,
    SourceFormat,
    SourceName,
    SourceQuery,
    Tokenizer,
    WorkerCount,
)
from ingot.converters.json_yaml import OMIT
from ingot.converters.mapping.bind import bind_tree
from ingot.converters.mapping.language import Mapping
from ingot.converters.output.sharding import JobShard, RayAddress, RunnerName
from ingot.converters.settings import Setting
from ingot.converters.sources.facts import SourceSpec

if TYPE_CHECKING:
    from ingot.agent.proposing.proposal import Request

MODEL: Final = "Model"

Mode: TypeAlias = Annotated[
    Literal["auto", "pt", "sft"],
    Setting("Kind of records: text for pretraining (pt), conversations (sft), or detected (auto)."),
]
Mapper: TypeAlias = Annotated[
    str,
    Setting(
        "Who proposes the mapping: rules work offline, llm asks a model, auto uses the rules and "
        "asks a configured model if they are unsure.",
        choices=("auto", "rules", "llm"),
    ),
]
DEFAULT_PROMPT, LEAST_PROMPT = 8000, 2000  # tokens
MinConfidence: TypeAlias = Annotated[
    float | None,
    Setting(
        "Minimum confidence (0 to 1): a proposal below it waits for review, even with `yes`. "
        "Default: 0.9.",
        metavar="X",
        minimum=0.0,
        maximum=1.0,
    ),
]
AllowDrift: TypeAlias = Annotated[
    bool, Setting("Continue even if the schema of the data changed since the mapping was made.")
]
Share: TypeAlias = Literal["none", "redacted", "raw"]
ShareValues: TypeAlias = Annotated[
    Share,
    Setting("Values that a model may see: none, redacted (no secrets), or raw.", section=MODEL),
]
PromptTokens: TypeAlias = Annotated[
    int,
    Setting(
        "Maximum tokens in the first prompt; 2000 suits small models.",
        metavar="N",
        section=MODEL,
        minimum=LEAST_PROMPT,
    ),
]
Yes: TypeAlias = Annotated[
    bool, Setting("Approve a proposal without asking if it passes every gate (docs/gates.md).")
]
SourceLocation: TypeAlias = Annotated[
    str,
    Setting(
        "File, folder, glob, archive or fsspec URL of the raw data; TABLE@VERSION: a version of a "
        "table.",
        metavar="SOURCE",
        positional=True,
    ),
]


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a user ordered: the settings of a run, JSON types only, no keys and no passwords.

    Attributes:
        out: folder to be written, None where nothing is written (`map`, a dry run).
        mapper: a name of `Context.mappers`; `file` where `mapping` is given.
        mapping: that of a file that the user gave.
        mapping_file: its path, for messages.
    """

    source: SourceLocation
    format: Annotated[SourceFormat, OMIT] = None
    query: Annotated[SourceQuery, OMIT] = None
    out: str | None = None
    mode: Mode = "auto"
    mapper: Mapper = "auto"
    mapping: Mapping | None = None
    mapping_file: str | None = None
    tokenizer: Tokenizer = None
    records: Records = "parquet"
    language: Language = None
    source_name: SourceName = None
    limit: Limit = None
    overwrite: Overwrite = False
    workers: Annotated[WorkerCount, OMIT] = None
    shard: Annotated[JobShard | None, OMIT] = None  # of `ingot convert` only
    runner: Annotated[RunnerName, OMIT] = "processes"
    ray_address: Annotated[RayAddress, OMIT] = None
    yes: Yes = False
    min_confidence: MinConfidence = None
    dry_run: Annotated[bool, Setting("Show what would be converted, and write nothing.")] = False
    allow_drift: AllowDrift = False
    approve_counts: Annotated[ApproveCounts, OMIT] = None
    share_values: ShareValues = "redacted"
    prompt_tokens: PromptTokens = DEFAULT_PROMPT

    @cached_property
    def spec(self) -> SourceSpec:
        """Return the facts about the files that the user or their mapping file states."""
        if self.mapping is None:
            return SourceSpec(format=self.format, query=self.query)
        return bind_tree(self.mapping, where=self.mapping_file or "mapping").source

    @property
    def seen_share(self) -> str:
        """Return how values are shown to people: as to the model, but at least redacted."""
        return "raw" if self.share_values == "raw" else "redacted"

    def request(self) -> "Request":
        """Return the part of the order that a mapper may know."""
        from ingot.agent.proposing.proposal import Request

        return Request(
            mode=self.mode,
            language=self.language,
            source_name=self.source_name,
            share=self.share_values,
            tokens=self.prompt_tokens,
        )
