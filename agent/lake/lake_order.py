"""The settings of a run over a lake, and the order of one data set; they travel to the workers."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from ingot.agent.proposing.order import (
    DEFAULT_PROMPT,
    AllowDrift,
    Mapper,
    MinConfidence,
    Mode,
    Order,
    PromptTokens,
    ShareValues,
    Yes,
)
from ingot.converters.convert.options import Language, Records, Tokenizer
from ingot.converters.json_yaml import json_digest
from ingot.converters.output.sharding import JobShard, RayAddress, RunnerName
from ingot.converters.settings import Setting

if TYPE_CHECKING:
    from ingot.agent.lake.lake_state import LakeState
    from ingot.agent.proposing.llm.mapper import AskSettings
    from ingot.converters.lake.record_hashes import Splits
    from ingot.converters.lake.survey import DataSet
    from ingot.converters.output.worker_pool import Spreading

SETS: Final = "sets"
CORPUS: Final = "corpus"
MAPPINGS: Final = "mappings"
HASHES: Final = "hashes"
RUNS: Final = "runs"


def _read_splits(text: str) -> "Splits":
    from ingot.converters.lake.record_hashes import parse_splits

    return parse_splits(text)


@dataclass(frozen=True, kw_only=True)
class LakeOrder:
    """A run over a lake; `asking` is how a model may be asked, None = none is."""

    root: Annotated[
        str,
        Setting(
            "Folder or URL (s3://, gs://, hdfs://, ...) that holds the data sets.",
            metavar="ROOT",
            positional=True,
        ),
    ]
    out: Annotated[Path, Setting("Output folder: results, mappings and catalog.", metavar="DIR")]
    results: Annotated[
        str | None,
        Setting("URL of an object store for sets/ and corpus/.", metavar="URL", default="DIR"),
    ] = None
    mappings: Path
    mapper: Mapper = "auto"
    asking: "AskSettings | None" = None
    mode: Mode = "auto"
    tokenizer: Tokenizer = None
    records: Records = "parquet"
    language: Language = None
    yes: Yes = False
    min_confidence: MinConfidence = None
    allow_drift: AllowDrift = False
    share_values: ShareValues = "redacted"
    prompt_tokens: PromptTokens = DEFAULT_PROMPT
    dedup: bool = False
    splits: Annotated[
        "Splits | None",
        Setting(
            "Assign the records in DIR/corpus to splits by a hash of their content: "
            "train=0.98,valid=0.02.",
            metavar="PARTS",
            flag="split",
            section="Corpus for training",
            parse=_read_splits,
        ),
    ] = None
    pin: Annotated[
        bool,
        Setting(
            "Store a small sample of raw rows beside each mapping, for ingot review.",
            flag="pin-sample",
        ),
    ] = False
    jobs: int = 1
    shard: JobShard | None = None
    runner: RunnerName = "processes"
    ray_address: RayAddress = None

    @property
    def state(self) -> "LakeState":
        """Return what the lake remembers."""
        from ingot.agent.lake.lake_state import LakeState

        alone = self.shard is None and self.runner != "ray"
        return LakeState(self.out, journal="WAL" if alone else "DELETE")

    def open_workers(self) -> "Spreading":
        """Return what the work is spread over."""
        if self.runner == "ray":
            from ingot.converters.output.ray_workers import RayWorkers

            return RayWorkers(self.ray_address)
        from ingot.converters.output.worker_pool import Workers

        return Workers(1 if self.runner == "local" else self.jobs)

    @property
    def has_corpus(self) -> bool:
        """Return whether a corpus is written beside the results, from which tokens are made."""
        return self.dedup or self.splits is not None

    def place(self, *names: str) -> Path | str:
        """Return a folder of results, or its URL."""
        return "/".join((self.results, *names)) if self.results else self.out.joinpath(*names)

    def result(self, name: str) -> Path | str:
        """Return the folder or URL of a data set's result."""
        return self.place(SETS, name)

    def mapping(self, name: str) -> Path:
        """Return the file of a data set's approved mapping."""
        return self.mappings / f"{name}.json"

    def hashes(self, name: str) -> Path:
        """Return the file with the hashes of a data set's records."""
        return self.state.folder / HASHES / f"{name}.npy"

    def run_folder(self, name: str) -> Path:
        """Return the folder with the kept run of a data set."""
        return self.state.folder / RUNS / name

    def data_set_order(self, data_set: "DataSet") -> Order:
        """Return the order of one data set for its graph, which asks nobody."""
        return Order(
            source=data_set.source.location,
            out=str(self.out / SETS / data_set.name),  # beside it lies a proposal that waits
            mode=self.mode,
            mapper=self.mapper,
            tokenizer=None if self.has_corpus else self.tokenizer,
            records=self.records,
            language=self.language,
            overwrite=True,
            min_confidence=self.min_confidence,
            allow_drift=self.allow_drift,
            share_values=self.share_values,
            prompt_tokens=self.prompt_tokens,
        )


