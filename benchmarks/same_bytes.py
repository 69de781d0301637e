r"""Run two checkouts on the same inputs and compare what a user gets: a net for restructuring.

    python benchmarks/same_bytes.py record --tree ../base --out base.json --examples EXAMPLES
    python benchmarks/same_bytes.py record --tree . --out here.json --examples EXAMPLES
    python benchmarks/same_bytes.py compare base.json here.json --renames renames.json

`record` runs every case against one checkout, through `ingot.cli.app:app` and the documented Python
imports, and keeps what came of it. Each step is a process of its own, forked from one that has
imported everything; those that begin with `!` start `python -m ingot` as a user does. Give both
recordings the same `--examples` and `--shared` folders: their hashes are compared too.

`compare` reads the two files only. Data files are compared by SHA-256; where the bytes differ but
the content does not (rows of Parquet, values of JSON and YAML) it says "same content, other bytes".
JSON is compared by value, without times and machine, and sentences in it by their numbers; run.json
by its keys; reports, pages, logs, stdout and stderr by their numbers, their statuses and the
snake_case words in them. `--renames` is a JSON object, old word to new word: keys, values, statuses
and parts of file names of the first recording are read as renamed. `--ignore` is a pattern of
"CASE: PLACE" whose differences are wanted. The exit code is 1 if anything differs.
"""

import argparse
import difflib
import gc
import hashlib
import html
import importlib
import json
import os
import pkgutil
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from fnmatch import fnmatch
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Json = Any
HERE = Path(__file__).resolve()
LONGEST_STEP = 240  # seconds; the first run of a checkout compiles kernels
PRELOADED = ("pyarrow.parquet", "pyarrow.csv", "pyarrow.dataset", "numba", "torch", "yaml")
SHELL = ("bash", "-uo", "pipefail", "-c")
PLACES = {"EX": "../../in/examples", "GOLD": "../../in/golden", "BENCH": "../../in/bench"}
RAW = ("zh_townlife", "en_field_notes", "en_instructions", "en_chats", "zh_exam", "sensor_log")

