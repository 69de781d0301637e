r"""Run two checkouts on the same inputs and compare what a user gets: a net for restructuring.

    python benchmarks/same_bytes.py record --tree ../base --out base.json --examples ../base/examples
    python benchmarks/same_bytes.py record --tree . --out here.json --examples ../base/examples
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
and parts of file names of the first recording are read as renamed. `--ignore 'CASE: PLACE'` is a
pattern of differences that are wanted. The exit code is 1 if anything differs.
"""

import argparse
import difflib
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
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from fnmatch import fnmatch
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Json = Any
HERE = Path(__file__).resolve()
LONGEST_STEP = 240  # seconds; the first run of a checkout compiles kernels
LONGEST_TEXT = 2_000_000
LARGEST_LINES = 1 << 20  # bytes of a .jsonl file whose lines are kept beside its hash
PRELOADED = ("numpy", "pyarrow.parquet", "pyarrow.csv", "pyarrow.dataset", "numba", "torch", "yaml")
PLACES = {"EX": "../../in/examples", "GOLD": "../../in/golden", "BENCH": "../../in/bench"}

# One step a line: arguments of ingot; `! ` in a process of its own; `$ ` a shell command; `@ ` a
# loader below. `< FILE` at the end is standard input. `let WORD = text` stands for the text. The
# first and the last case are templates: of each raw example, and of each mapping benchmark.
CASES = r"""
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
chat EX/en_field_notes --out notes --mapper rules < talk
chat --list

== examples/review
let GIT = git -c user.name=a -c user.email=a@example.org -c commit.gpgsign=no
map EX/zh_exam --mapper rules -o a.json --pin-sample
$ sed 's/"stem",/"grade", "stem",/' a.json > b.json
review a.json b.json
review a.json b.json --source EX/zh_exam --json
$ mkdir repo && cd repo && git init -q -b main . && cp -r ../a.json ../a.sample .
$ cd repo && git add . && GIT commit -qm one && cp ../b.json a.json
$ cd repo && "$PY" -m ingot review --base main --format json
$ cd repo && "$PY" -m ingot review --base main --allow-breaking --full
$ rm -rf repo

== examples/lake
let LAKE = lake run EX/lake/raw --out lake --mapper rules --yes --min-confidence 0.75 \
  --dedup exact --split train=0.9,valid=0.1 --jobs 2 --tokenizer TOK
let PLAIN = lake run EX/lake/raw --out plain --mapper rules --mappings maps
lake run EX/lake/raw --out lake --dry-run --json
LAKE --json
lake review lake --list
lake review lake --list --json
$ cp -r lake first
lake review lake --approve notebook --json
! LAKE
PLAIN --pin-sample --records jsonl
lake review plain --approve * --mappings maps
lake review plain --reject sensors --mappings maps
PLAIN --records jsonl --strict --jobs 1

== examples/errors
run EX/zh_exam
run nowhere --out o --yes
run EX/zh_exam --out o --mode all
$ echo '{"version": 2, "text": "nothing"}' > m.json; echo '{"version": 2}' > bad.json
check m.json EX/zh_exam
convert m.json EX/zh_exam --out o
convert bad.json EX/zh_exam --out o
run EX/criteo --out o --yes --mapper rules
run EX/ctr/sample_skeleton_train.csv --out o --yes --mapper rules
run EX/monolith/feed.pb --out o --yes --mapper rules
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
tokens verify u16_eod --source GOLD/tokenize --pattern docs.parquet GPT
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
run BENCH/NAME/raw --mode MODE --out o --records jsonl --mapper rules --yes
"""
RAW = ("zh_townlife", "en_field_notes", "en_instructions", "en_chats", "zh_exam", "sensor_log")


# ---- record --------------------------------------------------------------------------------------


