"""Answers that are altered in one place so that they become wrong, and right ones in other words."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from vrag.reading.verification.claim import Claim, ClaimKind
from vrag.reading.verification.claims import SentenceName, extract_claims, read_sentences

MONTHS: Sequence[str] = (
    "January February March April May June July August September October November December".split()
)
_DIRECTIONS = (
    ("increased", "decreased"),
    ("increase", "decrease"),
    ("rose", "fell"),
    ("higher", "lower"),
    ("more than", "less than"),
    ("gained", "lost"),
    ("largest", "smallest"),
    ("highest", "lowest"),
    ("before", "after"),
    ("增加", "减少"),
    ("上升", "下降"),
)
_UNITS = (
    (r"(?<=\d)\s?%", (" million", " km", " euros")),
    (r"\bper ?cent\b", ("euros", "kilometres")),
    (r"\bkm\b", ("miles", "m")),
    (r"\bkilomet(?:er|re)s?\b", ("miles", "metres")),
    (r"\bmiles?\b", ("kilometres", "feet")),
    (r"\bmet(?:er|re)s?\b", ("feet", "kilometres")),
    (r"(?<=\d )m\b", ("km", "ft")),
    (r"\b(?:feet|ft)\b", ("metres", "miles")),
    (r"\binch(?:es)?\b", ("centimetres", "feet")),
    (r"\bkg\b", ("g", "t")),
    (r"\btonnes?\b|\btons?\b", ("kilograms", "pounds")),
    (r"\bpounds?\b", ("tonnes",)),
    (r"\byears?\b", ("months", "weeks")),
    (r"\bmonths?\b", ("years", "days")),
    (r"\bweeks?\b", ("years", "days")),
    (r"\bdays?\b", ("hours", "months")),
    (r"\bhours?\b", ("minutes", "days")),
    (r"\bminutes?\b", ("hours", "seconds")),
    (r"\bseconds?\b", ("hours", "minutes")),
    (r"\bbillion\b", ("million", "trillion")),
    (r"\bmillion\b", ("billion", "thousand")),
    (r"\bthousand\b", ("million", "billion")),
    (r"US\$|(?<!S)\$", ("€", "£")),
    (r"€", ("$",)),
    (r"£", ("€", "$")),
    (r"\bdollars?\b", ("euros", "yen")),
    (r"公里", ("米", "英里")),
    (r"(?<!厘)(?<!毫)(?<!平方)米", ("公里", "厘米")),
    (r"万(?=人|元|吨|美|平|年|$)", ("亿",)),
    (r"亿", ("万",)),
    (r"(?<=\d)年(?=间|$|，)", ("天", "个月")),
    (r"天", ("年",)),
    (r"小时", ("分钟",)),
)


_VERB = re.compile(
    r"\b(?:was|were|is|are|has|have|had|can|could|will|would|did)\b(?! not| no\b|n't)|(?<=[^不])是"
)


class Change(StrEnum):
    """What is changed in an answer."""

    DIGIT = "one digit"
    SIGN = "sign"
    UNIT = "unit or scale"
    NAME = "name, from another page"
    OWN_NAME = "name, from the same page"
    DATE = "date"
    PLACE = "number of another cell or sentence"
    DIRECTION = "direction"
    NEGATION = "negation"
    OTHER = "sentence about something else"


@dataclass(frozen=True, slots=True)
class Altered:
    """An answer with one change."""

    change: Change
    text: str
    start: int
    """Where the change begins."""
    end: int


def alter(
    answer: str,
    chance: random.Random,
    other_names: Sequence[str],
    own_names: Sequence[str],
    own_numbers: Sequence[str],
) -> Iterator[Altered]:
    """Yield one alteration of each kind that the answer allows.

    `other_names` stand on other pages, `own_names` and `own_numbers` on the page of the answer.
    """
    claims = extract_claims(answer)
    numbers, dates = (
        [claim for claim in claims if claim.kind is kind] for kind in (ClaimKind.NUMBER, ClaimKind.DATE)
    )
    names = find_names(answer)
    numbers = [claim for claim in numbers if re.search(r"[0-9]", claim.text)]
    makers: list[tuple[Change, Sequence[Claim | SentenceName], Callable[[str], str | None]]] = [
        (Change.DIGIT, numbers, lambda text: change_digit(text, chance)),
        (Change.SIGN, numbers, change_sign),
        (Change.UNIT, numbers, lambda text: change_unit(text, chance)),
        (Change.DATE, dates, lambda text: change_date(text, chance)),
        (Change.NAME, names, lambda text: _draw(text, other_names, chance)),
        (Change.OWN_NAME, names, lambda text: _draw(text, own_names, chance)),
        (Change.PLACE, numbers, lambda text: _draw(text, own_numbers, chance)),
    ]
    for change, of_kind, make in makers:
        for claim in chance.sample(of_kind, len(of_kind)):
            text = make(claim.text)
            if text and text != claim.text:
                altered = answer[: claim.start] + text + answer[claim.end :]
                yield Altered(change, altered, claim.start, claim.start + len(text))
                break
    yield from _alter_words(answer, chance)


def find_names(text: str) -> list[SentenceName]:
    """Return the names in the sentences of a text."""
    return [name for sentence in read_sentences(text) for name in sentence.names]


def _alter_words(answer: str, chance: random.Random) -> Iterator[Altered]:
    for one, other in chance.sample([*_DIRECTIONS, *((b, a) for a, b in _DIRECTIONS)], 2 * len(_DIRECTIONS)):
        match = re.search(rf"\b{one}\b" if one.isascii() else one, answer)
        if match:
            text = answer[: match.start()] + other + answer[match.end() :]
            yield Altered(Change.DIRECTION, text, match.start(), match.start() + len(other))
            break
    match = _VERB.search(answer)
    if match and len(answer.split()) > 4:
        word = "不是" if match[0] == "是" else f"{match[0]} not"
        text = answer[: match.start()] + word + answer[match.end() :]
        yield Altered(Change.NEGATION, text, match.start(), match.start() + len(word))


def change_digit(text: str, chance: random.Random) -> str | None:
    """Change one digit of a number; the first does not become 0."""
    places = [match.start() for match in re.finditer(r"[0-9]", text)]
    if not places:
        return None
    at = chance.choice(places)
    others = [digit for digit in "123456789" + "0" * (at != places[0]) if digit != text[at]]
    return text[:at] + chance.choice(others) + text[at + 1 :]


def change_sign(text: str) -> str | None:
    """Give a number the other sign; None for ranks."""
    if re.search(r"\d(?:st|nd|rd|th)\b", text):
        return None
    if match := re.match(r"\((.*\d)\)(.*)$|[-−–]\s?(.*)$", text):
        return match[3] if match[3] is not None else match[1] + match[2]
    return f"−{text}"


def change_unit(text: str, chance: random.Random) -> str | None:
    """Give a number another unit, currency or scale; None where it has none."""
    for pattern, others in _UNITS:
        if match := re.search(pattern, text):
            return text[: match.start()] + chance.choice(others) + text[match.end() :]
    return None


def change_date(text: str, chance: random.Random) -> str | None:
    """Change the month, the day or the year of a date, or the digits of a time."""
    months = [month for month in MONTHS if re.search(rf"\b{month}\b", text)]
    if months and chance.random() < 0.5:
        return text.replace(months[0], chance.choice([month for month in MONTHS if month != months[0]]))
    numbers = list(re.finditer(r"\d+", text))
    if not numbers:
        return None
    match = chance.choice(numbers)
    number = int(match[0])
    if number > 31:
        other = number + chance.choice([-11, -10, -3, -2, -1, 1, 2, 3, 10, 11])
    else:
        most = 12 if re.match("月|[:.]", text[match.end() :]) else 28
        other = chance.choice([day for day in range(1, most + 1) if day != number])
    return text[: match.start()] + str(other).zfill(len(match[0])) + text[match.end() :]


def _draw(text: str, others: Sequence[str], chance: random.Random) -> str | None:
    words = set(text.casefold().split())
    fitting = [
        other
        for other in others
        if words.isdisjoint(other.casefold().split())
        and text not in other
        and other not in text
        and text[0].isascii() == other[0].isascii()
    ]
    return chance.choice(fitting) if fitting else None


_SYNONYMS = (
    ("began", "started"), ("started", "began"), ("big", "large"), ("large", "big"), ("built", "constructed"),
    ("constructed", "built"), ("buy", "purchase"), ("bought", "purchased"), ("purchased", "bought"),
    ("created", "made"), ("made", "created"), ("died", "passed away"), ("difficult", "hard"),
    ("discovered", "found"), ("ended", "finished"), ("famous", "well known"), ("fast", "quick"),
    ("found", "discovered"), ("gave", "provided"), ("help", "assist"), ("helped", "assisted"),
    ("important", "significant"), ("increased", "grew"), ("decreased", "fell"), ("rose", "increased"),
    ("declined", "decreased"), ("job", "position"), ("killed", "slain"), ("known as", "called"),
    ("called", "known as"), ("located", "situated"), ("many", "numerous"), ("mostly", "mainly"),
    ("mainly", "mostly"), ("movie", "film"), ("film", "movie"), ("named", "called"), ("near", "close to"),
    ("often", "frequently"), ("people", "persons"), ("released", "published"), ("published", "released"),
    ("several", "a number of"), ("shows", "indicates"), ("small", "little"), ("took place", "happened"),
    ("used", "employed"), ("usually", "generally"), ("war", "conflict"), ("wrote", "authored"),
    ("approximately", "about"), ("revenue", "turnover"), ("revenues", "turnover"), ("sales", "turnover"),
    ("due to", "because of"), ("primarily", "mainly"), ("compared to", "compared with"), ("company", "firm"),
    ("total", "overall"), ("became", "turned into"), ("received", "got"), ("because", "since"),
    ("allows", "enables"), ("also", "as well"), ("however", "yet"), ("although", "though"),
    ("city", "town"), ("won", "was victorious in"), ("led", "headed"), ("main", "principal"),
    ("first", "initial"), ("children", "kids"), ("beautiful", "pretty"), ("buy", "get"),
    ("great", "very good"), ("成立", "建立"), ("建立", "成立"), ("开始", "起"), ("位于", "坐落于"),
    ("著名", "有名"), ("主要", "最主要"), ("因为", "由于"), ("由于", "因为"), ("出生", "诞生"),
    ("担任", "出任"), ("发现", "找到"), ("非常", "十分"),
)  # fmt: skip
_SMALL: Sequence[str] = "zero one two three four five six seven eight nine ten eleven twelve".split()


class Rewording(StrEnum):
    """A rule by which a right answer is said in other words."""

    NUMBER = "form of a number"
    DATE = "form of a date"
    UNIT = "form of a unit"
    SYNONYMS = "synonyms"
    ORDER = "order of clauses"
    SHORTER = "part of the sentence"
    FRAME = "words around"
    ROUNDED = "rounded, and said so"


def reword(answer: str, chance: random.Random) -> Iterator[tuple[Rewording, str]]:
    """Yield the answer in other words, by each rule that applies."""
    rules: list[tuple[Rewording, Callable[[str], str | None]]] = [
        (Rewording.NUMBER, _reform_number),
        (Rewording.DATE, lambda text: _reform_date(text, chance)),
        (Rewording.UNIT, lambda text: _reform_unit(text, chance)),
        (Rewording.SYNONYMS, _replace_synonyms),
        (Rewording.ORDER, _reorder),
        (Rewording.SHORTER, _shorten),
        (Rewording.FRAME, lambda text: _frame(text, chance)),
        (Rewording.ROUNDED, _round),
    ]
    for rule, make in rules:
        text = make(answer)
        if text and text != answer:
            yield rule, text


def _reform_number(text: str) -> str | None:
    if match := re.search(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])", text):
        return text[: match.start()] + match[0].replace(",", "") + text[match.end() :]
    if match := re.search(r"(?<![\d.,\w-])(?!1[0-9]{3}\b|20[0-9]{2}\b)\d{4,7}(?![\d.,\w-])", text):
        return f"{text[: match.start()]}{int(match[0]):,}{text[match.end() :]}"
    if match := re.search(r"(?<![\d.,\w$€£(-])([2-9]|1[0-2])(?= [a-z]{3,})", text):
        return text[: match.start()] + _SMALL[int(match[0])] + text[match.end() :]
    if match := re.search(rf"\b({'|'.join(_SMALL[2:])})(?= [a-z]{{3,}})", text):
        return text[: match.start()] + str(_SMALL.index(match[0])) + text[match.end() :]
    if match := re.search(r"\((\d[\d.,]*)\)", text):
        return f"{text[: match.start()]}-{match[1]}{text[match.end() :]}"
    return None


_ENGLISH_DATES = (
    re.compile(rf"\b(?P<d>\d{{1,2}}) (?P<m>{'|'.join(MONTHS)}) (?P<y>\d{{4}})\b"),
    re.compile(rf"\b(?P<m>{'|'.join(MONTHS)}) (?P<d>\d{{1,2}}), (?P<y>\d{{4}})\b"),
)
_CHINESE_DATE = re.compile(r"(?P<y>\d{4})年(?P<m>\d{1,2})月(?P<d>\d{1,2})日")


def _reform_date(text: str, chance: random.Random) -> str | None:
    for pattern in _ENGLISH_DATES:
        if match := pattern.search(text):
            day, month, year = int(match["d"]), match["m"], match["y"]
            number = MONTHS.index(month) + 1
            forms = [
                f"{day} {month} {year}", f"{month} {day}, {year}", f"{year}-{number:02}-{day:02}",
                f"{month[:3]} {day}, {year}", f"{day} {month[:3]}. {year}", f"the {day}th of {month} {year}",
            ]  # fmt: skip
            forms = [form for form in forms if form != match[0]]
            return text[: match.start()] + chance.choice(forms) + text[match.end() :]
    if match := _CHINESE_DATE.search(text):
        date = f"{match['y']}-{int(match['m']):02}-{int(match['d']):02}"
        return text[: match.start()] + date + text[match.end() :]
    if match := re.search(r"\b(1?\d):([0-5]\d) ?pm\b", text):
        return f"{text[: match.start()]}{int(match[1]) % 12 + 12}:{match[2]}{text[match.end() :]}"
    return None


_FORMS = (
    (r"(?<=\d)\s?%", (" percent", " per cent", " %")),
    (r"\bpercent\b", ("%", "per cent")),
    (r"(?<=\d )km\b", ("kilometres", "kilometers")),
    (r"\bkilomet(?:er|re)s\b", ("km",)),
    (r"\b(?<=\d )met(?:er|re)s\b", ("m",)),
    (r"(?<=\d )feet\b", ("ft",)),
    (r"\$(\d(?:[\d.,]*\d)?(?: (?:million|billion))?)", (r"\1 dollars", r"US$\1", r"\1 USD")),
    (r"€\s?(\d(?:[\d.,]*\d)?(?: (?:million|billion))?)", (r"\1 euros", r"EUR \1")),
    (r"£\s?(\d(?:[\d.,]*\d)?(?: (?:million|billion))?)", (r"\1 pounds", r"GBP \1")),
    (r"(\$\d[\d.]*) million", (r"\1m", r"\1 mn")),
    (r"(\$\d[\d.]*) billion", (r"\1bn",)),
    (r"公里", ("千米",)),
    (r"%", ("％",)),
)


def _reform_unit(text: str, chance: random.Random) -> str | None:
    for pattern, forms in _FORMS:
        if match := re.search(pattern, text):
            return text[: match.start()] + match.expand(chance.choice(forms)) + text[match.end() :]
    return None


def _replace_synonyms(text: str) -> str | None:
    changed, count = text, 0
    for word, other in _SYNONYMS:
        pattern = rf"\b{word}\b" if word.isascii() else word
        new = re.sub(pattern, f"\0{other}\0", changed, count=1)
        if new != changed and "\0" not in changed[max(changed.find(word) - 1, 0) :][:1]:
            changed, count = new, count + 1
        if count == 3:
            break
    return changed.replace("\0", "") if count else None


def _reorder(text: str) -> str | None:
    body = text.rstrip(".")
    if match := re.fullmatch(r"((?:In|On|At|By|During|After|Before|Since|From) [^,]{2,60}), (.{20,})", body):
        first, rest = match[1], match[2]
        return f"{rest[0].upper()}{rest[1:]} {first[0].lower()}{first[1:]}."
    if match := re.fullmatch(r"(.{25,}?),? ((?:in|on|after|before|during|since) (?:[^,.]{3,40}))", body):
        return f"{match[2][0].upper()}{match[2][1:]}, {match[1]}."
    if match := re.fullmatch(r"(.{25,}), and (.{25,})", body):
        return f"{match[2][0].upper()}{match[2][1:]}, and {match[1]}."
    if match := re.fullmatch(r"(.{10,}?)，(.{10,})。", text):
        return f"{match[2]}，{match[1]}。"
    return None


def _shorten(text: str) -> str | None:
    parts = re.split(r", (?=and |which |who |but |with |while )|; |，", text.rstrip(".。"))
    kept = max(parts, key=len)
    if len(parts) < 2 or len(kept) < 25:
        return None
    kept = re.sub(r"^(?:and|but|while) ", "", kept)
    return f"{kept[0].upper()}{kept[1:]}."


def _frame(text: str, chance: random.Random) -> str | None:
    if not text.isascii() and re.search("[\u4e00-\u9fff]", text):
        return chance.choice(("根据文件，", "文中提到，")) + text
    if len(text) < 20:
        frames = "The answer is {}.", "According to the document, it is {}.", "**{}**"
        return chance.choice(frames).format(text)
    lead = chance.choice(("According to the document, ", "The page states that ", "As the report says, "))
    return lead + text


def _round(text: str) -> str | None:
    if match := re.search(r"(?<![\d.,\w/-])(\d{1,3}(?:,\d{3})+|\d+\.\d\d)(?![\d,.\w-])", text):
        number = float(match[0].replace(",", ""))
        if "." in match[0]:
            said = f"{number:.1f}"
        else:
            step = 10 ** (len(match[0].replace(",", "")) - 2)
            said = f"{round(number / step) * step:,.0f}"
        lead = text[: match.start()]
        currency = re.search(r"(?:US)?[$€£]\s?$", lead)
        at = currency.start() if currency else len(lead)
        return f"{lead[:at]}about {lead[at:]}{said}{text[match.end() :]}"
    return None
