"""From Parquet to Megatron's `.bin/.idx`, offline in seconds: build, look inside, check, resume.

    python examples/parquet2mbt/run.py [--out demo/parquet2mbt]

Prints each command before it runs it. Exits with 1 if one of them fails.
"""

import argparse
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CORPUS = "examples/parquet2mbt/corpus"
TOKENIZER = "examples/tokenizer/tokenizer.json"


def commands(out: str) -> list[str]:
    """The command lines, to be run in the repository's root."""
    prefix = f"{out}/corpus"
    build = (
        f"ingot tokens build --input-dir {CORPUS} --pattern '*.parquet' --text-cols title,content "
        f"--tokenizer {TOKENIZER} --output-prefix {prefix} --append-eod "
        f"--log-file {out}/log.jsonl"
    )
    return [
        f"{build} --overwrite",
        f"ingot tokens inspect {prefix} --tokenizer {TOKENIZER} --document 1",
        f"ingot tokens verify {prefix} --source {CORPUS} --tokenizer {TOKENIZER} --all",
        f"{build} --resume",
    ]


def main() -> int:
    """Run them all; the process's exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", default="demo/parquet2mbt", help="folder for the data set")
    args = parser.parse_args()
    for line in commands(args.out):
        print(f"$ {line}", flush=True)
        done = subprocess.run([sys.executable, "-m", *shlex.split(line)], cwd=ROOT, check=False)
        if done.returncode:
            return 1
        print(flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
