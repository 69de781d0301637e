"""What asking a model takes and gives on a folder of cases, with replies that were kept.

    python benchmarks/mapping/replay.py CASES --replies DIR [--mapper auto] [--prompt-tokens 2000]
        [--model gpt-4o-mini] [--tokenizer FILE] [--diff 2] [--json FILE]

`DIR/<case>.txt` is what a model said to the prompt of a case (`ingot map --show-prompt` prints it);
a case without one is left out. A local server that speaks the OpenAI protocol says it again,
whatever it is asked; every case is then mapped twice with one memory, and the mapping is converted
and scored (`score.py`), whether or not `--yes` would have gone on. Tokens are counted with the
tokenizer file, or estimated without one; costs are list prices of the table in ingot.
"""

import argparse
import json
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from run import read_records, stage
from score import Score, score

from ingot.agent.context import Context
from ingot.agent.model.budget import Ledger, estimate_tokens, list_price
from ingot.agent.model.cache import Store
from ingot.agent.model.endpoint import Endpoint
from ingot.agent.proposing.llm.mapper import ModelAccess
from ingot.agent.session import run_once
from ingot.agent.state import Order, Outcome

NOTHING = ("irrelevant", "unmappable")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What came of one case: score, status with `--yes`, what was spent, calls of a second run."""

    score: Score
    status: str
    mapper: str
    decided: bool
    calls: int
    tokens_in: int
    tokens_out: int
    again: int


class Replayer:
    """A chat endpoint that says `text`, whatever it is asked."""

    def __init__(self, tokenizer: Path | None) -> None:
        self.text = ""
        self.count = counter(tokenizer)
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
                body = json.dumps(owner.completion(asked)).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def completion(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The reply with its usage."""
        message = {"role": "assistant", "content": self.text}
        taken = sum(self.count(one["content"]) for one in asked["messages"])
        given = self.count(self.text)
        return {
            "id": "r",
            "object": "chat.completion",
            "created": 1,
            "model": asked["model"],
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {
                "prompt_tokens": taken,
                "completion_tokens": given,
                "total_tokens": taken + given,
            },
        }


def counter(tokenizer: Path | None) -> Callable[[str], int]:
    """Text -> number of tokens."""
    if tokenizer is None:
        return estimate_tokens
    from tokenizers import Tokenizer

    loaded = Tokenizer.from_file(str(tokenizer))
    return lambda text: len(loaded.encode(text, add_special_tokens=False).ids)


