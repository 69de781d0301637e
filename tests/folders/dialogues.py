"""Kinds of folders: dialogues between two or more speakers."""

import json
import zipfile
from pathlib import Path
from typing import Any

from tests.folders.kinds import Truth, Wanted, kind, turns, write_json, write_lines, write_text
from tests.folders.texts import answer, ask, story, thing, zh_answer, zh_ask, zh_thing


def _said(n: int, count: int) -> list[str]:
    """Texts of a dialogue in turn: questions and answers."""
    return [(ask, answer)[k % 2](5 * n + k) for k in range(count)]


def _zh_said(n: int, count: int) -> list[str]:
    return [(zh_ask, zh_answer)[k % 2](5 * n + k) for k in range(count)]


def _response(n: int) -> str:
    items = [{"item_id": f"{thing(n + k)}-{1900 + k}", "name": answer(n + k)} for k in range(4)]
    return json.dumps({"order_id": str(28_000 + n), "items": items})


@kind("right")
def taskmaster_4(folder: Path) -> Truth:
    wanted: list[Wanted] = []
    for file in range(2):
        rows = []
        for n in range(40 * file, 40 * file + 25):
            said = _said(n, 6 + 2 * (n % 3))
            spoken = [
                {
                    "index": k,
                    "speaker": ("user", "assistant")[k % 2],
                    "text": text,
                    "annotations": [
                        {"name": "api_call", "value": "get_items", "context": f"api_call_{k}"},
                        {"name": "request", "value": f'{{"query": "{thing(n)}"}}', "context": "a"},
                        {"name": "response", "value": _response(n + k), "context": f"api_{k}"},
                    ][: 3 * (1 - k % 2)],
                }
                for k, text in enumerate(said)
            ]
            scenario = f"The user looks for tickets. {answer(file)} {answer(file + 1)}"
            rows.append(
                {
                    "conversation_id": f"dlg-{n:08x}",
                    "scenario": scenario,
                    "vertical": "Movie Tickets",
                    "utterances": spoken,
                }
            )
            wanted.append(turns(said))
        write_json(folder / "data" / f"data_0{file}.json", rows)
    return [wanted]


@kind("stopped")
def taskmaster_1(folder: Path) -> Truth:
    """One dialogue as a sample beside instructions, an ontology and lists of ids."""
    said = _said(3, 12)
    spoken = [
        {"index": k, "speaker": ("USER", "ASSISTANT")[k % 2], "text": text, "segments": []}
        for k, text in enumerate(said)
    ]
    sample = [{"conversation_id": "dlg-3369", "instruction_id": "pizza-1", "utterances": spoken}]
    write_json(folder / "sample.json", sample)
    for n, name in enumerate(("pizza-ordering-1", "auto-repair-appt-1", "coffee-ordering-2")):
        write_text(folder / "instructions" / f"{name}.txt", f"{story(n)}\n\n{story(n + 2)}\n")
    write_json(folder / "ontology.json", {"id": "pizza", "vertical": "Pizza", "required": ["size"]})
    for n, part in enumerate(("train", "dev", "test")):
        ids = [f"dlg-{n}{k:07x}," for k in range(700)]
        write_text(folder / "train-dev-test" / f"{part}.csv", "\n".join(ids))
    return [[turns(said)]]


def _crosswoz_row(n: int, said: list[str]) -> Any:
    state = {"景点": {"名称": zh_thing(n), "门票": "", "selectedResults": []}}
    messages: list[Any] = []
    for k, text in enumerate(said):
        act = [["Inform", "景点", "名称", zh_thing(n + k)]]
        one: dict[str, Any] = {"content": text, "role": ("usr", "sys")[k % 2], "dialog_act": act}
        if k % 2:
            one |= {"sys_state_init": state, "sys_state": state}
        else:
            one["user_state"] = [[1, "景点", "名称", zh_thing(n), k > 2]]
        messages.append(one)
    return {
        "sys-usr": [77, n],
        "goal": [[1, "景点", "门票", "20", False], [1, "景点", "名称", "", False]],
        "messages": messages,
        "final_goal": [[1, "景点", "门票", "20", True]],
        "task description": [f"你要去一个有{zh_thing(n)}的景点（id=1）。", "问一下门票的价格。"],
        "type": "单领域",
    }