# One step a line: arguments of ingot; `! ` in a process of its own; `$ ` a shell command; `@ ` a
# loader below. `let WORD = text` stands for the text, in its case or, at the top, in all. NAME
# makes a case of each raw example, or of each mapping benchmark.
CASES = r"""everywhere
let TOK = EX/tokenizer/tokenizer.json
== examples/NAME
! run EX/NAME --out run --mapper rules --tokenizer TOK --yes --json
run EX/NAME --out lines --mapper rules --records jsonl --yes
run EX/NAME --out lines --mapper rules --records jsonl --yes
run EX/NAME --out waits --mapper rules
run EX/NAME --out waits --mapper rules --yes --min-confidence 0.99
run EX/NAME --out dry --mapper rules --dry-run
map EX/NAME --mapper rules --explain -o m.json --pin-sample
map EX/NAME --mapper rules --json
map EX/NAME --show-prompt
check m.json EX/NAME --json
check m.json
convert m.json EX/NAME --out some --limit 20 --records jsonl --language en --source x
! convert m.json EX/NAME --out all --tokenizer TOK --json
export run --to llamafactory --out to/llamafactory
export run --to swift --out to/swift --json
export run --to axolotl --out to/axolotl --name n --split-name test
export run --to trl --out to/trl
export run --to torchtune --out to/torchtune
export run --to trl --out to/lossy --lossy --json
tokens build --input-dir lines/records --pattern *.jsonl --tokenizer TOK --output-prefix t/a
tokens inspect t/a --tokenizer TOK --json
@ records run/records
== examples/chat
$ printf 'fields\nshow 1\nset text metadata.title,...\ndrop metadata.title under 20\nundo\n' > talk
$ printf 'why text\ngates\nsave s.json\nok\nquit\n' >> talk
$ "$PY" -m ingot chat EX/en_field_notes --out notes --mapper rules < talk | sed 's/--resume .*//'
$ "$PY" -m ingot chat --list --json | sed 's/"id": ".*"/"id": 0/; s/"at": .*/"at": 0/'
== examples/review
let GIT = git -c user.name=a -c user.email=a@example.org -c commit.gpgsign=no
map EX/zh_exam --mapper rules -o a.json --pin-sample
$ sed 's/"stem",/"grade", "stem",/' a.json > b.json; mkdir repo
review a.json b.json
review a.json b.json --source EX/zh_exam --json
$ cd repo; git init -q -b main .; cp -r ../a.json ../a.sample .; git add .; GIT commit -qm one
$ cd repo; cp ../b.json a.json; "$PY" -m ingot review --base main --format json
$ cd repo; "$PY" -m ingot review --base main --allow-breaking --full; rm -rf .git
== examples/lake
let LAKE = lake run EX/lake/raw --out lake --mapper rules --yes --min-confidence 0.75 \
  --dedup exact --split train=0.9,valid=0.1 --jobs 1 --tokenizer TOK
let PLAIN = lake run EX/lake/raw --out plain --mapper rules --mappings plain/maps --records jsonl
lake run EX/lake/raw --out lake --dry-run --json
LAKE --json
lake review lake --list
lake review lake --list --json
$ cp -r lake first
lake review lake --approve notebook --json
! LAKE
$ "$PY" -m ingot PLAIN --pin-sample --jobs 2 2> /dev/null
lake review plain --reject letters
lake review plain --approve k* --approve folktales
PLAIN --strict --jobs 1
== examples/errors
run EX/zh_exam
run nowhere --out o --yes
run EX/zh_exam --out o --mode all
$ echo '{"version": 2, "text": "nothing"}' > m.json; echo '{"version": 2}' > bad.json
check m.json EX/zh_exam
convert m.json EX/zh_exam --out o
convert bad.json EX/zh_exam --out o
run EX/criteo --out o --yes --mapper rules
run EX/ctr/sample_skeleton_train.csv --out p --yes --mapper rules
run EX/monolith/feed.pb --out q --yes --mapper rules
run EX/lake/raw/diary --out o --yes --mapper rules
export nowhere --to trl --out o
tokens build --input-dir EX/zh_exam --tokenizer TOK --output-prefix o/p
ctr validate nowhere
doctor --json
! --version
== model/zh_exam
let MODEL = --mapper llm --model m --base-url URL
run EX/zh_exam --out llm MODEL --yes --json
run EX/zh_exam --out again MODEL --yes --json
run EX/zh_exam --out auto --mapper auto --model m --base-url URL --yes --json
map EX/en_instructions MODEL --json
map EX/zh_exam MODEL --llm-max-calls 0 --no-llm-cache
doctor --model m --base-url URL --json
== examples/tokens
let CORPUS = EX/parquet2mbt/corpus
let BUILD = tokens build --input-dir CORPUS --text-cols title,content --tokenizer TOK
! BUILD --output-prefix t/a --append-eod
BUILD --output-prefix t/a --append-eod --resume
BUILD --output-prefix t/b --dtype u32 --pack 256 --append-eod --no-strip --log-file log.jsonl
BUILD --output-prefix t/c --doc-boundary file --concat-sep \\n\\n --add-special-tokens
BUILD --output-prefix t/d --long-docs split --max-tokens 64 --append-eod --min-chars 40
! BUILD --output-prefix t/e --append-eod --processes 2 --tok-engine hf
BUILD --output-prefix t/a --truncate --max-tokens 9
tokens inspect t/a --tokenizer TOK --document 1
tokens inspect t/b --tokenizer TOK --samples 2 --json
tokens merge t/a t/d t/e --output-prefix t/m --json
tokens verify t/a --source CORPUS --tokenizer TOK --all --json
tokens verify t/d --source CORPUS --tokenizer TOK
run EX/en_chats --out chats --mapper rules --tokenizer TOK --yes
@ tokens t/a t/b t/d chats/tokens/en_chats
$ "$PY" "$TREE/examples/train_on_tokens.py" --out "$PWD/trained"
== golden/tokenize
let BUILD = tokens build --input-dir GOLD/tokenize --pattern docs.parquet
let GPT = --tokenizer GOLD/tokenize/gpt2.json
BUILD GPT --output-prefix u16 --dtype u16
BUILD GPT --output-prefix u16_eod --dtype u16 --append-eod
BUILD GPT --output-prefix u16_all --dtype u16 --append-eod --empty-docs eod
BUILD GPT --output-prefix u16_none --dtype u16 --append-eod --empty-docs drop
BUILD GPT --output-prefix i32 --dtype u32 --special-in-text plain
BUILD --tokenizer GOLD/tokenize/sp_bpe.model --output-prefix sp_bpe --append-eod
BUILD --tokenizer GOLD/tokenize/sp_uni.model --output-prefix sp_uni --append-eod
tokens verify u16_eod --source GOLD/tokenize GPT
tokens inspect GOLD/tokenize/gpt2_int32_eod GPT --json
@ tokens u16_eod sp_bpe
== examples/ctr
let BUILD = ctr build --skeleton EX/ctr/sample_skeleton_train.csv \
  --common EX/ctr/common_features_train.csv --featuremap EX/ctr/featuremap.yaml
! BUILD --out a
BUILD --out a
BUILD --out b --click-mask exposed --tail-ids contract --funnel drop --json
BUILD --out c --vocab a --train-fraction 0.5 --funnel coerce
BUILD --out a --funnel drop
let DRAFT = ctr draft EX/ctr/impressions.csv --label clicked --entity visitor
DRAFT -o draft.yaml
DRAFT --json
ctr build --table EX/ctr/impressions.csv --featuremap EX/ctr/impressions.yaml --out t --json
ctr build --table EX/ctr/impressions.csv --featuremap draft.yaml --out drafted
ctr validate a
ctr validate t --json
ctr stats a --html a.html
ctr stats t --json
@ ctr a t
$ "$PY" "$TREE/examples/train_esmm.py" a
== golden/ctr
let BUILD = ctr build --skeleton GOLD/ctr/sample_skeleton_train.csv \
  --common GOLD/ctr/common_features_train.csv --featuremap GOLD/ctr/featuremap_small.yaml
BUILD --out a --json
BUILD --out b --funnel coerce --tail-ids contract
ctr validate a --json
ctr stats a --json
@ ctr a
== examples/criteo
! criteo preprocess --input-dir EX/criteo --out a
criteo preprocess --input-dir EX/criteo --out a --json
criteo preprocess --input-dir EX/criteo --out s --strict
criteo inspect a --html a.html
criteo inspect a --json --top 3
@ criteo a
$ "$PY" "$TREE/examples/train_dlrm.py" a --epochs 1 --multi-hot 4
== golden/criteo
let BUILD = criteo preprocess --input-dir GOLD/criteo
let ALTER = import json; d = json.load(open("GOLD/criteo/multihot_config.json")); \
  n = {"num_embeddings": d["num_embeddings"]}; s = d["head_multi_hot_sizes"]; \
  u = n | {"multi_hot_size": 4, "multi_hot_min_table_size": 78}; \
  u["collect_multi_hot_freqs_stats"] = True; json.dump(u, open("u.json", "w")); \
  p = n | {"multi_hot_sizes": s, "seeding": "global0", "multi_hot_distribution_type": "pareto"}; \
  json.dump(p, open("p.json", "w"))
BUILD --out a --json
BUILD --out b --dense min2 --frequency-threshold 3 --compat torchrec_f32 --encode columns
BUILD --out c --days 0-1 --no-shuffle --threads 1
BUILD --out d --days 2 --vocab c --unseen 1
criteo inspect a --json
$ "$PY" -c 'ALTER'
criteo multihot a --config u.json --out u --json
criteo multihot a --config p.json --out p
@ criteo a
== examples/monolith
let CONVERT = monolith convert
let EB = --from examplebatch --to example
CONVERT EX/monolith/feed.pb strict.pb EB
! CONVERT EX/monolith/feed.pb rows.pb EB --skip-bad --json
CONVERT rows.pb rows.parquet --from example --to parquet
CONVERT rows.parquet back.pb.zst --from parquet --to examplebatch --batch-size 32
CONVERT EX/monolith/clicks.parquet clicks.pb --from parquet --to example \
  --table EX/monolith/clicks.yaml
CONVERT rows.pb few.pb --from example --to example --negative-rate 0.25 --seed 3 --drop-unset
CONVERT rows.pb some.pb.gz --from example --to examplebatch --label 0>=1 --feature f_*
CONVERT rows.pb lx.pb --from example --to example --out-framing lagrangex_header
monolith cat EX/monolith/feed.pb --limit 3
monolith cat EX/monolith/clicks.parquet --from parquet --limit 2
monolith cat rows.pb --json
monolith stats EX/monolith/feed.pb
monolith stats clicks.pb --json
@ monolith EX/monolith/feed.pb rows.pb
== golden/monolith
let MONO = GOLD/monolith/mono_example
let BATCH = GOLD/monolith/mono_examplebatch_sortid.pb
let PLAIN = --from example --framing none
let LX = --from example --framing lagrangex_header
monolith convert MONO_plain.pb a.pb PLAIN --to examplebatch --batch-size 17 --json
monolith convert MONO_plain.pb a.parquet PLAIN --to parquet
monolith convert MONO_lagrangex.pb b.pb LX --to example --out-framing sort_id,kafka_dump
monolith convert MONO_sortid.pb c.pb.snappy --from example --to examplebatch --no-shared
monolith convert BATCH d.pb --from examplebatch --to example --drop-raw
monolith convert BATCH e.parquet --from examplebatch --to parquet
monolith stats MONO_plain.pb --json
monolith stats MONO_lagrangex.pb
monolith cat BATCH --json
@ monolith BATCH MONO_sortid.pb
== bench/NAME
map BENCH/NAME/raw --mapper rules --json
map BENCH/NAME/raw --show-prompt
run BENCH/NAME/raw --mode MODE --out o --records jsonl --mapper rules --yes
convert BENCH/../mappings/NAME.json BENCH/NAME/raw --out c --source bench
"""


