"""Units of measure and currencies beside numbers: their spellings, and what they measure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from typing import NamedTuple


class Unit(NamedTuple):
    """The quantity that a unit measures, and its size in the base unit of that quantity."""

    dimension: str
    """The quantity that it measures; each currency is a quantity of its own."""
    factor: Decimal = Decimal(1)


_TABLE = """
percent 1: % ％; percent, per cent, percentage point, pct, prozent, 个百分点, パーセント
length 0.001: mm; millimetre, 毫米
length 0.01: cm; centimetre, 厘米
length 1: m; metre, 米, メートル
length 1000: km; kilometre, 公里, 千米, キロメートル
length 0.0254: ″; inch, inches, 英寸
length 0.3048: ft; foot, feet, 英尺
length 1609.344: mi; mile, 英里
length 1852: nmi; nautical mile, 海里
area 1: m² m2 sqm; square metre, sq m, 平方米
area 1e6: km² km2; square kilometre, sq km, 平方公里, 平方千米
area 2589988.11: mi²; square mile, sq mi, 平方英里
area 0.09290304: ft²; square foot, square feet, sq ft
area 10000: ha; hectare, 公顷
area 4046.856: ; acre, 英亩
volume 1: l L; litre, 升
volume 0.001: ml mL; millilitre, 毫升
volume 1000: m³ m3; cubic metre, 立方米
volume 3.785412: ; gallon, 加仑
mass 1e-6: mg; milligram, 毫克
mass 0.001: g; gram, 克
mass 1: kg; kilogram, kilo, 公斤, 千克
mass 1000: t; tonne, metric ton, ton, 吨, トン
mass 0.45359237: lb lbs; pound, 磅
mass 0.02834952: oz; ounce, 盎司
duration 0.001: ms; millisecond, 毫秒
duration 1: s sec; second, 秒
duration 60: min mins; minute, 分钟, 分間
duration 3600: h hr hrs; hour, 小时, 時間
duration 86400: ; day, 天, 日間
duration 604800: ; week, 周, 星期, 週間
months 1: ; month, 个月, か月, ヶ月
months 12: ; year, 年間
months 120: ; decade
speed 1: km/h kmh kph; kilometres per hour, kilometers per hour, kilometre per hour
speed 1.609344: mph; miles per hour, mile per hour
speed 1.852: kn; knot, 节
speed 3.6: m/s; metres per second, meters per second
power 1: W; watt
power 1e3: kW; kilowatt
power 1e6: MW; megawatt
power 1e9: GW; gigawatt
energy 1: Wh; watt hour
energy 1e3: kWh; kilowatt hour
energy 1e6: MWh; megawatt hour
energy 1e9: GWh; gigawatt hour
energy 1e12: TWh; terawatt hour
data 1e3: KB kB; kilobyte
data 1e6: MB; megabyte
data 1e9: GB; gigabyte
data 1e12: TB; terabyte
frequency 1: Hz; hertz
frequency 1e3: kHz; kilohertz
frequency 1e6: MHz; megahertz
frequency 1e9: GHz; gigahertz
celsius 1: °C ℃; degrees celsius, degree celsius, 摄氏度
fahrenheit 1: °F ℉; degrees fahrenheit, degree fahrenheit, 华氏度
degree 1: °; degree, 度
USD 1: US$ $ USD; us dollar, dollar, 美元, ドル
USD 0.01: ¢; cent
EUR 1: € EUR; euro, 欧元, ユーロ
GBP 1: £ GBP; pound, 英镑, ポンド
JPY 1: ¥ JPY; yen, 日元, 円
CNY 1: ¥ CNY RMB; yuan, renminbi, 人民币, 元
CHF 1: CHF; swiss franc, franc
INR 1: ₹ INR Rs; rupee, 卢比
KRW 1: ₩ KRW;
RUB 1: ₽ RUB; rouble, ruble, 卢布
times 1: ×; times, fold, 倍
"""
"""Dimension and factor; symbols, which keep their case; words, which do not, in their British singular."""
_CJK = re.compile(r"[\u3040-\u9fff]")


def _spellings(word: str) -> set[str]:
    """Return a word with its plural and its American spelling."""
    if _CJK.search(word):
        return {word}
    words = {word, word.replace("metre", "meter").replace("litre", "liter").replace("tonne", "ton")}
    return words | {f"{one}s" for one in words} | {one.replace(" ", "-") for one in words}


def _read_table() -> tuple[dict[str, tuple[Unit, ...]], dict[str, tuple[Unit, ...]]]:
    """Return the units of the symbols, and those of the words."""
    symbols: dict[str, tuple[Unit, ...]] = {}
    words: dict[str, tuple[Unit, ...]] = {}
    for row in _TABLE.strip().splitlines():
        head, _, forms = row.partition(":")
        dimension, factor = head.split()
        unit = Unit(dimension, Decimal(factor))
        signs, _, names = forms.partition(";")
        for sign in signs.split():
            symbols[sign] = (*symbols.get(sign, ()), unit)
        for word in {form for name in names.split(",") for form in _spellings(name.strip())} - {"", "s"}:
            words[word] = (*words.get(word, ()), unit)
    return symbols, words


_SYMBOLS, _WORDS = _read_table()


def _alternatives(forms: Iterable[str], flags: str) -> str:
    longest = sorted(forms, key=len, reverse=True)
    ends = (r"(?![\w²³])" if form[-1].isascii() and form[-1].isalnum() else "" for form in longest)
    return (
        rf"(?{flags}:"
        + "|".join(re.escape(form) + end for form, end in zip(longest, ends, strict=True))
        + ")"
    )


_ANY = f"({_alternatives(_SYMBOLS, '')}|{_alternatives(_WORDS, 'i')})"
_BEHIND = re.compile(rf"[ \u00a0]?[- ]?(?![$€£¥₹₩]\s?\d|US\$|[A-Z]{{3}}\s\d){_ANY}")
_SINGLE = re.compile(rf"(?<!\w){_ANY}")


def read_unit(text: str, at: int) -> tuple[tuple[Unit, ...], int]:
    """Return the units that the text at a place may mean, and where they end; none, and the place, without.

    >>> read_unit("12 kilometres", 2), read_unit("12 ferries", 2)
    (((Unit(dimension='length', factor=Decimal('1000')),), 13), ((), 2))
    """
    match = _BEHIND.match(text, at)
    return (units_of(match[1]), match.end()) if match else ((), at)


def units_of(form: str) -> tuple[Unit, ...]:
    """Return the units that a spelling may mean; none for any other text.

    >>> [str(unit.factor) for unit in units_of("pounds")], units_of("ferries")
    (['0.45359237', '1'], ())
    """
    return _SYMBOLS.get(form) or _WORDS.get(form.casefold(), ())


def find_units(text: str) -> frozenset[Unit]:
    """Return the units that stand anywhere in a text, such as a head or a caption."""
    return frozenset(unit for match in _SINGLE.finditer(text) for unit in units_of(match[1]))