@kind("right")
def crosswoz(folder: Path) -> Truth:
    wanted: list[Wanted] = []
    for file, name in enumerate(("train", "val", "test")):
        rows = {}
        for n in range(50 * file, 50 * file + 25):
            said = _zh_said(n, 6 + 2 * (n % 2))
            rows[str(391 + 41 * n)] = _crosswoz_row(n, said)
            wanted.append(turns(said))
        with zipfile.ZipFile(folder / f"{name}.json.zip", "w") as file_of:
            file_of.writestr(f"{name}.json", json.dumps(rows, ensure_ascii=False, indent=2))
    return [wanted]


@kind("right")
def kdconv(folder: Path) -> Truth:
    """Messages without a speaker, some with attributes, beside a knowledge base."""
    wanted: list[Wanted] = []
    for file, name in enumerate(("train", "dev", "test")):
        rows = []
        for n in range(50 * file, 50 * file + 25):
            said = _zh_said(n, 8)
            messages: list[dict[str, Any]] = [{"message": text} for text in said]
            attrs = {"attrname": "主演", "attrvalue": zh_thing(n), "name": zh_thing(n + 1)}
            messages[1]["attrs"] = messages[5]["attrs"] = [attrs]
            rows.append({"messages": messages, "name": zh_thing(n)})
            wanted.append(turns(said))
        write_json(folder / "film" / f"{name}.json", rows)
    facts = {zh_thing(n): [[zh_thing(n), "主演", zh_thing(n + 2)]] for n in range(14)}
    write_json(folder / "film" / "kb_film.json", facts)
    return [wanted]


@kind("stopped")
def meld(folder: Path) -> Truth:
    """Utterances a row, dialogues by number, several speakers, files of two corpora."""
    names = ("Ada", "Bruno", "Chiara", "Dmitri", "Elif")
    head = "Sr No.,Utterance,Speaker,Emotion,Sentiment,Dialogue_ID,Utterance_ID,Season,Episode"
    for part in ("train", "dev", "test"):
        rows = [
            f"{12 * n + k},{ask(12 * n + k)},{names[(n + k) % 5]},joy,positive,{n},{k},8,21"
            for n in range(10)
            for k in range(6)
        ]
        write_text(folder / "MELD" / f"{part}_sent_emo.csv", "\n".join([head, *rows, ""]))
        rows = [
            f'"{answer(9 * n + k)}","[\'{names[(n + k) % 5]}\']",Joyful,scene_{n},{k},1,2'
            for n in range(10)
            for k in range(6)
        ]
        titles = "Utterance,Speaker,Emotion,Scene_ID,Utterance_ID,Season,Episode"
        write_text(folder / "EmoryNLP" / f"{part}_final.csv", "\n".join([titles, *rows, ""]))
    return []


@kind("right")
def topical_chat(folder: Path) -> Truth:
    """Two peers who tell each other of the news, keyed by id, in two files."""
    wanted: list[Wanted] = []
    for file, name in enumerate(("test_freq", "test_rare")):
        rows = {}
        for n in range(50 * file, 50 * file + 30):
            said = [f"{answer(7 * n + k)} {story(n + 3 * k, k % 3)}".strip() for k in range(8)]
            content = [
                {
                    "message": text,
                    "agent": f"agent_{k % 2 + 1}",
                    "sentiment": ("Happy", "Curious to dive deeper")[n % 2],
                    "knowledge_source": ["FS1", "AS2"][: k % 3],
                    "turn_rating": "Good",
                }
                for k, text in enumerate(said)
            ]
            rows[f"t_{n:08x}-07e2-4d9c-9a3d-{n * n:012x}"] = {
                "article_url": f"https://news.example.com/{n}",
                "config": "C",
                "content": content,
                "conversation_rating": {"agent_1": "Good", "agent_2": "Excellent"},
            }
            wanted.append(turns(said))
        write_json(folder / f"{name}.json", rows)
    return [wanted]


