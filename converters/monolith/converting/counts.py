"""What became of the rows of a stream."""

from collections import Counter
from dataclasses import dataclass, field

from ingot.converters.rows import Json


@dataclass(kw_only=True)
class Counts:
    """What became of the records and rows of streams.

    Rows are those of records that could be read: `rows` = `written` + `filtered` + `rejected_rows`.

    Attributes:
        rows: read.
        written: rows that were written.
        batches: ExampleBatches that were written.
        early: batches that ended before they were full.
        filled: unset features that were added where a row lacks what others of its batch have.
        lost_sort_ids: rows whose sort_id their batch has not.
        lacking: rows whose LineId lacks uid, req_time or sample_rate.
        filtered: rows that were left out, by reason.
        rejected_records: records that could not be used.
        rejected_rows: rows of the others that could not.
        rejects: both, by reason.
        lost: fields that the target has no place for: how many records had them.
    """

    rows: int = 0
    written: int = 0
    batches: int = 0
    early: int = 0
    filled: int = 0
    lost_sort_ids: int = 0
    lacking: int = 0
    filtered: Counter[str] = field(default_factory=Counter)
    rejected_records: int = 0
    rejected_rows: int = 0
    rejects: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)

    def add(self, other: "Counts") -> None:
        """Add those of another stream."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def document(self) -> dict[str, Json]:
        """As manifests and `--json` have them."""
        return {
            name: dict(sorted(value.items())) if isinstance(value, Counter) else value
            for name, value in vars(self).items()
        }