def all_cases(work: Path, url: str) -> Iterator[tuple[str, list[str]]]:
    """Yield name and steps of every case, all words replaced."""
    known = PLACES | {"URL": url}
    found = [json.loads(one.read_bytes()) for one in (work / "in/bench").glob("*/case.json")]
    modes = {one["name"]: one["requested_mode"] for one in sorted(found, key=str)}
    given = {"examples/NAME": dict.fromkeys(RAW, ""), "bench/NAME": modes}
    for block in CASES.replace("\\\n ", "").split("\n== "):
        title, *lines = block.strip().splitlines()
        for name, mode in given.get(title, {"": ""}).items():
            words = known | {"NAME": name, "MODE": mode}
            steps = list(spelt(lines, words))
            if steps:
                yield title.replace("NAME", name), steps
            else:
                known = words


def spelt(lines: list[str], known: dict[str, str]) -> Iterator[str]:
    """Yield the lines, words in capitals replaced; `let` adds a word to `known`."""
    for line in filter(None, lines):
        let, word, text = re.fullmatch(r"(?:(let) ([A-Z]+) = )?(.*)", line).groups()  # type: ignore[union-attr]
        text = re.sub(r"\$?[A-Z]+(?![A-Za-z])", lambda found: known.get(found[0], found[0]), text)
        if let:
            known[word] = text
        else:
            yield text


