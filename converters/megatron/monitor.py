"""What a token build tells about itself while it runs; who listens is not its business.

A message is a flat JSON object, so that it can cross to another process as it is. The kinds:

    {"kind": "log", "level", "component", "event", ...fields}      one line of the log
    {"kind": "count", NAME: int, ...}                              amounts to add to the counters
    {"kind": "stage", "stage", "seconds"}                          time spent in a stage
    {"kind": "batch", "ms"}                                        a batch went through, latency
    {"kind": "depth", "reader": int, "tokenizer": int}             batches waiting in the queues
    {"kind": "plan", "bytes", "files", "units"}                    what there is to do, once
    {"kind": "phase", "phase"}                                     `read`, `merge`, `done`

`component` is `scanner`, `reader`, `tokenizer`, `writer` or `pipeline`; `level` `trace`, `debug`,
`info`, `warn` or `error`. Counters: `bytes_read` (of the input files, compressed), `text_bytes`
(tokenized), `records`, `documents`, `tokens`, `bytes_written`, `failed_records`, `filtered`,
`files`, `failed_files`, `units`, and `error.TYPE`. Stages: `reader`, `preprocess`, `tokenize`,
`write`, `index`.
"""

from typing import Final, Literal, Protocol

from ingot.converters.rows import Json

Level = Literal["trace", "debug", "info", "warn", "error"]
Component = Literal["scanner", "reader", "tokenizer", "writer", "pipeline"]
Stage = Literal["reader", "preprocess", "tokenize", "write", "index"]

LEVELS: Final[tuple[Level, ...]] = ("trace", "debug", "info", "warn", "error")
STAGES: Final[tuple[Stage, ...]] = ("reader", "preprocess", "tokenize", "write", "index")


class Monitor(Protocol):
    """Takes messages from any thread, quickly, and never raises."""

    def __call__(self, message: dict[str, Json]) -> None:
        """Take one message."""
        ...


def unheard(message: dict[str, Json]) -> None:
    """The monitor of a build that nobody watches."""


def log(monitor: Monitor, level: Level, component: Component, event: str, **fields: Json) -> None:
    """Send one line of the log."""
    monitor({"kind": "log", "level": level, "component": component, "event": event, **fields})
