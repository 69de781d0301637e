"""Sentences of several languages, put together by chance: every text is made once only."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_PARTS: Final = {
    "en": (
        "The river|An old clock|My neighbour|The night train|A careful gardener|The small bakery|"
        "Our teacher|The grey cat|A young engineer|The village choir|The lighthouse keeper|"
        "Her grandmother",
        "carries|remembers|repairs|slowly watches|gladly describes|often forgets|"
        "carefully measures|quietly follows|finally understands|paints|sells|collects",
        "the broken bridge|a letter from the coast|three wooden chairs|the smell of fresh bread|"
        "an unfinished map|the names of all stars|a pair of brown shoes|the first snow|"
        "a story about the harbour|the rules of the game|seven blue stones|the oldest tree",
        "near the market|behind the station|in the valley|on the upper floor|beside the lake|"
        "at the edge of town|under the stone arch|between two hills",
        "before sunrise|in late autumn|every second Sunday|after the long rain|during the harvest|"
        "when nobody is looking|since last winter|at noon",
    ),
    "de": (
        "Der Fluss|Eine alte Uhr|Mein Nachbar|Der Nachtzug|Die kleine Bäckerei|Unsere Lehrerin|"
        "Die graue Katze|Der junge Ingenieur|Der Dorfchor|Die Großmutter",
        "trägt|vergisst manchmal|repariert|beobachtet langsam|beschreibt gern|misst sorgfältig|"
        "malt|verkauft|sammelt|versteht endlich",
        "die zerbrochene Brücke|einen Brief von der Küste|drei hölzerne Stühle|den Geruch von Brot|"
        "eine unfertige Karte|die Namen aller Sterne|ein Paar braune Schuhe|den ersten Schnee|"
        "eine Geschichte über den Hafen|die Regeln des Spiels",
        "neben dem Markt|hinter dem Bahnhof|im Tal|am Ufer des Sees|am Rand der Stadt|"
        "unter dem Torbogen|zwischen zwei Hügeln",
        "vor Sonnenaufgang|im späten Herbst|jeden zweiten Sonntag|nach dem langen Regen|"
        "während der Ernte|seit dem letzten Winter|am Mittag",
    ),
    "fr": (
        "La rivière|Une vieille horloge|Mon voisin|Le train de nuit|La petite boulangerie|"
        "Notre maîtresse|Le chat gris|Un jeune ingénieur|La chorale du village|Sa grand-mère",
        "porte|oublie parfois|répare|regarde lentement|décrit volontiers|mesure avec soin|"
        "peint|vend|rassemble|comprend enfin",
        "le pont cassé|une lettre de la côte|trois chaises en bois|l'odeur du pain frais|"
        "une carte inachevée|le nom des étoiles|une paire de chaussures|la première neige|"
        "une histoire du port|les règles du jeu",
        "près du marché|derrière la gare|dans la vallée|au bord du lac|à la lisière de la ville|"
        "sous l'arche de pierre|entre deux collines",
        "avant l'aube|à la fin de l'automne|un dimanche sur deux|après la longue pluie|"
        "pendant la récolte|depuis l'hiver dernier|à midi",
    ),
    "es": (
        "El río|Un viejo reloj|Mi vecino|El tren nocturno|La pequeña panadería|Nuestra maestra|"
        "El gato gris|Una joven ingeniera|El coro del pueblo|Su abuela",
        "lleva|olvida a veces|repara|mira despacio|describe con gusto|mide con cuidado|"
        "pinta|vende|recoge|entiende por fin",
        "el puente roto|una carta de la costa|tres sillas de madera|el olor del pan|"
        "un mapa sin terminar|los nombres de las estrellas|un par de zapatos|la primera nieve|"
        "una historia del puerto|las reglas del juego",
        "cerca del mercado|detrás de la estación|en el valle|junto al lago|"
        "en las afueras de la ciudad|bajo el arco de piedra|entre dos colinas",
        "antes del amanecer|a finales de otoño|cada dos domingos|después de la lluvia|"
        "durante la cosecha|desde el invierno pasado|al mediodía",
    ),
    "zh": (
        "老船长|邻居家的孩子|夜班列车|那位年轻的工程师|村里的合唱团|我们的语文老师|灰色的猫|街角的面包店|奶奶|守塔人",
        "慢慢修好了|常常想起|仔细测量了|终于看懂了|悄悄收集着|高兴地描述了|画下了|卖掉了|差点忘记了",
        "那座断了的桥|海边寄来的信|三把木头椅子|新鲜面包的香味|一张没有画完的地图|所有星星的名字|一双棕色的鞋子|"
        "今年的第一场雪|港口的旧故事|比赛的规则",
        "在市场旁边|在车站后面|在安静的山谷里|在湖的对岸|在城市的边缘|在石拱门下面|在两座小山之间",
        "日出之前|深秋的时候|每隔一个星期天|大雨过后|收获的季节里|从去年冬天开始|中午十二点",
    ),
    "ja": (
        "年老いた船長は|隣の子どもは|夜行列車の車掌は|若い技術者は|村の合唱団は|私たちの先生は|灰色の猫は|角のパン屋は",
        "ゆっくりと|ときどき|注意深く|ようやく|静かに|うれしそうに|何度も",
        "壊れた橋を直しました|海辺からの手紙を読みました|木の椅子を三つ運びました|焼きたてのパンを売りました|"
        "描きかけの地図を見せました|星の名前を覚えました|初雪を眺めました|港の昔話を語りました",
        "市場のそばで|駅の裏で|静かな谷で|湖のほとりで|町のはずれで|石の門の下で|二つの丘の間で",
        "夜明け前に|秋の終わりに|日曜日ごとに|長い雨のあとで|収穫のころに|去年の冬から|正午に",
    ),
    "ru": (
        "Старый капитан|Мой сосед|Ночной поезд|Молодой инженер|Деревенский хор|Наша учительница|"
        "Серая кошка|Маленькая пекарня|Моя бабушка",
        "медленно несёт|иногда забывает|чинит|внимательно измеряет|тихо собирает|охотно описывает|"
        "рисует|продаёт|наконец понимает",
        "сломанный мост|письмо с побережья|три деревянных стула|запах свежего хлеба|"
        "незаконченную карту|имена всех звёзд|пару коричневых ботинок|первый снег|старую историю",
        "возле рынка|за вокзалом|в тихой долине|на берегу озера|на краю города|под каменной аркой",
        "до рассвета|поздней осенью|каждое второе воскресенье|после долгого дождя|"
        "во время жатвы|с прошлой зимы|в полдень",
    ),
}
_ORDERS: Final = {"zh": (4, 0, 3, 1, 2), "ja": (4, 3, 0, 1, 2)}
_ENDS: Final = {"zh": "。", "ja": "。"}
_ASKS: Final = {
    "en": (
        "Why is it told that {}, and what follows from it?",
        "Please explain in a few words: {}.",
        "What would you do if {}?",
        "Can it be true that {}?",
    ),
    "de": (
        "Warum heißt es, dass Folgendes gilt: {}?",
        "Bitte erkläre in wenigen Worten: {}.",
        "Kann es wirklich stimmen: {}?",
    ),
    "fr": (
        "Pourquoi dit-on que {} ?",
        "Explique en quelques mots ceci : {}.",
        "Est-il vrai que {} ?",
    ),
    "es": (
        "¿Por qué se dice que {}?",
        "Explica en pocas palabras: {}.",
        "¿Puede ser verdad que {}?",
    ),
    "zh": ("为什么说{}？", "请用几句话解释：{}。", "如果{}，你会怎么做？"),
    "ja": ("なぜ{}と言われるのですか？", "簡単に説明してください。{}。", "本当に{}のでしょうか？"),
    "ru": (
        "Почему говорят, что {}?",
        "Объясни в нескольких словах: {}.",
        "Правда ли, что {}?",
    ),
}
LANGUAGES: Final = tuple(_PARTS)
_WORDS: Final = {
    language: tuple(tuple(part.split("|")) for part in parts) for language, parts in _PARTS.items()
}


@dataclass(eq=False)
class Writer:
    """Writes texts by chance, each of them once: what it made before is not made again."""

    chance: random.Random

    def __post_init__(self) -> None:
        """Nothing is written yet."""
        self._made: set[str] = set()
        self._number = 0

    def clause(self, language: str) -> str:
        """A sentence without its end."""
        words = [self.chance.choice(words) for words in _WORDS[language]]
        order = _ORDERS.get(language, range(len(words)))
        return ("" if language in _ORDERS else " ").join(words[at] for at in order)

    def text(self, language: str, sentences: int) -> str:
        """A text of so many sentences."""
        gap = "" if language in _ENDS else " "
        end = _ENDS.get(language, ".")
        return self._once(lambda: gap.join(self.clause(language) + end for _ in range(sentences)))

    def paragraphs(self, language: str, count: int, sentences: int = 3) -> str:
        """Paragraphs with a blank line between them."""
        return "\n\n".join(self.text(language, sentences) for _ in range(count))

    def question(self, language: str) -> str:
        """What somebody may ask."""

        def make() -> str:
            told = self.clause(language)
            return self.chance.choice(_ASKS[language]).format(told[0].lower() + told[1:])

        return self._once(make)

    def title(self, language: str) -> str:
        """A title: who and what."""
        words = _WORDS[language]
        gap = "" if language in _ENDS else " "
        return self.chance.choice(words[0]) + gap + self.chance.choice(words[3])

    def _once(self, make: Callable[[], str]) -> str:
        for _ in range(20):
            text = make()
            if text not in self._made:
                break
        else:
            self._number += 1
            text = f"{make()} {self._number}"
        self._made.add(text)
        return text
