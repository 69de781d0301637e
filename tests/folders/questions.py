"""Kinds of folders: instructions, questions and answers, exams."""

import csv
import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.folders.kinds import Truth, Wanted, kind, pair, write_json, write_lines, write_text
from tests.folders.texts import (
    answer,
    ask,
    ko_answer,
    ko_ask,
    story,
    thing,
    zh_answer,
    zh_ask,
    zh_story,
    zh_thing,
)

Texts = Callable[[int], str]


def _joined(*parts: str) -> str:
    return "\n".join(part for part in parts if part)


def _seeds(asks: Texts, answers: Texts, name: str) -> tuple[list[Any], list[Wanted]]:
    """Instructions with one or more instances each, some without an input."""
    rows, wanted = [], []
    for n in range(36):
        inputs = ["", answers(3 * n + 1)][n % 3 == 1 :][: 1 + (n % 9 == 4)]
        inputs += [answers(5 * n + 2)] if n % 9 == 4 else []
        instances = [{"input": one, "output": answers(n + 90 * k)} for k, one in enumerate(inputs)]
        rows.append(
            {
                "id": f"seed_task_{n}",
                "name": f"{name}_{n}",
                "instruction": asks(n),
                "instances": instances,
                "is_classification": n % 9 == 4,
            }
        )
        wanted += [pair(_joined(asks(n), one["input"]), one["output"]) for one in instances]
    return rows, wanted


@kind("right")
def seed_tasks(folder: Path) -> Truth:
    rows, wanted = _seeds(ask, answer, "keeping_things")
    write_lines(folder / "seed_tasks.jsonl", rows)
    return [wanted]


@kind("right")
def koalpaca(folder: Path) -> Truth:
    rows, wanted = _seeds(ko_ask, ko_answer, "ko_things")
    write_json(folder / "ko_seed_tasks.json", rows)
    return [wanted]


@kind("right")
def hh_harmless(folder: Path) -> Truth:
    def transcript(n: int, last: int) -> str:
        return (
            f"\n\nHuman: {ask(n)}\n\nAssistant: {answer(n)}"
            f"\n\nHuman: {ask(n + 50)}\n\nAssistant: {answer(last)}"
        )

    wanted: list[Wanted] = []
    for name, first in (("train", 0), ("test", 100)):
        rows = []
        for n in range(first, first + 30):
            rows.append({"chosen": transcript(n, n + 60), "rejected": transcript(n, n + 77)})
            wanted.append(pair(ask(n), answer(n)) + pair(ask(n + 50), answer(n + 60)))  # type: ignore[operator]
        write_lines(folder / f"{name}.jsonl", rows)
        plain = folder / f"{name}.jsonl"
        with gzip.open(folder / f"{name}.jsonl.gz", "wb") as file:
            file.write(plain.read_bytes())
        plain.unlink()
    return [wanted]


_WARDS = {"IM_内科": "消化科", "Surgical_外科": "骨科", "Pediatric_儿科": "小儿科"}


@kind("right")
def cmed_csv(folder: Path) -> Truth:
    wanted: list[Wanted] = []
    for k, (ward, name) in enumerate(_WARDS.items()):
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow(["department", "title", "ask", "answer"])
        for n in range(40 * k, 40 * k + 30):
            table.writerow([name, zh_ask(n), zh_story(n, 2), zh_story(n + 3, 3)])
            wanted.append(pair(_joined(zh_ask(n), zh_story(n, 2)), zh_story(n + 3, 3)))
        write_text(folder / ward / f"{ward[-2:]}5000-6000.csv", text.getvalue(), "gb18030")
    return [wanted]


@kind("stopped")
def cmed_txt(folder: Path) -> Truth:
    wanted: list[Wanted] = []
    for k, ward in enumerate(_WARDS):
        text = ""
        for n in range(40 * k, 40 * k + 30):
            text += f"{zh_ask(n)},{zh_story(n, 2)} \n {zh_story(n + 3, 3)}\n\n\n"
            wanted.append(pair(f"{zh_ask(n)},{zh_story(n, 2)}", zh_story(n + 3, 3)))
        write_text(folder / ward / f"{ward[-2:]}.txt", text)
    return [wanted]


