"""Signs of fonts that have pictures in the place of letters: Symbol, Wingdings, Webdings, Zapf Dingbats.

The same code is another sign in each of them, so that the name of the font says what a page shows. A layer
has the codes as private characters (U+F000 and the code) or as the letters that have these codes.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vrag.corpus.formats.pdfium_text import Layer, Sides

FIRST_CODE, PRIVATE = 0x21, 0xF000
"""Code of the first sign of each font; what private characters have added to their code."""
PRIVATE_SIGN = re.compile("[\uf021-\uf0ff]")
LAST_LATIN, LAST_ASCII = "\xff", "~"
"""Letters beyond which a layer has no codes. Codes of Symbol above ASCII may be those of another encoding."""
SIGNS = {
    "wingdings": (
        "🖉✂✁👓🕭🕮🕯🕿✆🖂🖃📪📫📬📭🗀🗁🗎🗏🗐🗄⌛🖮🖰🖲🖳🖴🖫🖬✇✍🖎✌🖏👍👎☜☞☝☟🖐☺😐☹💣🕱🏳🏱✈☼🌢❄🕆✞🕈✠"
        "✡☪☯🕉☸♈♉♊♋♌♍♎♏♐♑♒♓🙰🙵●○■□❐❑❒⬧⧫◆❖⬩⌧⮹⌘🏵🏶🙶🙷▯🄋➀➁➂➃➄➅➆➇➈➉🄌➊➋➌➍➎"
        "➏➐➑➒➓🙢🙠🙡🙣🙞🙜🙝🙟·•▪○🞆🞈🞊🞋○▪◻🟁🟅★🟋🟏🟓🟑⯐⌖⯎⯏⯑✪✰🕐🕑🕒🕓🕔🕕🕖🕗🕘🕙🕚🕛⮰⮱⮲⮳⮴⮵"
        "⮶⮷🙪🙫🙕🙔🙗🙖🙐🙑🙒🙓⌫⌦⮘➢⮙⮛⮈⮊⮉⮋←→↑↓↖↗↙↘←→↑↓↖↗↙↘⇦⇨⇧⇩⬄⇳⬁⬀⬃⬂🢬🢭✗✓☒☑ "
    ),
    "wingdings2": (
        "🖊🖋🖌🖍✄✀🕾🕽🗅🗆🗇🗈🗉🗊🗋🗌🗍📋🗑🗔🖵🖶🖷🖸🖭🖯🖱🖒🖓🖘🖙🖚🖛👈👉🖜🖝🖞🖟🖠🖡👆👇🖢🖣🖑✗✓☒☑☒☒⮾⮿🛇⦸"
        "🙱🙴🙲🙳‽🙹🙺🙻🙦🙤🙥🙧🙚🙘🙙🙛⓪①②③④⑤⑥⑦⑧⑨⑩⓿❶❷❸❹❺❻❼❽❾❿ ☉🌕☽☾⸿✝🕇🕜🕝🕞🕟🕠🕡🕢🕣🕤🕥"
        "🕦🕧🙨🙩⋅🞄⦁●○🞅🞇🞉⊙⦿🞌🞍◾■□🞑🞒🞓🞔▣🞕🞖🞗🞘⬩⬥◇🞚◈🞛🞜🞝🞞⬪⬧◊🞠◖◗⯊⯋⯀⯁⬟⯂⬣⬢⯃⯄🞡🞢🞣"
        "🞤🞥🞦🞧🞨🞩🞪🞫🞬🞭🞮🞯🞰🞱🞲🞳🞴🞵🞶🞷🞸🞹🞺🞻🞼🞽🞾🞿🟀🟂🟄🟆🟉🟊✶🟌🟎🟐🟒✹🟃🟇✯🟍🟔⯌⯍※⁂      "
    ),
    "wingdings3": (
        "←→↑↓↖↗↙↘⭰⭲⭱⭳⭶⭸⭻⭽↔↕⭪⭬⭫⭭⭍⮠⮡⮢⮣⮤⮥⮦⮧⮐⮑⮒⮓⮀⮃⭾⭿⮄⮆⮅⮇⮏⮍⮎⮌⭮⭯⎋⌤⌃⌥␣⍽⇪"
        "⮸🢠🢡🢢🢣🢤🢥🢦🢧🢨🢩🢪🢫←→↑↓↖↗↙↘↔↕▲▼△▽◀▶◁▷◣◢◤◥🞀🞂🞁 🞃⯅⯆⯇⯈⮜⮞⮝⮟🠐🠒🠑🠓🠔🠖🠕🠗"
        "🠘🠚🠙🠛🠜🠞🠝🠟←→↑↓←→↑↓🠈🠊🠉🠋🠠🠢🠤🠦🠨🠪🠬🢜🢝🢞🢟🠮🠰🠲🠴🠶🠸🠺🠹🠻🢘🢚🢙🢛🠼🠾🠽🠿🡀🡂🡁🡃🡄🡆🡅🡇"
        "⮨⮩⮪⮫⮬⮭⮮⮯🡠🡢🡡🡣🡤🡥🡧🡦🡰🡲🡱🡳🡴🡵🡷🡶🢀🢂🢁🢃🢄🢅🢇🢆🢐🢒🢑🢓🢔🢖🢕🢗               "
    ),
    "webdings": (
        "🕷🕸🕲🕶🏆🎖🖇🗨🗩🗰🗱🌶🎗🙾🙼🗕🗖🗗⏴⏵⏶⏷⏪⏩⏮⏭⏸⏹⏺🗚🗳🛠🏗🏘🏙🏚🏜🏭🏛🏠🏖🏝🛣🔍🏔👁👂🏞🏕🛤🏟🛳🕬🕫🕨🔈"
        "🎔🎕🗬🙽🗭🗪🗫⮔✔🚲□🛡📦🛱■🚑🛈🛩🛰🟈🕴●🛥🚔🗘✗❓🛲🚇🚍⛳⦸⊖🚭🗮⏐🗯🗲 🚹🚺🛉🛊🚼👽🏋⛷🏂🏌🏊🏄🏍🏎🚘🗠🛢"
        "💰🏷💳👪🗡🗢🗣✯🖄🖅🖃🖆🖹🖺🖻🕵🕰🖽🖾📋🗒🗓🕮📚🗞🗟🗃🗂🖼🎭🎜🎘🎙🎧💿🎞📷🎟🎬📽📹📾📻🎚🎛📺💻🖥🖦🖧🕹🎮🕻🕼📟🖁"
        "🖀🖨🖩🖿🖪🗜🔒🔓🗝📥📤🕳🌣🌤🌥🌦☁🌨🌧🌩🌪🌬🌫🌜🌡🛋🛏🍽🍸🛎🛍Ⓟ♿🛆🖈🎓🗤🗥🗦🗧🛪🐿🐦🐟🐕🐈🙬🙮🙭🙯🗺🌍🌏🌎🕊"
    ),
    "symbol": (
        "!∀#∃%&∍()*+,-./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞ"
        "ΨΖ[∴]⊥_‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}~                  "
        "               €ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵ℵℑℜ℘⊗⊕∅∩∪"
        "⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪〉∫⌠⎮⌡⎞⎟⎠⎤⎥⎦⎫⎬⎭ "
    ),
    "zapfdingbats": (
        "✁✂✃✄☎✆✇✈✉☛☞✌✍✎✏✐✑✒✓✔✕✖✗✘✙✚✛✜✝✞✟✠✡✢✣✤✥✦✧★✩✪✫✬✭✮✯✰✱✲✳✴✵✶✷✸"
        "✹✺✻✼✽✾✿❀❁❂❃❄❅❆❇❈❉❊❋●❍■❏❐❑❒▲▼◆❖◗❘❙❚❛❜❝❞ ❨❩❪❫❬❭❮❯❰❱❲❳❴❵   "
        "                ❡❢❣❤❥❦❧♣♦♥♠①②③④⑤⑥⑦⑧⑨⑩❶❷❸❹❺❻❼❽❾❿➀➁➂➃➄➅➆➇➈"
        "➉➊➋➌➍➎➏➐➑➒➓➔→↔↕➘➙➚➛➜➝➞➟➠➡➢➣➤➥➦➧➨➩➪➫➬➭➮➯ ➱➲➳➴➵➶➷➸➹➺➻➼➽➾ "
    ),
}
"""Fonts → their signs from `FIRST_CODE` to 255; a space is no sign. Where Unicode has several of one
shape, it is the one that other fonts have too."""
SHARED_SIGNS = {
    0x6F: "□",
    0x71: "❑",
    0x76: "❖",
    0xA7: "▪",
    0xA8: "◻",
    0xB0: "°",
    0xB1: "±",
    0xB3: "≥",
    0xB4: "×",
    0xB7: "•",
    0xD8: "➢",
    0xFC: "✓",
    0xFD: "☒",
    0xFE: "☑",
}
"""Codes that are used in Symbol or Wingdings alone, for fonts that stand for both."""
_PREFIX = re.compile(r"^[A-Z]{6}\+|[^A-Za-z0-9]")
_SYMBOL_FONT = re.compile(
    r"(?:itc)?(symbol|wingdings[23]?|webdings|zapfdingbats)(?:mt|ps|std|regular|normal|medium|bold|italic|oblique)*"
)
_SHARED_FONT = re.compile(r"(?:opensymbol|starsymbol|(?:cidfont|type3|font|tt|ft)?[a-z]?\d*)")
"""Names of the fonts by which office programs replace Symbol and Wingdings, and names that say nothing."""


@lru_cache(maxsize=1024)
def font_family(name: str) -> str:
    """Return the key in `SIGNS` of a font by its name; "" for one with letters.

    >>> font_family("ABCDEF+Wingdings-Regular"), font_family("SymbolMT"), font_family("Wingdings 2")
    ('wingdings', 'symbol', 'wingdings2')
    >>> font_family("Symbola"), font_family("Arial")
    ('', '')
    """
    match = _SYMBOL_FONT.fullmatch(_normalize(name))
    return match[1] if match else ""


def has_symbol_font(names: Iterable[str]) -> bool:
    """Return whether one of these fonts has pictures in the place of letters."""
    return any(map(font_family, names))


def replace_private_signs(layer: Layer, characters: str) -> str:
    """Write private characters of a layer as the signs that their fonts draw; those of others stay.

    The text keeps its length.
    """
    if not PRIVATE_SIGN.search(characters):
        return characters
    return PRIVATE_SIGN.sub(lambda match: _private_sign(layer.font_name(match.start()), match[0]), characters)


def replace_signs(layer: Layer, start: int, text: str, rects: Sequence[Sides]) -> str:
    """Write the letters of a word that fonts draw as signs as these.

    Args:
        layer: Its layer.
        start: Index of its first character there.
        text: The word.
        rects: Rectangles of the pieces of text that the page draws it with: each has one font.
    """
    if text[0] > LAST_LATIN and len(rects) == 1:
        return text
    if len(rects) == 1:
        family = font_family(layer.font_name(start))
        return "".join(_sign(family, letter) for letter in text) if family else text
    families = (font_family(layer.font_name(start + at)) for at in range(len(text)))
    return "".join(map(_sign, families, text))


def _normalize(name: str) -> str:
    return _PREFIX.sub("", name).lower()


def _private_sign(font_name: str, character: str) -> str:
    code = ord(character) - PRIVATE
    family = font_family(font_name)
    if family:
        sign = SIGNS[family][code - FIRST_CODE]
        return character if sign == " " else sign
    return SHARED_SIGNS.get(code, character) if _SHARED_FONT.fullmatch(_normalize(font_name)) else character


def _sign(family: str, letter: str) -> str:
    """Return what a font draws for a letter of a layer, by its code."""
    last = LAST_ASCII if family == "symbol" else LAST_LATIN
    if not family or not chr(FIRST_CODE) <= letter <= last:
        return letter
    sign = SIGNS[family][ord(letter) - FIRST_CODE]
    return letter if sign == " " else sign
