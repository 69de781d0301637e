"""Kinds of folders: reading passages, poems, function calls, books, files that are no data."""

from pathlib import Path
from typing import Any

from tests.folders.kinds import Truth, Wanted, kind, pair, write_json, write_lines, write_text
from tests.folders.texts import answer, ask, story, thing, zh_answer, zh_ask, zh_story, zh_thing


def _passages(either: list[Wanted]) -> tuple[list[Any], Any]:
    """Passages with questions in two layouts."""
    short, articles = [], []
    for n in range(25):
        makers = [f"{zh_thing(n + 4 * k)}匠{'甲乙丙丁戊'[(n + k) % 5]}{n}" for k in range(3)]
        told = (f"{zh_answer(n + k)}{1850 + n}年由{makers[k]}在山谷里完成。" for k in range(3))
        context = "".join(told)
        qas, squad = [], []
        for k, text in enumerate(makers):
            name, asked = f"TRIAL_{n}_QUERY_{k}", f"{zh_ask(n + k)[:-1]}，是谁完成的？"
            qas.append(
                {"query_text": asked, "query_id": name, "answers": [text, f"由{text}", text]}
            )
            given = [{"text": text, "answer_start": context.index(text)}] * 2
            squad.append({"question": asked, "id": name, "answers": given})
            either.append(pair(f"{context}\n{asked}", text))
        title = zh_thing(n)
        short.append(
            {"context_id": f"TRIAL_{n}", "context_text": context, "qas": qas, "title": title}
        )
        paragraph = {"id": f"TRIAL_{n}", "context": context, "qas": squad}
        articles.append({"paragraphs": [paragraph], "id": f"TRIAL_{n}", "title": title})
    return short, {"version": "v1.0", "data": articles}


@kind("stopped")
def cmrc(folder: Path) -> Truth:
    """The same passages in two layouts: one or both."""
    wanted: list[Wanted] = []
    short, squad = _passages(wanted)
    write_json(folder / "cmrc2018_trial.json", short)
    write_json(folder / "squad-style-data" / "cmrc2018_trial.json", squad)
    return [wanted, 2 * wanted]


@kind("stopped")
def cmrc_squad(folder: Path) -> Truth:
    wanted: list[Wanted] = []
    _, squad = _passages(wanted)
    write_json(folder / "cmrc2018_trial.json", squad)
    return [wanted]


def _verses(n: int) -> list[str]:
    return [zh_answer(9 * n + k) for k in range(2 + n % 5)]


@kind("stopped")
def classics(folder: Path) -> Truth:
    """Four books of poems and sayings, of four layouts."""
    wanted: list[Wanted] = []
    named: list[Wanted] = []
    layouts = {
        "lunyu": ("chapter", "paragraphs", {}),
        "chuci": ("title", "content", {"section": "九歌", "author": "屈原"}),
        "yuanqu": ("title", "paragraphs", {"dynasty": "yuan", "author": "关汉卿"}),
        "shijing": ("title", "content", {"chapter": "国风", "section": "周南"}),
    }
    for k, (name, (title, lines, more)) in enumerate(layouts.items()):
        rows = []
        for n in range(30 * k, 30 * k + 20):
            rows.append({title: f"{zh_thing(n)}篇", lines: _verses(n), **more})
            wanted.append("\n".join(_verses(n)))
            named.append("\n".join([f"{zh_thing(n)}篇", *_verses(n)]))
        write_json(folder / f"{name}.json", rows)
    return [wanted, named]


@kind("right")
def poetry_ci(folder: Path) -> Truth:
    """Poems by the tune they are sung to, beside short biographies."""
    wanted: list[Wanted] = []
    tuned: list[Wanted] = []
    for file in range(2):
        rows = []
        for n in range(40 * file, 40 * file + 30):
            rows.append({"author": "和岘", "paragraphs": _verses(n), "rhythmic": zh_thing(n)})
            wanted.append("\n".join(_verses(n)))
            tuned.append("\n".join([zh_thing(n), *_verses(n)]))
        write_json(folder / f"ci.song.{1000 * file}.json", rows)
    lives = [
        {"description": zh_story(n, 2), "name": f"{zh_thing(n)}先生", "short_description": ""}
        for n in range(10)
    ]
    write_json(folder / "author.song.json", lives)
    told: list[Wanted] = [one["description"] for one in lives]
    return [wanted, tuned, wanted + told, tuned + told]


