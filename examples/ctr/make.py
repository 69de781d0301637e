"""Makes the raw files of this folder again, byte for byte.

    python examples/ctr/make.py [OUT]

An invented shop: 260 visitors, 300 articles, 3,600 impressions in the two files of Ali-CCP (its
separators, its numbers for the fields), and 1,500 others as a plain table. Clicks depend on the
article's category, the visitor's age and how often the visitor looked at the category before;
purchases on the brand, the gender and the same history. A few lines are wrong on purpose: README.md
says which.
"""

import math
import random
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
VISITORS, ARTICLES, CATEGORIES, SHOPS, BRANDS, THEMES = 260, 300, 24, 60, 40, 80
IMPRESSIONS, TABLE_ROWS = 3_600, 1_500
MATERIALS = ("cotton", "linen", "wool", "steel", "glass", "oak", "bamboo", "paper", "clay", "cork")


@dataclass(frozen=True, kw_only=True)
class Article:
    """What is sold."""

    number: int
    category: int
    shop: int
    brand: int | None
    themes: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Visitor:
    """Who looks; the histories say how often a category and a shop were looked at."""

    name: str
    age: int | None
    gender: int | None
    region: int
    categories: dict[int, int]
    shops: dict[int, int]


@dataclass(frozen=True, kw_only=True)
class Impression:
    """An article shown to a visitor, and what came of it."""

    visitor: Visitor
    article: Article
    position: int
    click: int
    purchase: int


class Shop:
    """Draws everything from one seed."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.articles = [self._article(number) for number in range(1, ARTICLES + 1)]
        self.visitors = [self._visitor(number) for number in range(VISITORS)]

    def impression(self) -> Impression:
        """The next one."""
        visitor, article = (
            self.visitors[self._often(VISITORS)],
            self.articles[self._often(ARTICLES)],
        )
        if self.dice.random() < 0.45:  # what is shown follows what was looked at
            known = [one for one in self.articles if one.category in visitor.categories]
            article = self.dice.choice(known or self.articles)
        position = self.dice.randint(1, 3)
        interest = math.log1p(visitor.categories.get(article.category, 0))
        age = visitor.age or 0
        taste = 1.6 * (article.category % 4) + 0.8 * (age in (2, 5)) - 0.3 * position
        need = 1.6 * ((article.brand or 0) % 3) + 1.2 * (visitor.gender == 1)
        click = self._happens(taste + 1.4 * interest - 4.4)
        purchase = click * self._happens(need + 0.8 * interest - 3.2)
        return Impression(
            visitor=visitor, article=article, position=position, click=click, purchase=purchase
        )

    def _often(self, count: int) -> int:
        return int(count * self.dice.random() ** 2)  # the first ones more often

    def _happens(self, score: float) -> int:
        return int(self.dice.random() < 1 / (1 + math.exp(-score)))

    def _article(self, number: int) -> Article:
        draw = self.dice.randint
        brand = draw(1, BRANDS) if self.dice.random() < 0.7 else None
        themes = self.dice.sample(range(1, THEMES + 1), draw(1, 5))
        category, shop = draw(1, CATEGORIES), draw(1, SHOPS)
        return Article(number=number, category=category, shop=shop, brand=brand, themes=(*themes,))

    def _visitor(self, number: int) -> Visitor:
        known = self.dice.random() < 0.87
        age, gender = self.dice.randint(1, 7), self.dice.randint(1, 2)
        return Visitor(
            name=f"{self.dice.getrandbits(64):016x}",
            age=age if known else None,
            gender=gender if known else None,
            region=self.dice.randint(1, 5),
            categories=self._history(CATEGORIES, 6 * (number % 11 != 3)),
            shops=self._history(SHOPS, 9 * (number % 11 != 3)),
        )

    def _history(self, size: int, mean: int) -> dict[int, int]:
        numbers = self.dice.sample(range(1, size + 1), self.dice.randint(0, 2 * mean))
        return {number: int(self.dice.paretovariate(1.1)) for number in sorted(numbers)}


def token(field: str, number: int, times: int | None = None) -> str:
    """A raw token; its value is 1.0, or ln(1 + times) with five decimals."""
    value = "1.0" if times is None else f"{math.log1p(min(times, 500)):.5f}".rstrip("0")
    return f"{field}\x02{number}\x03{value}"


def skeleton_tokens(one: Impression) -> list[str]:
    """The fields of an impression."""
    article, known = one.article, one.visitor.categories
    made = [token("205", 1_000 + article.number), token("206", article.category)]
    made.append(token("207", article.shop))
    made += [token("210", 400 + theme) for theme in article.themes]
    if article.brand is not None:
        made.append(token("216", article.brand))
    made.append(token("301", one.position))
    if article.category in known:
        made.append(token("508", article.category, known[article.category]))
    return made


def common_tokens(number: int, visitor: Visitor) -> list[str]:
    """The fields of a visitor."""
    made = [token("101", 1 + number)]
    if visitor.gender is not None:
        made.append(token("124", visitor.gender))
    if visitor.age is not None:
        made.append(token("125", visitor.age))
    made.append(token("129", visitor.region))
    made += [token("109_14", key, times) for key, times in visitor.categories.items()]
    return made + [token("110_14", key, times) for key, times in visitor.shops.items()]


def line(*cells: object, tokens: list[str]) -> str:
    """A line of either raw file."""
    return ",".join([*map(str, cells), str(len(tokens)), "\x01".join(tokens)]) + "\n"


def raw_files(seed: int) -> tuple[str, str]:
    """The texts of skeleton and common file."""
    shop = Shop(seed)
    common = [line(v.name, tokens=common_tokens(n, v)) for n, v in enumerate(shop.visitors)]
    skeleton = []
    for number in range(1, IMPRESSIONS + 1):
        one = shop.impression()
        name, tokens = one.visitor.name, skeleton_tokens(one)
        labels = one.click, one.purchase
        if number in (400, 2_800):
            tokens[1] = tokens[1].replace("\x03", "")  # its value is cut off
        if number in (905, 906):
            name = "00000000deadbeef"  # stands in no common file
        if number in (1_200, 2_400):
            labels = 0, 1  # a purchase without a click
        skeleton.append(line(number, *labels, name, tokens=tokens))
    common.append(common[7])  # a visitor twice
    return "".join(skeleton), "".join(common)


def table(seed: int) -> str:
    """The text of the plain table."""
    shop, rows = Shop(seed), ["impression,visitor,clicked,bought,article,category,brand,place,"]
    rows[0] += "materials,looked_at"
    for number in range(1, TABLE_ROWS + 1):
        one = shop.impression()
        article, visitor = one.article, one.visitor
        # Materials say nothing of what is clicked; there may be none.
        several = shop.dice.sample(MATERIALS, shop.dice.randint(0, 3))
        looked = "|".join(f"c{key}:{times}" for key, times in visitor.categories.items())
        clicked = "yes" if number == 777 else one.click
        brand = f"b{article.brand}" if article.brand else "NULL"
        cells = [f"i{number:06d}", visitor.name[:8], clicked, one.purchase, f"a{article.number}"]
        cells += [f"c{article.category}", brand, one.position, "|".join(several), looked]
        rows.append(",".join(map(str, cells)))
    return "\n".join(rows) + "\n"


def main(out: Path) -> None:
    """Write the three files."""
    out.mkdir(parents=True, exist_ok=True)
    skeleton, common = raw_files(20_261_122)
    made = {"sample_skeleton_train.csv": skeleton, "common_features_train.csv": common}
    for name, text in {**made, "impressions.csv": table(7)}.items():
        (out / name).write_bytes(text.encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
