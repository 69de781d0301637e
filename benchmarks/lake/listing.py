"""What it costs to list many small files, and to find out what each one is.

    .venv/bin/python benchmarks/lake/listing.py [--files 100000] [--looked-at 2000] [--profile]

Lists a folder of this machine, a `memory://` folder and a bucket of a server that speaks as much of
S3 as a listing needs, each in a process of its own: seconds, files a second, and the peak of memory
beside that of the same process before it listed; of the folder also `os.walk` with a `stat` of each
file. Then `ingot lake run --dry-run` tells kinds and data sets apart, beside a plain loop that
reads the first 64 kB of every file. At last it looks at some of the local files: microseconds a
file, by kind; with `--profile` where they go.
"""

import argparse
import cProfile
import gzip
import io
import json
import os
import pstats
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.append(str(Path(__file__).resolve().parents[1]))

from measuring import Row, add_options, keep_rows, timed

from ingot.converters.sources import SourceSpec, readers
from ingot.converters.sources.formats.detection import peek_file
from ingot.converters.sources.storage.listing import list_location

PAGE = 1000
PER_FOLDER = 200
WALK = """
import os, sys
for top, _, names in os.walk(sys.argv[1]):
    for name in names:
        os.stat(os.path.join(top, name))
"""
HEADS = """
import os, sys
for top, _, names in os.walk(sys.argv[1]):
    for name in names:
        with open(os.path.join(top, name), "rb", buffering=0) as file:
            file.read(65536)
"""
ROWS = [
    {"id": n, "title": f"Part {n}", "text": f"Part {n} begins where part {n - 1} ended. " * 3}
    for n in range(20)
]


def contents() -> dict[str, bytes]:
    """A small file of every kind, by its ending."""
    lines = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
    cells = "".join(f"{row['id']},{row['title']},{row['text']}\n" for row in ROWS)
    columns = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(ROWS), columns)
    return {
        "jsonl": lines,
        "jsonl.gz": gzip.compress(lines),
        "json": json.dumps(ROWS, indent=1).encode(),
        "csv": f"id,title,text\n{cells}".encode(),
        "txt": "\n".join(str(row["text"]) for row in ROWS).encode(),
        "parquet": columns.getvalue(),
    }


def names(count: int) -> Iterator[str]:
    """Names of files: `PER_FOLDER` in a folder, kinds in turn."""
    kinds = list(contents())
    for number in range(count):
        folder = number // PER_FOLDER
        yield f"group-{folder // 20:03}/set-{folder:05}/part-{number:06}.{kinds[folder % 6]}"


def make(top: Path, count: int) -> None:
    """Write `count` small files."""
    held = contents()
    for name in names(count):
        path = top / name
        if not path.parent.exists():
            path.parent.mkdir(parents=True)
        path.write_bytes(held[name.partition(".")[2]])


@contextmanager
def bucket(count: int) -> Iterator[str]:
    """A server that lists `count` objects; its URL."""
    keys = list(names(count))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.send_response(404)
            self.send_header("content-length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            asked = parse_qs(urlsplit(self.path).query)
            start = int(asked.get("continuation-token", ["0"])[0])
            body = page(keys, start, int(asked.get("max-keys", [str(PAGE)])[0])).encode()
            self.send_response(200)
            self.send_header("content-type", "application/xml")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def page(keys: list[str], start: int, most: int) -> str:
    """A page of a listing."""
    found = keys[start : start + min(most, PAGE)]
    end = start + len(found)
    more = end < len(keys)
    rows = "".join(
        f"<Contents><Key>top/{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
        f"<ETag>&quot;{number:032x}&quot;</ETag><Size>{1000 + number}</Size>"
        "<StorageClass>STANDARD</StorageClass></Contents>"
        for number, key in enumerate(found, start)
    )
    token = f"<NextContinuationToken>{end}</NextContinuationToken>" if more else ""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name>'
        f"<Prefix>top/</Prefix><KeyCount>{len(found)}</KeyCount><MaxKeys>{most}</MaxKeys>"
        f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}{rows}</ListBucketResult>"
    )


