"""Facts of made-up lakes, by seed: as many data sets as wanted, of every status and shape."""

import random
from typing import Any

from ingot.converters.lake.catalog import SetFacts, SetFigures, Split

WORDS = {
    "en": "the river bank opens early when rain falls on quiet streets and lamps stay lit",
    "zh": "河水 很 清 早晨 下雨 街道 安静 灯光 亮着 人们 慢慢 走过 老桥",
    "de": "der Fluss liegt still am Morgen und die Laternen brennen noch im Regen",
    "fr": "la rivière dort au matin et les lampes brûlent encore sous la pluie",
    "ja": "川 は 静か で 朝 の 雨 が 通り に 落ちる 灯り",
    "es": "el río duerme por la mañana y las luces siguen bajo la lluvia",
}
TOPICS = "forum news wiki exam code recipes letters law poems manuals chat dialogs tales"
SOURCES = "web books archive crawl school press city partner"
REASONS = "no_assistant empty_text bad_row not_text unmapped_value bad_json no_prompt"
WEIGHTS = {
    "converted": 84,
    "waiting": 6,
    "failed": 5,
    "no_training_text": 2,
    "other_command": 1,
    "postponed": 1,
    "rejected": 1,
    "removed": 1,
}
STORIES = {
    "converted": ("", ""),
    "no_training_text": ("images only: photos/0001.jpg, photos/0002.jpg", ""),
    "other_command": (
        "raw click logs of Criteo: 40 columns, tabs",
        "ingot criteo preprocess --input-dir ",
    ),
    "waiting": ("the model and the rules disagree about messages", "ingot lake review lake"),
    "postponed": ("30 of 30 calls of a model are used up", "run again with --llm-max-calls 60"),
    "failed": ("part-00003.jsonl.gz: cut off after 81,920 bytes", "fetch the file again"),
    "rejected": ("personal letters, not for training", ""),
    "removed": ("no file of it is there any more", ""),
}


def lake(sets: int, seed: int = 0) -> list[SetFacts]:
    """A lake with so many data sets, by name."""
    draw = random.Random(seed)
    names = [
        f"{draw.choice(SOURCES.split())}--{draw.choice(TOPICS.split())}-{number:04d}"
        for number in range(sets)
    ]
    statuses = draw.choices([*WEIGHTS], weights=[*WEIGHTS.values()], k=sets)
    made = [_set(name, status, names, draw) for name, status in zip(names, statuses, strict=True)]
    return sorted(made, key=lambda one: one.name)


def _set(name: str, status: str, names: list[str], draw: random.Random) -> SetFacts:
    why, hint = STORIES[status]
    place = name.replace("--", "/")
    facts: dict[str, Any] = {
        "name": name,
        "place": place,
        "status": status,
        "why": why,
        "hint": hint + place if hint.endswith(" ") else hint,
        "format": draw.choice(["jsonl", "parquet", "csv", "json", "text"]),
        "files": draw.randint(1, 40),
        "bytes": draw.randint(10_000, 3_000_000_000),
    }
    if status in ("failed", "no_training_text", "other_command", "postponed"):
        return SetFacts(**facts)
    facts |= _proposal(name, draw)
    return SetFacts(**facts, **_converted(name, facts["decision"], status, names, draw))


def _proposal(name: str, draw: random.Random) -> dict[str, Any]:
    mapper = draw.choices(["rules", "llm", "file", "edited"], weights=[70, 20, 7, 3])[0]
    decision = draw.choice(["pt", "sft"])
    asked = {"calls": 1, "chars_sent": 9_000, "tokens_in": 2_900, "tokens_out": 310}
    price = draw.choice([0.0021, 0.0098, None, 0.031])
    return {
        "decision": decision,
        "mapper": mapper,
        "model": "some-model" if mapper == "llm" else None,
        "confidence": round(draw.uniform(0.6, 0.99), 2),
        "coverage": draw.choice([1.0, 0.995, 0.98, 0.91]),
        "spent": {**asked, "cost": price} if mapper == "llm" else {},
        "mapping": _mapping(decision),
        "mapping_file": f"mappings/{name}.json",
        "fingerprint": f"{draw.getrandbits(256):064x}",
    }


def _mapping(decision: str) -> dict[str, Any]:
    meta = {"original_id": "id", "language": {"literal": "en"}}
    if decision == "pt":
        return {"version": 2, "text": ["title", "body"], "meta": meta}
    turns = [{"role": "user", "content": "ask"}, {"role": "assistant", "content": "answer"}]
    return {"version": 2, "messages": turns, "meta": meta}