def all_cases(work: Path, words: dict[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Yield name and steps of every case, all words replaced."""
    known = PLACES | words
    for block in CASES.replace("\\\n ", "").split("\n== "):
        name, *lines = block.strip().splitlines()
        if name.startswith("let "):
            spelt([name, *lines], known)
            continue
        for given in templates(name, work):
            yield spelt([name], known | given)[0], spelt(lines, known | given)


def templates(name: str, work: Path) -> list[dict[str, str]]:
    """Return what stands for the words of a template, once for each case made of it."""
    if name == "examples/NAME":
        return [{"NAME": one} for one in RAW]
    if name != "bench/NAME":
        return [{}]
    folders = sorted((work / "in/bench").iterdir())
    modes = [json.loads((one / "case.json").read_bytes())["requested_mode"] for one in folders]
    return [{"NAME": one.name, "MODE": m} for one, m in zip(folders, modes, strict=True)]


def spelt(lines: Iterable[str], known: dict[str, str]) -> list[str]:
    """Replace words in capitals; a `let` line adds one to `known`."""
    steps = []
    for line in filter(None, lines):
        parts = re.split(r"([A-Z]+(?![A-Za-z]))", line.removeprefix("let "))
        word = parts[1] if line.startswith("let ") else ""
        text = "".join(known.get(part, part) for part in (parts[2:] if word else parts))
        if word:
            known[word] = text.removeprefix(" = ")
        else:
            steps.append(text)
    return steps


class Model(BaseHTTPRequestHandler):
    """A server that says to every question that `stem` is asked and `answer` answers."""

    def do_POST(self) -> None:
        """Answer one question."""
        self.rfile.read(int(self.headers["content-length"]))
        places = ("root", "each", "group", "text", "system")
        meta = ("source", "language", "timestamp", "token_count", "quality_score", "original_id")
        turns = [
            {"each": [], "role": role, "content": [path], "loss_mask": None}
            for role, path in (("user", "stem"), ("assistant", "answer"))
        ]
        reply = {"decision": "sft", "reason": "because", "confidence": 0.9, "messages": turns}
        reply |= dict.fromkeys(places) | {"where": [], "meta": dict.fromkeys(meta)}
        message = {"role": "assistant", "content": json.dumps(reply)}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        body = json.dumps({"id": "c", "model": "m", "choices": [choice]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def record(args: argparse.Namespace) -> int:
    """Run the cases against one checkout in a clean environment; return an exit status."""
    work = Path(tempfile.mkdtemp(prefix="same-bytes-"))
    (work / "run").mkdir()
    inputs = {"examples": args.examples, "golden": args.shared / "golden"}
    for name, folder in inputs.items():
        shutil.copytree(folder, work / "in" / name, ignore=shutil.ignore_patterns("__pycache__"))
    for case in sorted((args.shared / "bench/mapping/public").glob("*/case.json")):
        place = work / "in/bench" / case.parent.name
        shutil.copytree(case.parent / "raw", place / "raw")
        shutil.copy(case, place)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    words = {"URL": f"http://127.0.0.1:{server.server_address[1]}/v1"}
    words |= {"TREE": str(args.tree.resolve()), "PY": shutil.which(args.python) or args.python}
    settings = {"PATH": os.environ["PATH"], "HOME": f"{work}/home", "INGOT_HOME": f"{work}/home"}
    settings |= {"PYTHONPATH": words["TREE"], "PYTHONHASHSEED": "0", "COLUMNS": "160", "TZ": "UTC"}
    settings |= {"LANG": "C.UTF-8", "NO_COLOR": "1", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    settings |= words
    told = {"work": str(work), "words": words, "only": args.only, "out": str(args.out.resolve())}
    argv = [words["PY"], str(HERE), "runner", json.dumps(told)]
    code = subprocess.run(argv, cwd=work, env=settings, check=False).returncode
    if args.keep:
        print(f"kept: {work}")
    else:
        shutil.rmtree(work)
    return code


def runner(args: argparse.Namespace) -> int:
    """Import everything, run the cases, write what was found; return an exit status."""
    told = json.loads(args.told)
    work, words = Path(told["work"]), told["words"]
    del sys.path[0]  # this file's folder, which has names of its own
    began = time.monotonic()
    preload(words["TREE"])
    inputs = {one: folder_hash(work / "in" / one) for one in ("examples", "golden", "bench")}
    cases = {}
    for name, steps in all_cases(work, words):
        if name.startswith(told["only"] or ""):
            case = Case(work, words, name)
            cases[name] = {"steps": [case.step(one) for one in steps], "files": case.files()}
            print(f"{time.monotonic() - began:6.1f} s  {name}", flush=True)
    found = {"tree": words["TREE"], "inputs": inputs, "only": told["only"], "cases": cases}
    Path(told["out"]).write_text(json.dumps(found, ensure_ascii=False), encoding="utf-8")
    return 0


def folder_hash(folder: Path) -> str:
    """Return a hash of all names and bytes below a folder."""
    sums = hashlib.sha256()
    for path in sorted(one for one in folder.rglob("*") if one.is_file()):
        sums.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return sums.hexdigest()


def preload(tree: str) -> None:
    """Import the libraries and every module of the checkout, so that forks need not."""
    for name in PRELOADED:
        with suppress(ImportError):
            importlib.import_module(name)
    package = importlib.import_module("ingot")
    if not str(package.__file__).startswith(tree):
        sys.exit(f"error: {package.__file__} is not in {tree}")
    for module in pkgutil.walk_packages(package.__path__, "ingot."):
        if not module.name.endswith("__main__"):
            with suppress(ImportError):
                importlib.import_module(module.name)


class Case:
    """One case being run: a folder of its own as working directory, and an empty home."""

    def __init__(self, work: Path, words: dict[str, str], name: str) -> None:
        self.work, self.words = work, words
        self.folder = work / "run" / name.replace("/", ".")
        self.folder.mkdir()
        shutil.rmtree(work / "home", ignore_errors=True)
        (work / "home").mkdir()

    def step(self, line: str) -> Json:
        """Run one step; return its exit code and what it said."""
        line, _, stdin = line.partition(" < ")
        command: Callable[[], object] = partial(ingot, line)
        if line.startswith("@ "):
            command = partial(load, line[2:])
        elif line.startswith("! "):
            command = partial(replace, [self.words["PY"], "-m", "ingot", *shlex.split(line[2:])])
        elif line.startswith("$ "):
            command = partial(replace, ["bash", "-euc", line[2:]])
        code = self.forked(command, self.folder / stdin if stdin else Path(os.devnull))
        said = (parsed(self.hidden(self.work / one)) for one in ("stdout", "stderr"))
        line = line.replace(self.words["URL"], "<url>")
        return {"step": line, "exit": code} | dict(zip(("stdout", "stderr"), said, strict=True))

    def files(self) -> Json:
        """Describe every file that the steps have left."""
        code = self.forked(lambda: print(json.dumps(dict(self.found()))), Path(os.devnull))
        if code:
            sys.exit(f"{self.folder.name}: {(self.work / 'stderr').read_text()}")
        return json.loads((self.work / "stdout").read_bytes())

    def forked(self, command: Callable[[], object], stdin: Path) -> int:
        """Run a command in a forked process; return its exit code, or minus a signal."""
        sys.stdout.flush()
        if (child := os.fork()) == 0:
            os.setsid()
            os.chdir(self.folder)
            opened = (stdin, os.O_RDONLY), (self.work / "stdout", 577), (self.work / "stderr", 577)
            for target, (path, flags) in enumerate(opened):  # 577: write, create, truncate
                os.dup2(os.open(path, flags, 0o644), target)
            command()
            sys.exit(0)
        deadline = time.monotonic() + LONGEST_STEP
        while not (ended := os.waitpid(child, os.WNOHANG))[0]:
            if time.monotonic() > deadline:
                os.killpg(child, signal.SIGKILL)
            time.sleep(0.004)
        return os.waitstatus_to_exitcode(ended[1])

    def hidden(self, path: Path) -> str:
        """Read a text; places and ports of this recording are left out of it."""
        text = path.read_text(encoding="utf-8", errors="replace")
        text = text.replace(str(self.work), "<work>").replace(self.words["TREE"], "<tree>")
        return text.replace(self.words["URL"].split("/")[2], "<server>")

    def found(self) -> Iterator[tuple[str, Json]]:
        """Yield name and description of every file below the case's folder."""
        for path in sorted(self.folder.rglob("*")):
            name = path.relative_to(self.folder).as_posix()
            if path.is_file() and not re.search(r"\.ingot-lake/|sqlite|lock$|__pycache__", name):
                yield name, self.described(path, name)

    def described(self, path: Path, name: str) -> Json:
        """Describe a file: its hash where its bytes are promised, its content where it is small."""
        sha = {"sha": hashlib.sha256(path.read_bytes()).hexdigest()}
        if path.suffix == ".parquet":
            return sha | table(path, rows=path.name.startswith("catalog"))
        if path.name == "run.json":
            return parsed(self.hidden(path)) | {"keys": True}
        if path.suffix in (".yaml", ".yml"):
            yaml = importlib.import_module("yaml")
            return sha | {"docs": [yaml.safe_load(path.read_bytes())]}
        if path.name == "manifest.json":
            return {"docs": [checked(json.loads(self.hidden(path)), path.parent)]}
        lines = path.suffix == ".jsonl" and "records/" not in name
        if path.suffix == ".json" or (lines and path.stat().st_size < LARGEST_LINES):
            log = path.name.startswith("log")
            return ({} if log else sha) | parsed(self.hidden(path))
        return parsed(self.hidden(path)) if path.suffix in (".md", ".html") else sha


def ingot(line: str) -> None:
    """Run the command line in this process."""
    sys.argv = ["ingot", *shlex.split(line)]
    importlib.import_module("ingot.cli.app").app(args=sys.argv[1:], prog_name="ingot")


def replace(argv: list[str]) -> None:
    """Become another program."""
    os.execvp(argv[0], argv)


def parsed(text: str) -> Json:
    """Return JSON, or JSON lines, as documents; HTML as its text and the JSON in it; else text."""
    with suppress(ValueError):
        return {"docs": [json.loads(text)]}
    with suppress(ValueError):
        if (lines := text.splitlines()) and lines[0].startswith("{"):
            return {"docs": [json.loads(line) for line in lines]}
    if not text.lstrip().lower().startswith("<!doctype"):
        return {"text": text[:LONGEST_TEXT]}
    data = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', text, re.S)
    text = re.sub(r"<(script|style|head)\b.*?</\1>", "", text, flags=re.S)
    text = html.unescape(re.sub(r"<[^>]+>", "  ", text))[:LONGEST_TEXT]
    return {"text": text, "docs": [json.loads(one) for one in data]}


def checked(manifest: Json, folder: Path) -> Json:
    """Put in place of the hashes of written files whether they are right."""
    files = manifest.get("files", [])
    entries = (
        files.items() if isinstance(files, dict) else ((one.get("path"), one) for one in files)
    )
    for name, entry in entries:
        if isinstance(entry, dict) and "sha256" in entry:
            content = (folder / str(name)).read_bytes()
            entry["sha256"] = entry["sha256"] == hashlib.sha256(content).hexdigest()
            entry["bytes"] = entry.get("bytes") == len(content)
    return manifest


def table(path: Path, rows: bool) -> Json:
    """Describe a Parquet file by what it says, however it is packed."""
    parquet = importlib.import_module("pyarrow.parquet")
    read = parquet.read_table(path, use_threads=False)
    notes = {
        k.decode(): v.decode(errors="replace") for k, v in (read.schema.metadata or {}).items()
    }
    docs = [{k: parsed(v) for k, v in notes.items()}, read.to_pylist() if rows else read.num_rows]
    for field in read.schema:
        said = f"{field.type} {field.nullable} {read[field.name].to_pylist()!r}"
        docs.append([field.name, "" if rows else hashlib.sha256(said.encode()).hexdigest()])
    return {"docs": json.loads(json.dumps(docs, default=str))}


# ---- the Python loaders --------------------------------------------------------------------------


def named(module: str) -> Json:
    """Import a package of a target from where it lies."""
    for place in ("ingot.converters", "ingot.converters.recsys"):
        with suppress(ModuleNotFoundError):
            return importlib.import_module(f"{place}.{module}")
    raise ModuleNotFoundError(module)


def load(line: str) -> None:
    """Iterate a loader over data sets; print a hash of all that it gave, by name."""
    name, *given = shlex.split(line)
    loaders = {"ctr": ctr, "criteo": criteo, "tokens": tokens, "monolith": monolith}
    sums: dict[str, Json] = defaultdict(hashlib.sha256)
    count: Counter[str] = Counter()
    for place, value in (loaders | {"records": records})[name](given):
        count[place.split("/")[0]] += 1
        feed(sums, place, value)
    print(json.dumps({"items": count, "sha": {k: v.hexdigest() for k, v in sums.items()}}))


def feed(sums: dict[str, Json], place: str, value: Json) -> None:
    """Add a value to the hash of its place; parts of it have places of their own."""
    if isinstance(value, dict):
        for key, part in value.items():
            feed(sums, f"{place}/{key}", part)
    elif hasattr(value, "to_dict") and hasattr(value, "offsets"):  # a KeyedJaggedTensor
        parts = (value.keys(), value.values(), value.lengths(), value.offsets())
        feed(sums, place, dict(enumerate(parts)))
    elif hasattr(value, "numpy"):
        array = value.numpy()
        sums[place].update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
    elif hasattr(value, "SerializeToString"):
        sums[place].update(value.SerializeToString(deterministic=True))
    elif isinstance(value, tuple) and not isinstance(value[0], str):
        feed(sums, place, dict(enumerate(value)))
    else:
        sums[place].update(repr(value).encode())


def ctr(folders: list[str]) -> Iterator[tuple[str, Json]]:
    """Yield batches of built CTR data."""
    build_dataloader = named("ctr").build_dataloader
    for folder in folders:
        ways: Json = {"plain": {}, "shuffled": {"shuffle": True, "seed": 3, "shuffle_buffer": 512}}
        ways |= {"jagged": {"jagged": True}, "rank": {"rank": 1, "world_size": 2, "num_workers": 2}}
        for way, options in ways.items():
            for split in ("train", "valid"):
                batches = build_dataloader(folder, split=split, batch_size=256, **options)
                yield from ((f"{folder} {split} {way}", batch) for batch in batches)
        begun = build_dataloader(folder, split="train", batch_size=100, shuffle=True)
        next(iter(begun))
        again = build_dataloader(folder, split="train", batch_size=100, shuffle=True)
        again.load_state_dict(begun.state_dict())
        yield from ((f"{folder} resumed", batch) for batch in again)


def criteo(folders: list[str]) -> Iterator[tuple[str, Json]]:
    """Yield batches of preprocessed click logs."""
    package = named("criteo")
    wide = package.MultiHot([60] * 26, multi_hot_size=3, multi_hot_min_table_size=50)
    ways: Json = {"plain": {}, "modulo": {"num_embeddings": 37}, "wide": {"multi_hot": wide}}
    ways |= {"batches": {"shuffle_batches": True}, "rows": {"shuffle_rows": True, "seed": 5}}
    ways |= {"rank": {"rank": 1, "world_size": 2, "drop_last": True}}
    for folder in folders:
        for way, options in ways.items():
            for split in ("train", "val", "test"):
                batches = package.CriteoDataset(folder, 64, split=split, **options)
                yield from ((f"{folder} {split} {way}", tuple(batch)) for batch in batches)


def tokens(prefixes: list[str]) -> Iterator[tuple[str, Json]]:
    """Yield items and one batch of token data sets."""
    dataset = named("megatron.dataset")
    for prefix in prefixes:
        for unit in ("document", "sequence", "stream"):
            data = dataset.TokenDataset(prefix, seq_length=128, unit=unit, truncate=True)
            items = [data[at] for at in range(len(data))]
            yield from ((f"{prefix} {unit}", item) for item in items)
            yield f"{prefix} {unit} batch", dataset.collate(items[:9])


def monolith(given: list[str]) -> Iterator[tuple[str, Json]]:
    """Yield batches of the first stream, rows of both, and the tables that they become."""
    package, (batches, rows) = named("monolith"), given
    yield from (("batch", one) for one in package.ExampleBatchReader(batches))
    streams = {"rows of batches": {"kind": "examplebatch", "skip_bad": True}, "rows": {}}
    for (name, options), where in zip(streams.items(), (batches, rows), strict=True):
        yield from ((name, one) for one in package.read_examples(where, **options))
    read = package.read_arrow(rows).read_all()
    yield from (("table", (str(one.name), read[one.name].to_pylist())) for one in read.schema)


def records(folders: list[str]) -> Iterator[tuple[str, Json]]:
    """Yield unified records."""
    for folder in folders:
        read = named("records").read_records(Path(folder))
        yield from ((folder, json.dumps(one, sort_keys=True, default=str)) for one in read)


# ---- compare -------------------------------------------------------------------------------------

VOLATILE = {"seconds", "finished", "started", "host", "mtime_ns", "peak_rss_bytes", "ts", "etag"}
VOLATILE |= {"latency_ms", "cpu_pct", "mem_rss_bytes", "disk_read_MBps", "disk_write_MBps", "pid"}
PROSE = {"why", "hint", "reason", "note", "notes", "message", "detail", "description", "figure"}
STATES = set(
    [
        "converted",
        "nothing",
        "other",
        "waiting",
        "resting",
        "failed",
        "rejected",
        "gone",
        "pass",
        "warn",
        "block",
        "fail",
        "skipped",
        "ok",
        "passed",
        "broken",
        "shuffled",
        "kept",
        "done",
        "pt",
        "sft",
        "irrelevant",
        "unmappable",
        "approved",
        "edited",
    ]
)
UNIT = r"(?:ns|µs|us|ms|s|sec|seconds?|min|minutes?|h|hours?|[kKMGT]i?B|B|bytes?)"
NOISE = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T ][\d:.]+)?(?:Z|[+-]\d\d:?\d\d)?|\b\d+(?::\d\d)+(?:\.\d+)?\b"  # times
    r"|[\d.,]+ ?[\w-]*/s\b|\b[\d.,]*\d ?" + UNIT + r"\b"  # rates, durations, sizes
    r"|\bv?\d+\.\d+\.\d+\S*|[^\s|`]*[A-Za-z_<>][^\s|`]*/[^\s|`]*|[^\s|`]*/[^\s|`]*[A-Za-z_<>][^\s|`]*"
)
NUMBER = re.compile(r"(?<![\w.\-])-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?(?!\w)")
SAME = "same content, other bytes"
Flat = dict[str, Json]