@kind("right")
def korean_chat(folder: Path) -> Truth:
    rows = [f"{ko_ask(n)},{ko_answer(n)},{n % 3}" for n in range(60)]
    write_text(folder / "ChatbotData.csv", "\n".join(["Q,A,label", *rows, ""]))
    return [[pair(ko_ask(n), ko_answer(n)) for n in range(60)]]


def _sum_steps(n: int, socratic: bool) -> str:
    lead = f"How many does the {thing(n)} maker have? ** " if socratic else ""
    return (
        f"{lead}She has {n} + {n} = <<{n}+{n}={2 * n}>>{2 * n} of them.\n"
        f"{lead}She sells {2 * n} * 3 = <<{2 * n}*3={6 * n}>>{6 * n} in a week.\n#### {6 * n}"
    )


@kind("right")
def gsm8k(folder: Path) -> Truth:
    wanted: list[Wanted] = []
    for name, socratic in (("test", False), ("test_socratic", True)):
        pairs = [(f"{story(n, 1)} {ask(n)}", _sum_steps(n + 2, socratic)) for n in range(40)]
        write_lines(folder / f"{name}.jsonl", [{"question": q, "answer": a} for q, a in pairs])
        wanted += [pair(*one) for one in pairs]
    return [wanted]


@kind("right")
def gsm8k_solutions(folder: Path) -> Truth:
    rows = []
    for n in range(50):
        row: dict[str, Any] = {
            "question": f"{story(n, 1)} {ask(n)}",
            "ground_truth": _sum_steps(n + 2, socratic=False),
        }
        for k, model in enumerate(("6b_finetuning", "6b_verification", "175b_finetuning")):
            solution = _sum_steps(n + 2 + (n + k) % 2, socratic=False)
            row[model] = {"solution": solution, "is_correct": (n + k) % 2 == 0}
        rows.append(row)
    write_lines(folder / "example_model_solutions.jsonl", rows)
    return [[pair(row["question"], row["ground_truth"]) for row in rows]]


@kind("right")
def pubmedqa(folder: Path) -> Truth:
    rows, labels = {}, {}
    either: Truth = [[], [], [], []]
    for n in range(50):
        contexts = [story(n, 2), story(n + 5, 2), story(n + 9, 3)]
        verdict = ("yes", "no", "maybe")[n % 3]
        rows[str(21_645_374 + 37 * n)] = {
            "QUESTION": ask(n),
            "CONTEXTS": contexts,
            "LABELS": ["BACKGROUND", "METHODS", "RESULTS"],
            "MESHES": ["Adult", "Humans", thing(n).title()],
            "YEAR": str(1999 + n % 15),
            "reasoning_required_pred": verdict,
            "reasoning_free_pred": verdict,
            "final_decision": verdict,
            "LONG_ANSWER": story(n + 3, 2),
        }
        labels[str(21_645_374 + 37 * n)] = verdict
        before, after = _joined(*contexts, ask(n)), _joined(ask(n), *contexts)
        for k, asked in enumerate((before, after)):
            either[2 * k].append(pair(asked, story(n + 3, 2)))
            either[2 * k + 1].append(pair(asked, _joined(story(n + 3, 2), verdict)))
    write_json(folder / "data" / "ori_pqal.json", rows)
    write_json(folder / "data" / "test_ground_truth.json", labels)
    return either


def _marked(n: int, lead: str = "") -> tuple[str, str, Wanted]:
    """A conversation with marks in one field, its last answer, and what it should become."""
    said = [zh_ask(n), zh_answer(n), zh_ask(n + 40), zh_answer(n + 40)]
    asked = f"{lead}<user>: {said[0]} <bot>: {said[1]} <user>: {said[2]} <bot>: "
    return asked.rstrip(), said[3], pair(said[0], said[1]) + pair(said[2], said[3])  # type: ignore[operator]