@kind("stopped")
def dialog_corpus(folder: Path) -> Truth:
    """Lines with separators and messages as XML, in archives."""
    mark = " +++$+++ "
    lines = [mark.join([f"L{n}", f"u{n % 4}", "m0", "BIANCA", ask(n)]) for n in range(60)]
    with zipfile.ZipFile(folder / "cornell.zip", "w") as file:
        file.writestr("movie_lines.txt", "\n".join(lines))
        file.writestr("movie_conversations.txt", f"u0{mark}u1{mark}m0{mark}['L1', 'L2']\n" * 20)
    texts = "".join(
        f'<message id="{n}">\n<text>{zh_ask(n)}</text>\n<source><srcNumber>{n}</srcNumber>'
        "</source>\n</message>\n"
        for n in range(60)
    )
    with zipfile.ZipFile(folder / "smsCorpus.zip", "w") as file:
        file.writestr("smsCorpus_zh.xml", f'<?xml version="1.0"?>\n<smsCorpus>{texts}</smsCorpus>')
    return []


@kind("right")
def fastchat(folder: Path) -> Truth:
    rows, wanted = [], []
    for n in range(50):
        said = _said(n, 2 + 2 * (n % 3))
        spoken = [{"from": ("human", "gpt")[k % 2], "value": text} for k, text in enumerate(said)]
        rows.append({"id": f"identity_{n}", "conversations": spoken})
        wanted.append(turns(said))
    write_json(folder / "dummy_conversation.json", rows)
    return [wanted]


@kind("stopped")
def chatterbot(folder: Path) -> Truth:
    """Dialogues as YAML, which is not read."""
    for name in ("ai", "food", "history"):
        pairs = "".join(f"- - {ask(n)}\n  - {answer(n)}\n" for n in range(20))
        text = f"categories:\n- {name}\nconversations:\n{pairs}"
        write_text(folder / "english" / f"{name}.yml", text)
    return []


@kind("stopped")
def llama_factory(folder: Path) -> Truth:
    """Several data sets in one folder: instructions, preferences, tools, texts, images."""
    pairs = [{"instruction": ask(n), "input": "", "output": answer(n)} for n in range(30)]
    write_json(folder / "alpaca_en_demo.json", pairs)
    zh = [{"instruction": zh_ask(n), "input": "", "output": zh_answer(n)} for n in range(30)]
    write_json(folder / "alpaca_zh_demo.json", zh)
    spoken = [[{"from": "human", "value": ask(n)}] for n in range(30)]
    good = [{"from": "gpt", "value": answer(n)} for n in range(30)]
    bad = [{"from": "gpt", "value": answer(n + 40)} for n in range(30)]
    ranked = [
        {"conversations": spoken[n], "chosen": good[n], "rejected": bad[n]} for n in range(30)
    ]
    write_json(folder / "dpo_en_demo.json", ranked)
    judged = [
        {
            "messages": [
                {"role": "user", "content": ask(n)},
                {"role": "assistant", "content": answer(n)},
            ],
            "label": n % 2 == 0,
        }
        for n in range(30)
    ]
    write_json(folder / "kto_en_demo.json", judged)
    tool = json.dumps([{"name": "find", "description": "Find a thing", "parameters": {}}])
    calls = [{"conversations": [*spoken[n], good[n]], "tools": tool} for n in range(30)]
    write_json(folder / "glaive_toolcall_en_demo.json", calls)
    write_lines(folder / "c4_demo.jsonl", [{"text": story(n, 9)} for n in range(30)])
    write_text(folder / "wiki_demo.txt", "\n".join(story(n, 9) for n in range(30)))
    seen = [
        {
            "messages": [
                {"role": "user", "content": f"<image>{ask(n)}"},
                {"role": "assistant", "content": answer(n)},
            ],
            "images": [f"mllm_demo_data/{n}.jpg"],
        }
        for n in range(6)
    ]
    write_json(folder / "mllm_demo.json", seen)
    names = {path.stem: {"file_name": path.name} for path in folder.iterdir()}
    write_json(folder / "dataset_info.json", names)
    return []