def numbers(text: str) -> list[str]:
    """Return the numbers of a text that are no times, sizes, rates, versions or parts of paths."""
    return [one.replace(",", "") for one in NUMBER.findall(NOISE.sub(" ", text))]


def flat_text(text: str, words: dict[str, str]) -> Flat:
    """Return the numbers, the snake_case words, and the statuses that stand alone in a cell."""
    text = text.replace("\\_", "_")
    cells = (words.get(one, one) for one in map(str.strip, re.split(r"\s{2,}|[|\n,:]", text)))
    names = re.findall(r"\b[a-z]+(?:_[a-z0-9]+)+\b", NOISE.sub(" ", text))
    flat: Flat = {f"status {k}": n for k, n in Counter(cells).items() if k in STATES}
    known = sorted({words.get(one, one) for one in names})
    return flat | {"numbers": numbers(text), "words": known}


def flat_json(doc: Json, words: dict[str, str], keys: bool, place: str = "") -> Iterator[Json]:
    """Yield the place and the value of every leaf; with `keys` the places alone count."""
    key = re.sub(r"\[\d*\]", "", place.rpartition(".")[2])
    if key in VOLATILE or (keys and not isinstance(doc, dict | list)):
        yield place, "*"
    elif isinstance(doc, dict) and doc:
        for name, part in doc.items():
            yield from flat_json(part, words, keys, f"{place}.{words.get(name, name)}")
    elif isinstance(doc, list) and doc:
        for at, part in enumerate(doc):
            yield from flat_json(part, words, keys, f"{place}[{'' if keys else at}]")
    elif isinstance(doc, str) and key in PROSE and " " in doc:
        yield place, numbers(doc)
    else:
        yield place, words.get(doc, doc) if isinstance(doc, str) else doc