class Model(BaseHTTPRequestHandler):
    """A model that says to every question that `stem` asks and `answer` answers."""

    def do_POST(self) -> None:
        """Answer one question."""
        self.rfile.read(int(self.headers["content-length"]))
        meta = ("source", "language", "timestamp", "token_count", "quality_score", "original_id")
        turns = [{"each": [], "content": [one], "loss_mask": None} for one in ("stem", "answer")]
        reply: Json = dict.fromkeys(("root", "each", "group", "text", "system"))
        reply |= {"decision": "sft", "reason": "because", "confidence": 0.9, "where": []}
        reply |= {"messages": [turns[0] | {"role": "user"}, turns[1] | {"role": "assistant"}]}
        message = {"content": json.dumps(reply | {"meta": dict.fromkeys(meta)})}
        body = json.dumps({"choices": [{"finish_reason": "stop", "message": message}]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def record(args: argparse.Namespace) -> int:
    """Run the cases against one checkout, in a folder that is removed afterwards."""
    work = Path(tempfile.gettempdir()) / "same-bytes"  # one place: paths stand in some results
    if work.exists():
        sys.exit(f"error: {work} is there: another recording runs, or one was killed (remove it)")
    (work / "run").mkdir(parents=True)
    try:
        copy_inputs(args, work / "in")
        code = start(args, work)
        if args.keep:
            shutil.copytree(work / "run", args.out.with_suffix(".files"), symlinks=True)
    finally:
        shutil.rmtree(work)
    return code


def copy_inputs(args: argparse.Namespace, to: Path) -> None:
    """Copy what the cases read; nothing is read in place."""
    shutil.copytree(args.examples, to / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(args.shared / "golden", to / "golden")
    bench = args.shared / "bench/mapping"
    for case in [*bench.glob("public/*/case.json"), *bench.glob("hard/*/case.json")]:
        shutil.copytree(case.parent / "raw", to / "bench" / case.parent.name / "raw")
        shutil.copy(case, to / "bench" / case.parent.name)
    shutil.copytree(bench / "mappings", to / "mappings")


def start(args: argparse.Namespace, work: Path) -> int:
    """Start the process that runs the cases, in a clean environment, with a model to ask."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    tree, home = str(args.tree.resolve()), f"{work}/home"
    given = {"PATH": os.environ["PATH"], "HOME": home, "INGOT_HOME": home, "PYTHONPATH": tree}
    given |= {"TREE": tree, "PY": shutil.which(args.python) or args.python, "COLUMNS": "160"}
    given |= {"PYTHONHASHSEED": "0", "LANG": "C.UTF-8", "NO_COLOR": "1", "TZ": "UTC"}
    given |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    given |= dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), "2026-01-01T00:00:00Z")
    url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    argv = [given["PY"], HERE, "run", work, url, args.out.resolve(), f"--only={args.only}"]
    return subprocess.run(argv, cwd=work, env=given, check=False).returncode


def run_cases(args: argparse.Namespace) -> int:
    """Import everything, run the cases one after another, write what was found."""
    began, tree = time.monotonic(), os.environ["TREE"]
    del sys.path[0]  # this file's folder, whose names are not meant
    for name in PRELOADED:
        importlib.import_module(name)
    importlib.import_module("py3langid").classify("loads a model")
    package = importlib.import_module("ingot")
    if not str(package.__file__).startswith(tree):
        sys.exit(f"error: {package.__file__} is not in {tree}")
    for module in pkgutil.walk_packages(package.__path__, "ingot."):
        with suppress(ImportError):
            importlib.import_module(module.name)
    gc.freeze()
    found: Json = {"tree": tree, "inputs": {}, "cases": {}}
    for path in sorted(one for one in (args.work / "in").rglob("*") if one.is_file()):
        found["inputs"][str(path.relative_to(args.work))] = sha256(path.read_bytes())
    for name, steps in all_cases(args.work, args.url):
        if name.startswith(args.only):
            case = Case(args.work, args.url, name)
            found["cases"][name] = {"steps": [*map(case.step, steps)], "files": case.files()}
            print(f"{time.monotonic() - began:6.1f} s  {name}", flush=True)
    args.out.write_text(json.dumps(found, ensure_ascii=False), encoding="utf-8")
    print(f"{sum(os.times()[:4]):.0f} s of processor time")
    return 0


def sha256(content: bytes) -> str:
    """Return the hash in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


class Case:
    """A case that is run: a folder of its own as working directory, and an empty home."""

    def __init__(self, work: Path, url: str, name: str) -> None:
        self.work, self.url, self.folder = work, url, work / "run" / name.replace("/", ".")
        self.folder.mkdir()
        shutil.rmtree(work / "home", ignore_errors=True)
        (work / "home").mkdir()

    def step(self, line: str) -> Json:
        """Run one step; return its exit code and what it said."""
        kind, rest = (line[0], line[2:]) if line[:2] in ("! ", "$ ", "@ ") else ("", line)
        words = shlex.split(rest)
        ways: dict[str, Callable[[], object]] = {"": partial(ingot, words)}
        ways |= {"@": partial(load, words), "$": partial(os.execlp, "bash", *SHELL, rest)}
        python = os.environ["PY"]
        ways |= {"!": partial(os.execlp, python, python, "-m", "ingot", *words)}
        code, seconds = self.fork(ways[kind])
        said = {one: parse(self.read(self.work / one)) for one in ("stdout", "stderr")}
        line = line.replace(self.url, "<url>")
        return {"step": line, "exit": code, "cpu": round(seconds, 2)} | said

    def files(self) -> Json:
        """Describe every file that the steps have left."""
        skipped = re.compile(r"\.ingot-lake/|sqlite|lock$|__pycache__")
        files = (one for one in self.folder.rglob("*") if one.is_file())
        names = sorted(str(one.relative_to(self.folder)) for one in files)
        names = [one for one in names if not skipped.search(one)]
        code, _ = self.fork(lambda: print(json.dumps({n: self.describe(n) for n in names})))
        if code:
            sys.exit(f"{self.folder.name}: {(self.work / 'stderr').read_text()}")
        return json.loads((self.work / "stdout").read_bytes())

    def fork(self, run: Callable[[], object]) -> tuple[int, float]:
        """Run in a process of its own; return its exit code, or minus a signal, and CPU seconds."""
        if (child := os.fork()) == 0:
            os.setsid()
            os.chdir(self.folder)
            signal.alarm(LONGEST_STEP)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            for number, name in ((1, "stdout"), (2, "stderr")):
                os.dup2(os.open(self.work / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            try:
                run()
                code = 0
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else int(end.code is not None)
            sys.stdout.flush()
            os._exit(code)  # without the seconds that tidying up so many modules takes
        _, status, used = os.wait4(child, 0)
        return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime

    def read(self, path: Path) -> str:
        """Read a text; places and port of this recording are left out of it."""
        text = path.read_text(encoding="utf-8", errors="replace").replace(str(self.work), "<work>")
        text = text.replace(os.environ["TREE"], "<tree>")
        return text.replace(self.url.split("/")[2], "<server>")

    def describe(self, name: str) -> Json:
        """Describe a file: its hash where its bytes are promised, its content where it is small."""
        path = self.folder / name
        sha: Json = {"sha": sha256(path.read_bytes())}
        if path.suffix == ".parquet":
            return sha | table(path)
        if path.suffix in (".yaml", ".yml"):
            return sha | {"docs": importlib.import_module("yaml").safe_load(path.read_bytes())}
        if path.suffix in (".md", ".html"):
            return parse(self.read(path))
        if path.name.endswith("run.json"):
            return parse(self.read(path)) | {"keys": True}
        if path.name == "manifest.json":
            return {"docs": checked(json.loads(self.read(path)), path.parent)}
        if path.suffix == ".json" or (path.suffix == ".jsonl" and "records/" not in name):
            return parse(self.read(path)) | ({} if path.name.startswith("log") else sha)
        return sha


def ingot(words: list[str]) -> None:
    """Run the command line in this process."""
    sys.argv = ["ingot", *words]
    importlib.import_module("ingot.cli.app").app(args=words, prog_name="ingot")


def parse(text: str) -> Json:
    """Return JSON, or JSON lines, as `docs`; HTML as its `text` and the JSON in it; else `text`."""
    with suppress(ValueError):
        return {"docs": json.loads(text)}
    with suppress(ValueError):
        lines = [line for line in text.splitlines() if not METRICS.search(line)]
        return {"docs": [json.loads(line) for line in lines or ["no JSON"]]}
    if not text.lstrip().lower().startswith("<!doctype"):
        return {"text": text}
    data = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', text, re.S)
    text = re.sub(r"<(script|style|head)\b.*?</\1>", "", text, flags=re.S)
    text = html.unescape(re.sub(r"<[^>]+>", "  ", text))
    return {"text": text, "docs": [json.loads(one) for one in data]}


def checked(manifest: Json, folder: Path) -> Json:
    """Put in place of the hashes of written files whether they are right."""
    for entry in manifest.get("files", []):
        if isinstance(entry, dict) and "sha256" in entry:
            content = (folder / entry["path"]).read_bytes()
            entry["sha256"] = entry["sha256"] == sha256(content)
            entry["bytes"] = entry["bytes"] == len(content)
    return manifest


def table(path: Path) -> Json:
    """Describe a Parquet file by what it says, however it is packed."""
    read = importlib.import_module("pyarrow.parquet").read_table(path, use_threads=False)
    docs: Json = {"rows": read.num_rows, "schema": read.schema.names}
    for key, note in (read.schema.metadata or {}).items():
        docs[f"metadata {key.decode()}"] = parse(note.decode("utf-8", "replace"))
    for field in read.schema:
        cells = read[field.name].to_pylist()
        said = f"{field.type} {field.nullable} {cells!r}"
        docs[field.name] = cells if path.name == "catalog.parquet" else sha256(said.encode())
    return {"docs": docs}


def module(name: str) -> Json:
    """Import a package from where it lies, or will lie."""
    for place in ("ingot.converters", "ingot.converters.recsys"):
        with suppress(ModuleNotFoundError):
            return importlib.import_module(f"{place}.{name}")
    raise ModuleNotFoundError(name)


def load(words: list[str]) -> None:
    """Iterate a loader over data sets; print a hash of all that it gave, by name."""
    loaders = {"ctr": ctr, "criteo": criteo, "tokens": tokens, "monolith": monolith}
    sums: dict[str, Json] = defaultdict(hashlib.sha256)
    items: Counter[str] = Counter()
    for name, value in (loaders | {"records": records})[words[0]](words[1:]):
        items[name] += 1
        feed(sums, name, value)
    print(json.dumps({"items": items, "sha": {k: v.hexdigest() for k, v in sums.items()}}))


def feed(sums: dict[str, Json], place: str, value: Json) -> None:
    """Add a value to the hash of its place; parts of it have places of their own."""
    if hasattr(value, "offset_per_key"):  # a KeyedJaggedTensor
        value = [value.keys(), value.values(), value.lengths(), value.offsets()]
    if isinstance(value, list | tuple) and not all(isinstance(one, str) for one in value):
        value = dict(enumerate(value))
    if isinstance(value, dict):
        for key, part in value.items():
            feed(sums, f"{place}/{key}", part)
    elif hasattr(value, "numpy"):
        array = value.numpy()
        sums[place].update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
    else:
        sums[place].update(repr(value).encode())


def ctr(folders: list[str]) -> Iterator[tuple[str, Json]]:
    """Yield batches of built CTR data, also of a loader that goes on where another stopped."""
    build = module("ctr").build_dataloader
    ways: Json = {"plain": {}, "shuffled": {"shuffle": True, "seed": 3, "shuffle_buffer": 512}}
    ways |= {"jagged": {"jagged": True}, "rank": {"rank": 1, "world_size": 2, "num_workers": 2}}
    for folder in folders:
        for way, options in ways.items():
            for split in ("train", "valid"):
                loader = build(folder, split=split, batch_size=256, **options)
                yield from ((f"{folder} {split} {way}", batch) for batch in loader)
        begun, again = (build(folder, split="train", batch_size=99, shuffle=True) for _ in "ab")
        next(iter(begun))
        again.load_state_dict(begun.state_dict())
        yield from ((f"{folder} resumed", batch) for batch in again)


def criteo(folders: list[str]) -> Iterator[tuple[str, Json]]:
    """Yield batches of preprocessed click logs."""
    package = module("criteo")
    wide = package.MultiHot([60] * 26, multi_hot_size=3, multi_hot_min_table_size=50)
    ways: Json = {"plain": {}, "modulo": {"num_embeddings": 37}, "wide": {"multi_hot": wide}}
    ways |= {"batches": {"shuffle_batches": True}, "rows": {"shuffle_rows": True, "seed": 5}}
    ways |= {"rank": {"rank": 1, "world_size": 2, "drop_last": True}}
    for way, options in ways.items():
        for split in ("train", "val", "test"):
            loader = package.CriteoDataset(folders[0], 64, split=split, **options)
            yield from ((f"{split} {way}", batch) for batch in loader)


def tokens(prefixes: list[str]) -> Iterator[tuple[str, Json]]:
    """Yield items and a batch of token data sets."""
    package = module("megatron.dataset")
    for prefix in prefixes:
        for unit in ("document", "sequence", "stream"):
            data = package.TokenDataset(prefix, seq_length=128, unit=unit, truncate=True)
            items = [data[at] for at in range(len(data))]
            yield from ((f"{prefix} {unit}", item) for item in items)
            yield f"{prefix} {unit} batch", package.collate(items[:9])


def monolith(given: list[str]) -> Iterator[tuple[str, Json]]:
    """Yield batches of the first stream, rows of both, and the table that the second becomes."""
    package, (batches, rows) = module("monolith"), given
    said = partial(map, lambda one: one.SerializeToString(deterministic=True))
    yield "batches", b"".join(said(package.ExampleBatchReader(batches)))
    of_batches = package.read_examples(batches, kind="examplebatch", skip_bad=True)
    yield "rows of batches", b"".join(said(of_batches))
    yield "rows", b"".join(said(package.read_examples(rows)))
    read = package.read_arrow(rows).read_all()
    yield from ((f"table {one.name}", repr(read[one.name].to_pylist())) for one in read.schema)


def records(folders: list[str]) -> Iterator[tuple[str, Json]]:
    """Yield unified records."""
    read = module("records").read_records(Path(folders[0]))
    yield from (("records", json.dumps(one, sort_keys=True, default=str)) for one in read)


VOLATILE = re.compile(
    "(.*_)?seconds|ts|finished|started|host|etag|speed|stages|phases|latency.*|cpu_pct|mtime_ns"
    "|manifest_sha256|.*rss_bytes|.*MBps|.*_per_sec(ond)?|queue_depth.*"
)
STATES = {"converted", "nothing", "other", "waiting", "resting", "failed", "rejected", "gone", "ok"}
STATES |= {"no_training_text", "other_command", "postponed", "removed"}
STATES |= {"pass", "warn", "block", "fail", "skipped", "passed", "broken", "shuffled", "kept", "pt"}
STATES |= {"done", "sft", "irrelevant", "unmappable", "approved", "edited"}
PROSE = {"why", "hint", "reason", "note", "notes", "message", "detail", "description", "figure"}
PROSE |= {"wants", "limit", "not_checkable", "runner_up", "use", "error", "reproduce", "doubts"}
PROSE |= {"first_rejects", "featuremap", "left_out", *STATES}
METRICS = re.compile('"event": ?"metrics"')  # log lines whose number depends on the time
SAME = "same content, other bytes"
TIME = r"\d{4}-\d\d-\d\d(?:[T ][\d:.]+)?(?:Z|[+-]\d\d:?\d\d)?|\b\d+(?::\d\d)+(?:\.\d+)?\b"
UNIT = r"(?:ns|µs|us|ms|s|sec|seconds?|min|minutes?|h|hours?|[kKMGT]i?B|B|bytes?)"
PATH = r"[^\s|`]*[A-Za-z_<>][^\s|`]*/[^\s|`]*|[^\s|`]*/[^\s|`]*[A-Za-z_<>][^\s|`]*"
SIZE = rf"[\d.]+ s +\d+ ?%|[\d.,]+[kMG]? ?[\w-]*/s\b|\b[\d.,]*\d ?{UNIT}\b|\bv?\d+\.\d+\.\d+\S*"
NOISE = re.compile(f"{TIME}|{SIZE}|{PATH}")
NUMBER = re.compile(r"(?<![\w.\-])-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[-+]?\d+)?(?!\w|\.\d)")


def numbers(text: str) -> list[str]:
    """Return the numbers of a text that are no times, sizes, rates, versions or parts of paths."""
    return [one.replace(",", "") for one in NUMBER.findall(NOISE.sub(" ", text))]


def flat(found: Json, words: dict[str, str]) -> dict[str, Json]:
    """Return what is compared of a file or an output, by place."""
    values = dict(leaves(found["docs"], words, found.get("keys", False))) if "docs" in found else {}
    if "text" in found:
        text = found["text"].replace("\\_", "_")
        cells = (words.get(one, one) for one in map(str.strip, re.split(r"\s{2,}|[|\n,:]", text)))
        values |= {f"status {name}": n for name, n in Counter(cells).items() if name in STATES}
        names = re.findall(r"\b[a-z]+(?:_[a-z0-9]+)+\b", NOISE.sub(" ", text))
        names = sorted({words.get(one, one) for one in names} - STATES)
        values |= {"numbers": numbers(text), "words": names}
    return values


def leaves(
    doc: Json, words: dict[str, str], keys: bool, place: str = "", key: str = ""
) -> Iterator[Json]:
    """Yield place and value of every leaf of a document; with `keys` the places alone."""
    if VOLATILE.fullmatch(key) or (keys and not isinstance(doc, dict | list)):
        yield place, "*"
    elif isinstance(doc, dict) and doc:
        for name, part in doc.items():
            new = str(words.get(name, name))
            yield from leaves(part, words, keys, f"{place}.{new}", new)
    elif isinstance(doc, list) and doc:
        for at, part in enumerate(doc):
            yield from leaves(part, words, keys, f"{place}[{'' if keys else at}]", key)
    elif isinstance(doc, str):
        yield place, numbers(doc) if key in PROSE and " " in doc else words.get(doc, doc)
    else:
        yield place, doc


def change(old: Json, new: Json) -> str:
    """Say how two values differ; of lists what went and what came."""
    if not (isinstance(old, list) and isinstance(new, list)):
        return f"{json.dumps(old, ensure_ascii=False)} -> {json.dumps(new, ensure_ascii=False)}"
    lines = difflib.ndiff([str(one) for one in old], [str(one) for one in new])
    return " ".join(one[0] + one[2:] for one in lines if one[0] in "+-")


def changes(old: Json, new: Json, words: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield place and difference of a file or an output that is in both recordings."""
    if old.get("sha", "old") == new.get("sha", "new"):
        return
    before, after = flat(old, words), flat(new, {})
    places = [one for one in before | after if before.get(one, "-") != after.get(one, "-")]
    yield from ((one, change(before.get(one, "-"), after.get(one, "-"))) for one in places)
    if not places and "sha" in old:
        yield "", SAME if "docs" in old else "other bytes"


def case_changes(old: Json, new: Json, words: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield place and difference of everything in a case."""
    if len(old["steps"]) != len(new["steps"]):
        yield "steps", change(len(old["steps"]), len(new["steps"]))
    for at, (before, after) in enumerate(zip(old["steps"], new["steps"], strict=False)):
        step = f"step {at + 1} ({before['step'][:60]})"
        for one in ("step", "exit"):
            if before[one] != after[one]:
                yield f"{step} {one}", change(before[one], after[one])
        for one in ("stdout", "stderr"):
            for place, how in changes(before[one], after[one], words):
                yield f"{step} {one} {place}", how
    parts = {name: re.split(r"([^/.]+)", name) for name in old["files"]}
    renamed = {"".join(words.get(x, x) for x in given): name for name, given in parts.items()}
    for name in sorted(renamed.keys() | new["files"].keys()):
        if name not in renamed or name not in new["files"]:
            yield f"file {name}", "only in the first" if name in renamed else "only in the second"
            continue
        for place, how in changes(old["files"][renamed[name]], new["files"][name], words):
            yield f"file {name} {place}", how


def compare(args: argparse.Namespace) -> int:
    """Print every difference of two recordings; return 1 if there is one."""
    old, new = (json.loads(one.read_bytes()) for one in (args.old, args.new))
    words = json.loads(args.renames.read_bytes()) if args.renames else {}
    for known in (PROSE, STATES):
        known.update([words[one] for one in known if one in words])
    total: Counter[str] = Counter()
    if old["inputs"] != new["inputs"]:
        total["other inputs"] = 1
        print(f"other inputs: {sorted(dict(old['inputs'].items() ^ new['inputs'].items()))[:9]}")
    for name in sorted(old["cases"].keys() | new["cases"].keys()):
        found = [("case", "only in one of both")]
        if name in old["cases"] and name in new["cases"]:
            found = list(case_changes(old["cases"][name], new["cases"][name], words))
        found = [o for o in found if not any(fnmatch(f"{name}: {o[0]}", p) for p in args.ignore)]
        total.update(SAME if how == SAME else "differences" for _, how in found)
        for place, how in found[: args.most]:
            print(f"{name}: {place}: {how[:300]}")
        if len(found) > args.most:
            print(f"{name}: and {len(found) - args.most} more")
    print(f"{len(new['cases'])} cases: {dict(total) or 'no differences'}")
    return int(any(total.values()))


def main() -> int:
    """Record or compare; return the exit status."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("record", help="run all cases against one checkout")
    one.add_argument("--tree", type=Path, required=True, help="the checkout")
    one.add_argument("--out", type=Path, required=True, help="JSON file to be written")
    one.add_argument("--python", default=sys.executable, help="an interpreter with all extras")
    one.add_argument("--only", default="", help="cases whose names begin so, as examples/ctr")
    one.add_argument("--examples", type=Path, default=HERE.parents[1] / "examples")
    one.add_argument("--shared", type=Path, default=HERE.parents[2] / "shared")
    one.add_argument("--keep", action="store_true", help="keep what the cases wrote: OUT.files")
    one.set_defaults(call=record)
    one = commands.add_parser("compare", help="print the differences of two recordings")
    one.add_argument("old", type=Path)
    one.add_argument("new", type=Path)
    one.add_argument("--renames", type=Path, help="JSON object: old word to new word")
    one.add_argument("--ignore", action="append", default=[], metavar="'CASE: PLACE'")
    one.add_argument("--most", type=int, default=10, help="differences shown of a case")
    one.set_defaults(call=compare)
    one = commands.add_parser("run", help="what `record` starts")
    one.add_argument("work", type=Path)
    one.add_argument("url")
    one.add_argument("out", type=Path)
    one.add_argument("--only")
    one.set_defaults(call=run_cases)
    args = parser.parse_args()
    status: int = args.call(args)
    return status


if __name__ == "__main__":
    sys.exit(main())
