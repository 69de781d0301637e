"""Texts of our own in four languages, each different from the others, by number."""

from collections.abc import Sequence


def _words(text: str) -> list[str]:
    return text.split(",")


_THINGS = _words(
    "lantern,kettle,violin,ladder,compass,blanket,bicycle,telescope,candle,umbrella,piano,"
    "saddle,anchor,basket,chisel,drum,easel,flute,garden hose,hammock,inkwell,jacket,kite,"
    "loom,mirror,notebook,oven,paddle,quilt,rope"
)
_PLACES = _words("harbour,attic,village,workshop,museum,valley,library,bakery,castle")
_ASKS = (
    "How do I repair a {thing} that broke in the {place}?",
    "What is the best way to keep a {thing} dry in a {place}?",
    "Can you explain why every {place} needs a {thing}?",
    "Where in the {place} should I look for a used {thing}?",
    "Who was the first person to bring a {thing} into the {place}?",
    "Describe the {thing} of the {place} in two sentences.",
    "Please suggest three uses of a {thing} for visitors of the {place}.",
)
_ANSWERS = (
    "Start by taking the {thing} outside, where there is light. The {place} can wait until noon.",
    "Most people begin with a soft cloth and warm water. After that the {thing} dries in an hour.",
    "It was made for the {place} long ago, and nobody has found a better one since that winter.",
    "You will need patience, two screws and a friend who has seen a {thing} from the inside.",
    "Ask the keeper of the {place} on Monday; she knows the story of each {thing} by heart.",
)
_ZH_THINGS = _words(
    "灯笼,水壶,小提琴,梯子,指南针,毛毯,自行车,望远镜,蜡烛,雨伞,钢琴,马鞍,船锚,篮子,凿子"
)
_ZH_PLACES = _words("港口,阁楼,村庄,作坊,博物馆,山谷,图书馆")
_ZH_ASKS = (
    "怎样修理{place}里坏掉的{thing}？",
    "在{place}里保存{thing}最好的办法是什么？",
    "请问为什么每个{place}都需要一个{thing}？",
    "我应该到{place}的哪里去找旧{thing}？",
)
_ZH_ANSWERS = (
    "先把{thing}拿到外面亮的地方，再慢慢擦干净，{place}可以等到中午。",
    "大多数人先用软布和温水清洗，一个小时以后{thing}就干了。",
    "这件东西是很久以前为{place}做的，后来没有人见过更好的{thing}。",
)
_KO_THINGS = _words("등불,주전자,바이올린,사다리,나침반,담요,자전거,망원경,양초,우산,피아노")
_KO_ASKS = (
    "{thing}을 어떻게 고치나요?",
    "{thing}은 어디에서 살 수 있나요?",
    "{thing}이 왜 필요한가요?",
)
_KO_ANSWERS = (
    "먼저 {thing}을 밝은 곳으로 가져가서 천천히 닦아 주세요.",
    "시장에 가면 좋은 {thing}을 싸게 살 수 있어요.",
)


def _nth(n: int, forms: Sequence[str], things: Sequence[str], places: Sequence[str]) -> str:
    """The n-th text: forms, things and places run at steps without a common period."""
    text = forms[n % len(forms)]
    return text.format(
        thing=things[(7 * n + n // len(things)) % len(things)],
        place=places[(n + n // len(forms)) % len(places)],
    )


def ask(n: int) -> str:
    """The n-th question in English."""
    return _nth(n, _ASKS, _THINGS, _PLACES)


def answer(n: int) -> str:
    """The n-th answer in English."""
    return _nth(n, _ANSWERS, _THINGS, _PLACES)


def story(n: int, sentences: int = 6) -> str:
    """A paragraph in English."""
    return " ".join(answer(11 * n + k) for k in range(sentences))


def thing(n: int) -> str:
    """A noun in English."""
    return _THINGS[n % len(_THINGS)]


def zh_ask(n: int) -> str:
    """The n-th question in Chinese."""
    return _nth(n, _ZH_ASKS, _ZH_THINGS, _ZH_PLACES)


def zh_answer(n: int) -> str:
    """The n-th answer in Chinese."""
    return _nth(n, _ZH_ANSWERS, _ZH_THINGS, _ZH_PLACES)


def zh_story(n: int, sentences: int = 5) -> str:
    """A paragraph in Chinese."""
    return "".join(zh_answer(7 * n + k) for k in range(sentences))


def zh_thing(n: int) -> str:
    """A noun in Chinese."""
    return _ZH_THINGS[n % len(_ZH_THINGS)]


def ko_ask(n: int) -> str:
    """The n-th question in Korean."""
    return _nth(n, _KO_ASKS, _KO_THINGS, ("",))


def ko_answer(n: int) -> str:
    """The n-th answer in Korean."""
    return _nth(n, _KO_ANSWERS, _KO_THINGS, ("",))