def _converted(
    name: str, decision: str, status: str, names: list[str], draw: random.Random
) -> dict[str, Any]:
    if status in ("waiting", "rejected"):
        return {}
    read = int(10 ** draw.uniform(1.5, 6.5))
    rejected = int(read * draw.choice([0, 0, 0, 0.001, 0.01, 0.06]))
    filtered = int(read * draw.choice([0, 0, 0, 0.02]))
    kept = read - rejected - filtered
    across = int(kept * draw.choice([0, 0, 0, 0.01, 0.2]))
    figures = _figures(kept, decision, draw)
    others = draw.sample(names, min(len(names), 3)) if across else []
    return {
        "rows": {"read": read, "converted": kept, "rejected": rejected, "filtered": filtered},
        "records": {"written": kept, "rejected": rejected, "filtered": filtered},
        "rejects": _dealt(rejected, draw.sample(REASONS.split(), 3), draw),
        "tokens": figures.characters // 3,
        "sequences": kept,
        "figures": figures,
        "across": across,
        "overlaps": {other: across // 2 + 1 for other in others if other != name},
        "splits": _splits(kept, across + figures.within, figures.characters // 3),
        "left_out": ({"name": "README.md", "why": "a text beside the data"},),
        "left_out_count": 1,
        "card": _card(figures, draw),
        "result": f"sets/{name}",
    }


def _card(figures: SetFigures, draw: random.Random) -> dict[str, Any]:
    license_name = draw.choice(["cc-by-4.0", "apache-2.0", "odc-by", "unknown"])
    return {
        "file": "README.md",
        "license": license_name,
        "languages": sorted(figures.languages),
        "tasks": ["text-generation"],
    }


def _splits(kept: int, repeats: int, tokens: int) -> tuple[Split, ...]:
    unique = max(kept - repeats, 0)
    train, dropped = unique - unique // 50, kept - unique
    return (
        Split(name="train", records=train, duplicates=dropped, tokens=tokens - tokens // 50),
        Split(name="valid", records=unique - train, duplicates=0, tokens=tokens // 50),
    )


def _dealt(whole: int, names: list[str], draw: random.Random) -> dict[str, int]:
    """A number dealt to names at random; names without anything are left out."""
    dealt: dict[str, int] = {}
    for name in names[:-1]:
        part = draw.randint(0, whole)
        dealt[name] = dealt.get(name, 0) + part
        whole -= part
    dealt[names[-1]] = dealt.get(names[-1], 0) + whole
    return {name: number for name, number in dealt.items() if number}


def _figures(kept: int, decision: str, draw: random.Random) -> SetFigures:
    spoken = draw.sample([*WORDS], draw.choice([1, 1, 1, 2, 4]))
    languages = _dealt(kept, [*spoken, ""] if draw.random() < 0.2 else [*spoken, spoken[0]], draw)
    first = draw.randint(4, 8)
    bins = [1 << power for power in range(first, first + draw.randint(2, 7))]
    lengths = {int(least): n for least, n in _dealt(kept, [str(b) for b in bins], draw).items()}
    samples = tuple(_sample(decision, draw.choice(spoken), draw) for _ in range(3))
    return SetFigures(
        records=kept,
        characters=sum(least * number * 3 // 2 for least, number in lengths.items()),
        lengths=dict(sorted(lengths.items())),
        languages=languages,
        heard=_dealt(min(kept, 200), [*spoken, ""], draw),
        within=int(kept * draw.choice([0, 0, 0.004, 0.05])),
        samples=samples,
    )


def _sample(decision: str, language: str, draw: random.Random) -> dict[str, Any]:
    meta = {"source": "made", "language": language, "timestamp": None, "original_id": "a17"}
    if decision == "pt":
        text = "\n\n".join(_said(language, draw, 60) for _ in range(3))
        return {"text": text, "meta": meta}
    turns = [("user", 12, False), ("assistant", 40, True)] * draw.choice([1, 1, 2])
    messages = [
        {"role": role, "content": _said(language, draw, words), "loss_mask": mask}
        for role, words, mask in turns
    ]
    return {"messages": messages, "system": "Answer in short.", "meta": meta}


def _said(language: str, draw: random.Random, words: int) -> str:
    joint = "" if language in ("zh", "ja") else " "
    return joint.join(draw.choices(WORDS[language].split(), k=words)) + "."