def flat(found: Json, words: dict[str, str]) -> Flat:
    """Return what is compared of a file or an output, by place."""
    values = dict(flat_json(found.get("docs", {}), words, found.get("keys", False)))
    return values | (flat_text(found["text"], words) if "text" in found else {})


def changed(old: Json, new: Json) -> str:
    """Say how two values differ; of lists what went and what came."""
    if not (isinstance(old, list) and isinstance(new, list)):
        return f"{json.dumps(old, ensure_ascii=False)} -> {json.dumps(new, ensure_ascii=False)}"
    parts = [
        one for one in difflib.ndiff(list(map(str, old)), list(map(str, new))) if one[0] in "+-"
    ]
    return " ".join(part.replace(" ", "", 1) for part in parts)


def file_changes(old: Json, new: Json, words: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield place and difference of a file or an output in both recordings."""
    if "sha" in old and old["sha"] == new.get("sha"):
        return
    before, after = flat(old, words), flat(new, {})
    places = [one for one in {**before, **after} if before.get(one, "-") != after.get(one, "-")]
    for place in places:
        yield place, changed(before.get(place, "-"), after.get(place, "-"))
    if not places and "sha" in old:
        yield "", SAME if "docs" in old else "other bytes"


def case_changes(old: Json, new: Json, words: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield place and difference of everything in a case."""
    for at, (before, after) in enumerate(zip(old["steps"], new["steps"], strict=False)):
        step = f"step {at + 1} `{before['step']}`"
        if before["step"] != after["step"]:
            yield step, f"other step: {after['step']}"
        if before["exit"] != after["exit"]:
            yield f"{step} exit", changed(before["exit"], after["exit"])
        for stream in ("stdout", "stderr"):
            for place, how in file_changes(before[stream], after[stream], words):
                yield f"{step} {stream} {place}", how
    if len(old["steps"]) != len(new["steps"]):
        yield "steps", changed(len(old["steps"]), len(new["steps"]))
    parts = {one: re.split(r"([^/.]+)", one) for one in old["files"]}
    renamed = {"".join(words.get(x, x) for x in v): one for one, v in parts.items()}
    for name in sorted({*renamed, *new["files"]}):
        if name not in renamed or name not in new["files"]:
            yield f"file {name}", "only in the first" if name in renamed else "only in the second"
            continue
        for place, how in file_changes(old["files"][renamed[name]], new["files"][name], words):
            yield f"file {name} {place}", how


def compare(args: argparse.Namespace) -> int:
    """Print every difference of two recordings; return 1 if there is one."""
    old, new = (json.loads(one.read_bytes()) for one in (args.old, args.new))
    words = json.loads(args.renames.read_bytes()) if args.renames else {}
    for known in (PROSE, VOLATILE, STATES):
        known.update(words[one] for one in known & words.keys())
    total: Counter[str] = Counter()
    if old["inputs"] != new["inputs"]:
        total["other inputs"] += 1
        print(f"inputs: {changed(old['inputs'], new['inputs'])}")
    for name in sorted({*old["cases"], *new["cases"]}):
        if name not in old["cases"] or name not in new["cases"]:
            total["missing cases"] += 1
            print(f"{name}: only in the {'first' if name in old['cases'] else 'second'}")
            continue
        found = list(case_changes(old["cases"][name], new["cases"][name], words))
        found = [o for o in found if not any(fnmatch(f"{name}: {o[0]}", p) for p in args.ignore)]
        total.update(SAME if how == SAME else "differences" for _, how in found)
        shown = [one for one in found if not (args.content and one[1] == SAME)]
        for place, how in shown[: args.most]:
            print(f"{name}: {place}: {how[:300]}")
        if len(shown) > args.most:
            print(f"{name}: and {len(shown) - args.most} more")
    print(f"{len(old['cases'])} cases: {dict(total) or 'no differences'}")
    if args.content:
        total[SAME] = 0
    return int(any(total.values()))


def main() -> int:
    """Record or compare; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("record", help="run all cases against one checkout")
    one.add_argument("--tree", type=Path, required=True, help="the checkout")
    one.add_argument("--out", type=Path, required=True, help="JSON file to be written")
    one.add_argument("--python", default=sys.executable, help="an interpreter with all extras")
    one.add_argument("--only", help="cases whose names begin with this, such as examples/ctr")
    one.add_argument("--examples", type=Path, default=HERE.parents[1] / "examples")
    one.add_argument("--shared", type=Path, default=HERE.parents[2] / "shared")
    one.add_argument("--keep", action="store_true", help="keep the files that the cases wrote")
    one.set_defaults(run=record)
    one = commands.add_parser("compare", help="print the differences of two recordings")
    one.add_argument("old", type=Path)
    one.add_argument("new", type=Path)
    one.add_argument("--renames", type=Path, help="JSON object: old word to new word")
    one.add_argument("--ignore", action="append", default=[], metavar="'CASE: PLACE'")
    one.add_argument("--content", action="store_true", help="other bytes of same content are fine")
    one.add_argument("--most", type=int, default=10, help="differences shown of a case")
    one.set_defaults(run=compare)
    one = commands.add_parser("runner")
    one.add_argument("told")
    one.set_defaults(run=runner)
    args = parser.parse_args()
    status: int = args.run(args)
    return status


if __name__ == "__main__":
    sys.exit(main())