@contextmanager
def served(tokenizer: Path | None) -> Iterator[Replayer]:
    """The endpoint, as long as it is needed."""
    replayer = Replayer(tokenizer)
    thread = threading.Thread(target=replayer.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield replayer
    finally:
        replayer.server.shutdown()
        replayer.server.server_close()
        thread.join()


def mapped(raw: Path, asked: str, out: Path, how: ModelAccess, args: argparse.Namespace) -> Outcome:
    """The outcome of `ingot run --yes`."""
    order = Order(
        source=str(raw),
        out=str(out),
        mode=args.mode or asked,
        mapper=args.mapper,
        prompt_tokens=args.prompt_tokens,
        records="jsonl",
        yes=True,
    )
    outcome: Outcome = run_once(order, Context(asking=how))["outcome"]
    return outcome


def converted(folder: Path, raw: Path, out: Path, told: Outcome) -> Score:
    """The score of the records that the proposed mapping makes, approved or not."""
    case = json.loads((folder / "case.json").read_text(encoding="utf-8"))
    if not told.mapping:
        nothing = told.decision in NOTHING
        return score(folder, [] if nothing and case["mode"] == "irrelevant" else None)
    if told.status != "done":
        order = Order(
            source=str(raw),
            out=str(out),
            mapper="file",
            mapping=told.mapping,
            records="jsonl",
            yes=True,
        )
        run_once(order, Context())
    manifest = out / "manifest.json"
    if not manifest.is_file():
        return score(folder, None)
    return score(folder, read_records(out, json.loads(manifest.read_text("utf-8")), case))


def run_case(
    folder: Path, raw: Path, out: Path, replayer: Replayer, args: argparse.Namespace
) -> Asked:
    """One case: mapped, mapped again, converted, scored."""
    case = json.loads((folder / "case.json").read_text(encoding="utf-8"))
    replayer.text = (args.replies / f"{folder.name}.txt").read_text(encoding="utf-8")
    store, price = Store(None), list_price(args.model)
    endpoint = Endpoint(model=args.model, base_url=replayer.url, retries=0)
    first = ModelAccess(endpoint=endpoint, store=store, ledger=Ledger(price=price))
    told = mapped(raw, case["requested_mode"], out, first, args)
    second = ModelAccess(endpoint=endpoint, store=store, ledger=Ledger(price=price))
    mapped(raw, case["requested_mode"], out.with_name(f"{out.name}_again"), second, args)
    spent = first.ledger.run
    return Asked(
        score=converted(folder, raw, out, told),
        status=f"{told.status} {told.why}".strip(),
        mapper=told.mapper,
        decided=told.decision == case["mode"],
        calls=spent.calls,
        tokens_in=spent.tokens_in,
        tokens_out=spent.tokens_out,
        again=second.ledger.run.calls,
    )


def table(found: list[Asked], model: str) -> Table:
    """Calls, tokens and cost, by difficulty and in all."""
    price = list_price(model)
    made = Table(title=f"asking {model}")
    heads = ("cases", "pass", "asked", "calls", "tokens in", "tokens out", "USD", "calls again")
    for heading in ("", *heads):
        made.add_column(heading, justify="right" if heading else "left")
    groups = {"all": found}
    for level in sorted({one.score.difficulty for one in found}):
        groups[level] = [one for one in found if one.score.difficulty == level]
    for name, members in groups.items():
        taken, given = (sum(getattr(m, f"tokens_{way}") for m in members) for way in ("in", "out"))
        made.add_row(
            name,
            str(len(members)),
            str(sum(m.score.verdict == "pass" for m in members)),
            str(sum(m.calls > 0 for m in members)),
            str(sum(m.calls for m in members)),
            f"{taken:,}",
            f"{given:,}",
            f"{price.of(taken, given):.4f}" if price else "unknown",
            str(sum(m.again for m in members)),
        )
    return made


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("cases", type=Path, help="folder of cases")
    parser.add_argument("--replies", type=Path, required=True, help="folder of <case>.txt")
    parser.add_argument("--mapper", default="auto", choices=("auto", "llm"))
    parser.add_argument("--mode", help="for every case, in place of the requested one: auto")
    parser.add_argument("--prompt-tokens", type=int, default=8000)
    parser.add_argument("--model", default="gpt-4o-mini", help="whose price counts")
    parser.add_argument("--tokenizer", type=Path, help="tokenizer.json that counts tokens")
    parser.add_argument("--diff", type=int, default=0, help="differences shown per failing case")
    parser.add_argument("--json", type=Path, help="write the verdicts there")
    return parser.parse_args()


def main() -> int:
    """Run all cases; 1 if a second run of one asked again."""
    args = options()
    folders = sorted(p.parent for p in args.cases.glob("*/case.json"))
    kept = [f for f in folders if (args.replies / f"{f.name}.txt").is_file()]
    console = Console(highlight=False)
    found = []
    with tempfile.TemporaryDirectory() as temporary, served(args.tokenizer) as replayer:
        work = Path(temporary)
        for folder, raw in stage(kept, work).items():
            one = run_case(folder, raw, work / "out" / raw.name, replayer, args)
            found.append(one)
            verdict = f"{one.score.verdict:8}{folder.name:44} {one.mapper}, calls {one.calls}:"
            console.print(verdict, one.status, markup=False, soft_wrap=True)
            if one.score.verdict != "pass":
                for sign, records in (("-", one.score.missing), ("+", one.score.extra)):
                    for record in records[: args.diff]:
                        console.print(f"  {sign} {record!r}"[:600], markup=False, soft_wrap=True)
    if args.json:
        told = {f.score.case: asdict(f) | {"verdict": f.score.verdict} for f in found}
        kept = {name: {k: v for k, v in one.items() if k != "score"} for name, one in told.items()}
        args.json.write_text(json.dumps(kept, indent=1), encoding="utf-8")
    console.print(table(found, args.model))
    console.print(f"decisions right: {sum(one.decided for one in found)} of {len(found)}")
    return int(any(one.again for one in found))


if __name__ == "__main__":
    sys.exit(main())