def _file_stamps(data_set: "DataSet") -> dict[str, object]:
    """Return what tells the files of a data set from those of another time."""
    from ingot.converters.sources.facts import input_stamp

    source = data_set.source
    return {
        "files": [input_stamp(file) for file in source.files],
        "entries": [[e.name, e.bytes, e.mtime_ns, e.etag] for e in source.listing.entries],
        "faults": [[one.name, one.why] for one in data_set.faults],
    }


def files_key(data_set: "DataSet") -> str:
    """Return a hash of the files of a data set; a rejected one is ignored until it changes."""
    document = list(_file_stamps(data_set).values())
    return hashlib.sha256(json.dumps(document).encode()).hexdigest()


def lake_place(order: LakeOrder) -> str:
    """Return where the lake lies, however its root was named."""
    local = "://" not in order.root
    return str(Path(order.root).expanduser().resolve()) if local else order.root.rstrip("/")


def job_document(order: LakeOrder) -> dict[str, object]:
    """Return what all parts of a run over a lake have in common, by the names of the settings."""
    from ingot.converters.convert.result import VERSIONS

    names = (
        *("results", "records", "language", "tokenizer", "mapper", "mode", "yes", "pin"),
        *("min_confidence", "allow_drift", "share_values", "prompt_tokens", "dedup"),
    )
    model_access = order.asking
    document = {
        "versions": VERSIONS,
        "root": lake_place(order),
        "mappings": str(order.mappings),
        **{name: getattr(order, name) for name in names},
        "split": order.splits.to_json() if order.splits else None,
        "model": [model_access.endpoint.url, model_access.endpoint.model] if model_access else None,
        "budget": [asdict(model_access.data_set), asdict(model_access.run)]
        if model_access
        else None,
    }
    return dict(json.loads(json.dumps(document)))


def data_set_key(order: LakeOrder, data_set: "DataSet", *, mapping: bytes = b"") -> str:
    """Return a hash of all that a data set's state depends on: equal = nothing is to be done."""
    from ingot.converters.convert.result import VERSIONS

    file = order.mapping(data_set.name)
    mapping = mapping or (file.read_bytes() if file.is_file() else b"")
    document: dict[str, object] = {
        "versions": VERSIONS,
        **_file_stamps(data_set),
        "options": [order.records, order.language, order.has_corpus or _tokenizer_identity(order)],
        "pin": order.pin,
    }
    if mapping:
        document["mapping"] = hashlib.sha256(mapping).hexdigest()
        document["allow_drift"] = order.allow_drift
    else:  # what a proposal and its approval depend on
        model_access = order.asking
        document["asking"] = [
            *(order.mapper, order.mode, order.yes, order.min_confidence, order.share_values),
            order.prompt_tokens,
            [model_access.endpoint.url, model_access.endpoint.model] if model_access else None,
            [asdict(model_access.data_set), asdict(model_access.run)] if model_access else None,
        ]
    return json_digest(document)


def _tokenizer_identity(order: LakeOrder) -> object:
    """Return what tells a tokenizer from another one under its name."""
    if order.tokenizer is None or not (path := Path(order.tokenizer)).exists():
        return order.tokenizer
    files = [path] if path.is_file() else sorted(one for one in path.iterdir() if one.is_file())
    stamps = [[one.name, one.stat().st_size, one.stat().st_mtime_ns] for one in files]
    return [order.tokenizer, *stamps]