def peak() -> float:
    """The most memory that this process has had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def listed(location: str, count: int) -> dict[str, float]:
    """List a location in this process."""
    if location.startswith("memory://"):
        storage = fsspec.filesystem("memory")
        for name in names(count):
            storage.pipe_file(f"/listing/{name}", b"{}")
    before, started = peak(), time.perf_counter()
    found = list_location(location).entries
    seconds = time.perf_counter() - started
    return {"files": len(found), "seconds": seconds, "before": before, "peak": peak()}


def in_a_process(location: str, count: int, **env: str) -> dict[str, float]:
    """`listed` in a process of its own."""
    argv = [sys.executable, __file__, "--child", location, "--files", str(count)]
    done = subprocess.run(argv, env={**os.environ, **env}, capture_output=True, check=True)
    return dict(json.loads(done.stdout))


def looked_into(top: Path, count: int, found: dict[str, float]) -> list[Row]:
    """The rows of `make bench`: a folder listed, and its kinds and data sets told apart."""
    data = f"{count:,} small files"
    argv = [sys.executable, "-m", "ingot", "lake", "run", str(top), "--dry-run"]
    took = timed([*argv, "--out", str(top.parent / "out")])
    walked, heads = (timed([sys.executable, "-c", code, str(top)]) for code in (WALK, HEADS))
    print(
        f"looked into {count / took.seconds:,.0f} files/s, {took.seconds:.1f} s, "
        f"{took.cpu_seconds:.1f} s of CPU; heads read {heads.seconds:.1f} s, "
        f"os.walk and stat {walked.seconds:.2f} s"
    )
    cores = os.cpu_count() or 1
    return [
        Row(
            job="list files",
            data=data,
            unit="files/s",
            ours=count / found["seconds"],
            peers={"os.walk and stat, with Python's start": count / walked.seconds},
            wanted="as fast",
            peak_mb=found["peak"] * 1024 * 1024 / 1e6,
        ),
        Row(
            job="lake run --dry-run",
            data=data,
            unit="files/s",
            ours=count / took.seconds,
            peers={"64 kB of each read by a loop": count / heads.seconds},
            wanted="100,000 in 40 s",
            peak_mb=took.memory,
            ceiling=f"{took.cpu_seconds:.1f} s of CPU on {cores} cores: "
            f"{cores * count / took.cpu_seconds:,.0f} files/s",
        ),
    ]


def looked_at(top: Path, most: int) -> dict[str, float]:
    """Microseconds that finding out what a file is takes, by kind."""
    entries = list_location(str(top)).entries
    seconds: dict[str, float] = defaultdict(float)
    number: dict[str, int] = defaultdict(int)
    for entry in entries[:: max(1, len(entries) // most)]:
        kind = entry.name.partition(".")[2]
        started = time.perf_counter()
        readers.sniff_file(entry, peek_file(entry), SourceSpec())
        seconds[kind] += time.perf_counter() - started
        number[kind] += 1
    return {kind: 1e6 * seconds[kind] / number[kind] for kind in seconds}


def profiled(top: Path, most: int) -> str:
    """Where the time of `looked_at` goes."""
    profile = cProfile.Profile()
    profile.runcall(looked_at, top, most)
    said = io.StringIO()
    pstats.Stats(profile, stream=said).sort_stats("tottime").print_stats(25)
    return said.getvalue()


def show(place: str, figures: dict[str, float]) -> None:
    print(
        f"{place:10} {figures['files']:9,.0f} files {figures['seconds']:7.2f} s"
        f" {figures['files'] / figures['seconds']:9,.0f}/s"
        f" peak {figures['peak']:6.0f} MiB, before it {figures['before']:6.0f} MiB",
        flush=True,
    )


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--looked-at", type=int, default=2_000)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    add_options(parser)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(listed(options.child, options.files)))
        return
    options.files //= 10 if options.quick else 1
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder) / "top"
        make(top, options.files)
        local = in_a_process(str(top), options.files)
        show("local", local)
        keep_rows(looked_into(top, options.files, local), options.keep_rows)
        show("memory://", in_a_process("memory://listing", options.files))
        with bucket(options.files) as url:
            keys = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "k"}
            show("s3://", in_a_process("s3://b/top", options.files, AWS_ENDPOINT_URL=url, **keys))
        for kind, microseconds in looked_at(top, options.looked_at).items():
            print(f"looked at  {kind:9} {microseconds:8.0f} µs a file")
        if options.profile:
            print(profiled(top, options.looked_at))


if __name__ == "__main__":
    main()
