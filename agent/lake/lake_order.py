"""The order of a run over a lake, and of one of its data sets; it is sent to worker processes."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from ingot.agent.lake.lake_state import LakeState
from ingot.agent.proposing.llm.model_access import AskSettings
from ingot.agent.state import Order
from ingot.converters.convert.result import VERSIONS
from ingot.converters.lake.record_hashes import Splits
from ingot.converters.lake.survey import DataSet
from ingot.converters.rows import Json
from ingot.converters.sources.inputs import input_stamp


def files_key(data_set: DataSet) -> str:
    """Hash the files of a data set; a rejected one is left alone while it is the same."""
    source = data_set.source
    document: list[Json] = [
        [input_stamp(file) for file in source.files],
        [[one.name, one.bytes, one.mtime_ns, one.etag] for one in source.listing.entries],
        [[one.name, one.why] for one in data_set.faults],
    ]
    return hashlib.sha256(json.dumps(document).encode()).hexdigest()


SETS: Final = "sets"
CORPUS: Final = "corpus"
MAPPINGS: Final = "mappings"
HASHES: Final = "hashes"
RUNS: Final = "runs"


@dataclass(frozen=True, kw_only=True)
class LakeOrder:
    """A run over a lake.

    Attributes:
        root: folder or URL of the lake.
        out: the lake's folder, absolute.
        mappings: folder of the mappings, absolute.
        mapper: `auto`, `rules` or `llm`.
        asking: how a model may be asked, None = no model is.
        mode: `auto`, `pt` or `sft`.
        tokenizer: as in `ConvertOptions`, None = no tokens.
        records: `parquet` or `jsonl`.
        language: `meta.language` if a mapping does not state it.
        yes: approve proposals that pass the gates.
        min_confidence: below it a proposal waits.
        allow_drift: convert although the shape has changed since the mapping was made.
        share_values: what a model may see of the values.
        prompt_tokens: how long the first question may be.
        dedup: leave duplicates out of the corpus.
        splits: the splits of the corpus, None = it is not split.
        pin: pin a small sample of raw rows beside each mapping, for reviews.
        jobs: worker processes.
    """

    root: str
    out: Path
    mappings: Path
    mapper: str = "auto"
    asking: AskSettings | None = None
    mode: str = "auto"
    tokenizer: str | None = None
    records: str = "parquet"
    language: str | None = None
    yes: bool = False
    min_confidence: float = 0.0
    allow_drift: bool = False
    share_values: str = "redacted"
    prompt_tokens: int = 8000
    dedup: bool = False
    splits: Splits | None = None
    pin: bool = False
    jobs: int = 1

    @property
    def state(self) -> LakeState:
        """Return the memory of the lake."""
        return LakeState(self.out)

    @property
    def has_corpus(self) -> bool:
        """Whether a corpus is written beside the results; tokens are made from it then."""
        return self.dedup or self.splits is not None

    def result(self, name: str) -> Path:
        """Return the folder of a data set's result."""
        return self.out / SETS / name

    def mapping(self, name: str) -> Path:
        """Return the file of a data set's approved mapping."""
        return self.mappings / f"{name}.json"

    def hashes(self, name: str) -> Path:
        """Return the file with the hashes of a data set's records."""
        return self.state.folder / HASHES / f"{name}.npy"

    def run_folder(self, name: str) -> Path:
        """Return the folder with the checkpoints of a data set's run."""
        return self.state.folder / RUNS / name

    def data_set_order(self, data_set: DataSet) -> Order:
        """Return the order of one data set, as its graph gets it; nobody is asked on its way."""
        return Order(
            source=data_set.source.location,
            out=str(self.result(data_set.name)),
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


def data_set_key(order: LakeOrder, data_set: DataSet, *, mapping: Path | None = None) -> str:
    """Hash all that a data set's state depends on; equal = nothing is to be done."""
    source, mapping = data_set.source, mapping or order.mapping(data_set.name)
    document: dict[str, Json] = {
        "versions": VERSIONS,
        "files": [input_stamp(file) for file in source.files],
        "entries": [[e.name, e.bytes, e.mtime_ns, e.etag] for e in source.listing.entries],
        "faults": [[one.name, one.why] for one in data_set.faults],
        "options": [order.records, order.language, order.has_corpus or _tokenizer_identity(order)],
        "pin": order.pin,
    }
    if mapping.is_file():
        document["mapping"] = hashlib.sha256(mapping.read_bytes()).hexdigest()
        document["allow_drift"] = order.allow_drift
    else:
        document["asking"] = _asking_identity(order)
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _tokenizer_identity(order: LakeOrder) -> Json:
    """Return what tells a tokenizer from another one under its name."""
    if order.tokenizer is None or not (path := Path(order.tokenizer)).exists():
        return order.tokenizer
    files = [path] if path.is_file() else sorted(one for one in path.iterdir() if one.is_file())
    stamps = [[one.name, one.stat().st_size, one.stat().st_mtime_ns] for one in files]
    return [order.tokenizer, *stamps]


def _asking_identity(order: LakeOrder) -> Sequence[Json]:
    """Return what a proposal and its approval depend on."""
    asking = order.asking
    model = [asking.endpoint.url, asking.endpoint.model] if asking else None
    limits = [asdict(asking.data_set), asdict(asking.run)] if asking else None
    kept = (order.mapper, order.mode, order.yes, order.min_confidence, order.share_values)
    return [*kept, order.prompt_tokens, model, limits]
