"""How far a conversion is: shards, rows and records, and what its token build says."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ingot.converters.convert.result import ShardDocument
from ingot.converters.progress import Progress, Watch

if TYPE_CHECKING:
    from ingot.converters.megatron.metrics.messages import Message


@dataclass(kw_only=True)
class ShardMeter:
    """Adds shards up and tells the watcher, also what a token build says."""

    watch: Watch
    shards: int
    stage: str = "convert"
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
                stage=self.stage,
                shards_done=self.done,
                shards=self.shards,
                rows=self.rows + rows,
                records=self.records + records,
                rejects=self.rejects,
            )
        )

    def hear(self, message: "Message") -> None:
        """Take a message of a token build."""
        if message["kind"] not in ("plan", "count"):
            return
        from ingot.converters.megatron.metrics.messages import message_amounts

        amounts = message_amounts(message)
        self.done += amounts["units"] if message["kind"] == "count" else 0
        self.records += amounts["records"]
        self.rejects += amounts["failed_records"]
        self.tick(0, 0)
