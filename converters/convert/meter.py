"""Count how far a conversion is: shards, rows and records."""

from dataclasses import dataclass

from ingot.converters.convert.result import ShardDocument
from ingot.converters.progress import Progress, Watch


@dataclass(kw_only=True)
class ShardMeter:
    """Adds shards up and tells the watcher."""

    watch: Watch
    shards: int
    done: int = 0
    rows: int = 0
    records: int = 0
    rejects: int = 0

    def add(self, shard: ShardDocument) -> ShardDocument:
        """Count a finished shard."""
        self.done += 1
        self.rows += shard["rows"]["read"]
        self.records += shard["records"].get("written", 0)  # a shard may have no row
        self.rejects += shard["rows"]["rejected"]
        self.tick(0, 0)
        return shard

    def tick(self, rows: int, records: int) -> None:
        """Tell how far the present shard is."""
        self.watch(
            Progress(
                stage="convert",
                shards_done=self.done,
                shards=self.shards,
                rows=self.rows + rows,
                records=self.records + records,
                rejects=self.rejects,
            )
        )