@kind("right")
def chatglm_improve(folder: Path) -> Truth:
    made = [_marked(n) for n in range(60)]
    write_lines(folder / "train.jsonl", [{"context": a, "target": b} for a, b, _ in made])
    return [[one[2] for one in made]]


def _instructed(asked: str, answered: str) -> dict[str, str]:
    return {"instruction": asked, "input": "", "output": answered}


@kind("right")
def huatuo_liver(folder: Path) -> Truth:
    made = [_marked(n) for n in range(60)]
    write_lines(folder / "liver_cancer.json", [_instructed(a, b) for a, b, _ in made])
    return [[one[2] for one in made]]


@kind("stopped")
def huatuo(folder: Path) -> Truth:
    """Most rows are plain; those of one file hold whole conversations."""
    plain = [(zh_ask(n), zh_story(n, 2)) for n in range(120)]
    marked = [_marked(n) for n in range(14)]
    write_lines(folder / "data" / "llama_data.json", [_instructed(*one) for one in plain])
    write_lines(
        folder / "data-literature" / "liver_cancer.json", [_instructed(a, b) for a, b, _ in marked]
    )
    return [[*(pair(*one) for one in plain), *(one[2] for one in marked)]]


def _exam_rows(file: int) -> list[Any]:
    rows = []
    for n in range(30 * file, 30 * file + 20):
        right = "ABCD"[n % 4]
        options = "\n".join(f"{'ABCD'[k]}. {zh_answer(n + 11 * k)}" for k in range(4))
        rows.append(
            {
                "year": str(2010 + n % 12),
                "category": "（新课标ⅰ）",
                "question": f"{n % 20 + 1}. （5 分）{zh_ask(n)}（  ）\n{options}",
                "answer": [right] if file < 2 else f"{right}。{zh_answer(n + 2)}",
                "analysis": f"【解答】{zh_story(n, 3)}\n",
                "index": n % 20,
                "score": 5,
            }
        )
    return rows


@kind("stopped")
def gaokao(folder: Path) -> Truth:
    both: Truth = [[], [], []]
    for file, name in enumerate(("2010-2022_Math_I_MCQs", "2010-2022_History_MCQs", "Open_Math")):
        rows = _exam_rows(file)
        sub = "Objective_Questions" if file < 2 else "Subjective_Questions"
        write_json(folder / "Data" / sub / f"{name}.json", {"keywords": name, "example": rows})
        for row in rows:
            right = row["answer"] if isinstance(row["answer"], str) else row["answer"][0]
            reason = row["analysis"].strip()
            for k, text in enumerate((right, _joined(reason, right), _joined(right, reason))):
                both[k].append(pair(row["question"], text))
    return both


@kind("stopped")
def agieval(folder: Path) -> Truth:
    """Exams with options and a letter, or with an answer; half of them are Chinese."""
    letters = "ABCD"
    exams: dict[str, tuple[Texts, Texts]] = {
        "lsat-lr": (ask, answer),
        "sat-en": (ask, answer),
        "gaokao-geography": (zh_ask, zh_answer),
        "gaokao-physics": (zh_ask, zh_answer),
        "logiqa-zh": (zh_ask, zh_answer),
    }
    for k, (name, (asks, answers)) in enumerate(exams.items()):
        write_lines(
            folder / "v1" / f"{name}.jsonl",
            [
                {
                    "passage": answers(n) + answers(n + 3) if name != "gaokao-physics" else None,
                    "question": asks(n),
                    "options": [f"({letters[m]}){answers(n + 13 * m)}" for m in range(4)],
                    "label": letters[n % 4],
                    "other": {"source": f"{2010 + n % 9}年{zh_thing(n)}试卷"},
                    "explanation": None,
                }
                for n in range(40 * k, 40 * k + 25)
            ],
        )
    cloze = [
        {
            "passage": None,
            "question": f"{ask(n)} Evaluate $x^{n}$.",
            "options": None,
            "label": None,
            "answer": f"{n}x",
            "other": {"solution": answer(n), "level": n % 5, "type": "Algebra"},
        }
        for n in range(25)
    ]
    write_lines(folder / "v1" / "math.jsonl", cloze)
    return []