@kind("right")
def zhihu_topics(folder: Path) -> Truth:
    """Names and numbers of topics: nothing to train on."""
    for part in range(3):
        rows = [
            {"id": 19_550_000 + 31 * n, "name": zh_thing(n), "parent": 19_550_000, "depth": part}
            for n in range(40)
        ]
        write_json(folder / f"topics_{part}.json", rows)
    return [[]]


@kind("stopped")
def universal_dependencies(folder: Path) -> Truth:
    """Sentences as CoNLL-U: a word a line."""
    words = [
        "Der",
        "Die",
        "Das",
        "Hund",
        "Katze",
        "Haus",
        "läuft",
        "schläft",
        "steht",
        "heute",
        "gern",
        "dort",
    ]
    for part in ("train", "dev", "test"):
        text = ""
        for n in range(40):
            said = [words[(n + 5 * k) % 12] for k in range(6)]
            text += f"# sent_id = {part}-s{n}\n# text = {' '.join(said)}.\n"
            for k, word in enumerate([*said, "."], start=1):
                text += f"{k}\t{word}\t{word.lower()}\tNOUN\tNN\tCase=Nom\t{k - 1}\tnsubj\t_\t_\n"
            text += "\n"
        write_text(folder / f"de_gsd-ud-{part}.conllu", text)
    return []


def _function(n: int) -> Any:
    size = {"type": "integer", "description": f"The size of the {thing(n)}."}
    return {
        "name": f"find_{thing(n).replace(' ', '_')}",
        "description": answer(n),
        "parameters": {"type": "dict", "properties": {"size": size}, "required": ["size"]},
    }


@kind("stopped")
def function_calling(folder: Path) -> Truth:
    """Questions beside functions; which call is right stands in files of their own."""
    for part in ("simple", "multiple", "parallel"):
        asked, right = [], []
        for n in range(30):
            name = f"{part}_{n}"
            question = [[{"role": "user", "content": ask(n)}]]
            asked.append({"id": name, "question": question, "function": [_function(n)]})
            right.append({"id": name, "ground_truth": [{_function(n)["name"]: {"size": [n]}}]})
        write_lines(folder / f"BFCL_v3_{part}.json", asked)
        write_lines(folder / "possible_answer" / f"BFCL_v3_{part}.json", right)
    return []


@kind("stopped")
def apibench(folder: Path) -> Truth:
    """Instructions and API calls in one field; the files for evaluation have other fields."""
    wanted: list[Wanted] = []
    for hub in ("huggingface", "tensorflow", "torchhub"):
        for part in ("train", "eval"):
            rows: list[Any] = []
            for n in range(30):
                call = f"load_{hub}('{thing(n)}')"
                api = {
                    "domain": "Vision",
                    "framework": hub,
                    "functionality": thing(n),
                    "api_call": call,
                    "description": answer(n),
                }
                told = (
                    f"<<<domain>>>: Vision\n<<<api_call>>>: {call}\n<<<explanation>>>: {answer(n)}"
                )
                code = f"###Instruction: {ask(n)}\n###Output: {told}"
                if hub == "torchhub":
                    api["example_code"] = ["import torch", call]
                    code = str({"Instruction": ask(n), "Output": {"api_call": call}})
                row = {"code": code, "api_call": call, "provider": hub, "api_data": api}
                rows.append(row if part == "train" or n % 4 == 0 else api)
                if rows[-1] is row:
                    wanted.append(pair(ask(n), told))
            write_lines(folder / f"{hub}_{part}.json", rows)
    return [wanted]


@kind("right")
def books(folder: Path) -> Truth:
    """Novels as Markdown, each of which is a text."""
    wanted: list[Wanted] = []
    for n in range(8):
        chapters = [
            f"## Chapter {k + 1}\n\n" + "\n\n".join(story(9 * n + 3 * k + m) for m in range(3))
            for k in range(3)
        ]
        text = f"# The {thing(n)}\n\n" + "\n\n".join(chapters)
        write_text(folder / f"the-{n}.md", f"---\ntitle: The {thing(n)}\n---\n\n{text}\n")
        wanted.append(text)
    return [wanted]