@kind("right")
def bbq(folder: Path) -> Truth:
    either: Truth = [[], []]
    rows = []
    for n in range(54):
        open_end = ("Can't be determined", "Not enough info", "Unknown")[n // 9 % 3]
        answers = [f"The {thing(n)} maker", f"The {thing(n + 7)} seller", open_end]
        answers = answers[n % 3 :] + answers[: n % 3]
        label = n // 3 % 3
        info = {f"ans{m}": [text.lower(), "old"] for m, text in enumerate(answers)}
        rows.append(
            {
                "example_id": n,
                "question_index": str(n % 25),
                "question_polarity": ("neg", "nonneg")[n % 2],
                "context_condition": ("ambig", "disambig")[n % 2],
                "category": "Age",
                "answer_info": info,
                "additional_metadata": {"subcategory": "None", "version": "a"},
                "context": story(n, 2),
                "question": ask(n),
                **{f"ans{m}": text for m, text in enumerate(answers)},
                "label": label,
            }
        )
        options = [f"{'ABC'[m]}. {text}" for m, text in enumerate(answers)]
        asked = _joined(story(n, 2), ask(n), *options)
        either[0].append(pair(asked, answers[label]))
        either[1].append(pair(asked, options[label]))
    write_lines(folder / "data" / "Age.jsonl", rows)
    return either


@kind("right")
def self_instruct_predictions(folder: Path) -> Truth:
    """The same prompts beside what each of several models predicted."""
    wanted: list[Wanted] = []
    for k, model in enumerate(("davinci", "davinci-001", "t0-11b", "tk-11b")):
        rows = []
        for n in range(40):
            asked = f"{ask(n)}\n\nInput: {answer(n + 4)}\n\nOutput:"
            rows.append(
                {
                    "id": f"user_oriented_task_{n}_instance_0",
                    "motivation_app": thing(n).title(),
                    "prompt": asked,
                    "target": answer(n),
                    "response": {"choices": [{"text": answer(n + 17 * k + 1), "index": 0}]},
                }
            )
            wanted.append(pair(asked, answer(n)))
        write_lines(folder / "predictions" / f"{model}_predictions.jsonl", rows)
    return [wanted]


@kind("right")
def alpaca_farm(folder: Path) -> Truth:
    wanted: list[Wanted] = []
    for k, model in enumerate(("alpaca-7b", "ppo-human", "text_davinci_003")):
        rows = []
        for n in range(40):
            given = answer(n + 9) if n % 3 == 0 else ""
            said = answer(n + 31 * k)
            rows.append({"instruction": ask(n), "input": given, "output": said})
            rows[-1] |= {"generator": model, "dataset": "selfinstruct", "datasplit": "eval"}
            wanted.append(pair(_joined(ask(n), given), said))
        write_json(folder / f"outputs_{model}.json", rows)
    ranked = [
        {
            "instruction": ask(n),
            "input": "",
            "output_1": answer(n),
            "output_2": answer(n + 7),
            "preference": n % 2 + 1,
        }
        for n in range(4)
    ]
    write_json(folder / "outputs_pairs.json", ranked)
    best: list[Wanted] = [pair(ask(n), answer(n + 7 * (n % 2))) for n in range(4)]
    return [wanted, wanted + best]


@kind("stopped")
def gpt4llm_plots(folder: Path) -> Truth:
    """Scores of models beside a file of instructions with instances."""
    rows, wanted = _seeds(ask, answer, "office")
    for row in rows:
        del row["is_classification"], row["name"]
        row["motivation_app"] = "Mail"
    write_lines(folder / "data" / "user_oriented_instructions.jsonl", rows)
    scores = {str(n): {"alpaca": n % 9 + 0.5, "vicuna": 7} for n in range(400)}
    write_json(folder / "data" / "cmp_data_scores.json", scores)
    (folder / "output").mkdir()
    (folder / "output" / "bar_score.pdf").write_bytes(b"%PDF-1.4" + bytes(30_000))
    return [wanted]
