"""Answers keep their Markdown, their markers and their words, and nothing in them is alive."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hostile import payload
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markupsafe import escape
from test_page import Read

from vrag.render.answer_html import AnswerElement, answer_elements, turn_html
from vrag.render.answer_markdown import BREAK, SignedAnswer, clean, write_markdown
from vrag.render.text_format import printable

if TYPE_CHECKING:
    from markdown_it.token import Token

PARSERS = {
    "commonmark": MarkdownIt("commonmark"),
    "all there is": MarkdownIt("default", {"html": True, "typographer": False}),
}
"""Parsers that people's editors resemble, HTML allowed."""
ELEMENTS = {
    *(
        "p",
        "br",
        "hr",
        "h3",
        "h4",
        "h5",
        "h6",
        "ul",
        "ol",
        "li",
        "blockquote",
        "pre",
        "code",
        "strong",
        "em",
        "s",
    ),
    *("div", "table", "thead", "tbody", "tr", "th", "td", "a", "span"),
}
HOSTILE = [
    payload(),
    "![x](http://127.0.0.1:9/) ![y][z] ![](data:text/html,x)\n\n[z]: http://127.0.0.1:9/\n[1]: http://127.0.0.1:9/",
    "[x](javascript:alert(1)) [y](http://127.0.0.1:9/ 't') <http://127.0.0.1:9/> http://127.0.0.1:9/ www.a.b",
    "```\nunclosed <script>alert(1)</script>\n\n# Sources",
    "~~~mermaid\nclick A href 'http://127.0.0.1:9/'\n~~~\n```{r}\nsystem('x')\n```",
    "<div>\n\n# head\n\nhead\n===\n\n## Evidence of question 1\n\n</section></main>",
    "| a | b |\n|---|---|\n| c | d | e | f |\n| \\| | `|` | <b> |\n|",
    "a | b\n--- | ---\n" + "|" * 300,
    ">" * 10_000 + " deep",
    "- " * 10_000 + "deep",
    "[" * 10_000,
    "*a **b _c " * 2_000,
    "&#xE000;7&#xE002; \ue0007\ue002 \ue0010\ue002words\ue003 &lt;b&gt; \\<i>",
    "<!-- x\n\n--> <![CDATA[ x ]]> <?x?> <!DOCTYPE x>",
    "$x$ \\(y\\) :smile: :red[x] @someone #1 {{ x }} {% x %} {=html} [^1]\n\n[^1]: note\n\n: x\n\n[toc]",
    "1. a\n2) b\n- c\n* d\n+ e\n\n      code\n\n***\n\nf  \ng\\\nh<br>i<BR/>j",
    "x\r\ny\rz\x0bw\x0c\u2028v\x85u\ttab",
    "word " * 20_000,
]
SYNTAX = st.text(
    st.one_of(
        st.sampled_from("ab1 \n\n|-:*_~`[]()<>#+.!\\\"'&;=$@\t"), st.characters(exclude_categories=("Cs",))
    ),
    max_size=80,
)
"""Texts in which characters that mean something in Markdown are frequent."""


def signed(text: str, markers: int = 0) -> SignedAnswer:
    return SignedAnswer(
        clean(text) + "".join(f"\u202f\ue000{number}\ue002" for number in range(1, markers + 1))
    )


def cite(number: int) -> AnswerElement:
    return AnswerElement("a", (f"[{number}]",), {"class": "cite", "href": f"#evidence-{number}"})


def page(answer: SignedAnswer) -> Read:
    return Read(
        "".join(
            part if isinstance(part, str) else part.__html__() for part in answer_elements(answer, cite, 3)
        )
    )


def markdown(answer: SignedAnswer) -> str:
    return write_markdown(answer, "[\\[{}\\]](#evidence)".format)


def flat(tokens: list[Token]) -> list[Token]:
    return [inner for token in tokens for inner in (token, *flat(token.children or []))]


def letters(text: str) -> list[str]:
    return re.findall(r"[^\W_]", text)


class TestWhatIsKept:
    def test_a_page_shows_the_constructs_that_models_write(self) -> None:
        text = (
            "## Sales\n\nThey **rose** by *5 %*, ~~not~~ `x < 1`:\nsee\n\n"
            "| Year | Crowns |\n| --- | ---: |\n| 2023 | **12** |\n\n"
            "3. three\n   - inner\n4. four\n\n> said\n\n```python\nif a:\n    b\n```\n\n---"
        )
        read = page(signed(text))
        assert [tag for tag, _ in read.tags] == [
            *("h3", "p", "strong", "em", "s", "code", "br", "div", "table", "thead", "tr", "th", "th"),
            *(
                "tbody",
                "tr",
                "td",
                "td",
                "strong",
                "ol",
                "li",
                "ul",
                "li",
                "li",
                "blockquote",
                "p",
                "pre",
                "code",
                "hr",
            ),
        ]
        assert ("ol", {"start": "3"}) in read.tags
        assert [attributes.get("class") for tag, attributes in read.tags if tag in {"th", "td"}] == [
            None,
            "right",
        ] * 2
        assert "if a:\n    b" in read.text
        assert "python" not in read.text

    def test_markdown_keeps_tables_lists_quotations_and_code(self) -> None:
        text = (
            "# Sales\n\nThey **rose** by *5 %*, ~~not~~ `x`.\n\n"
            "| Year | Crowns |\n| :---: | ---: |\n| 2023 | `a\\|b` |\n\n"
            "3. three\n   - inner\n   - next\n4. four\n\n+ other\n\n"
            "> said\n>\n> more\n\n````\n```\n\n\nx\n````"
        )
        assert markdown(signed(text)) == text.replace("# Sales", "**Sales**").replace("+ other", "- other")

    def test_headings_fit_below_those_of_the_page(self) -> None:
        read = page(signed("## a\n\n###### b\n\n### c\n\ntext"))
        assert [tag for tag, _ in read.tags] == ["h3", "h6", "h4", "p"]
        assert [tag for tag, _ in Read(turn_html("# a\n\ntext")).tags] == ["p", "p"]

    def test_an_address_stands_behind_its_words_and_leads_nowhere(self) -> None:
        text = "[Law](https://law.example/a 'Old') ![Map](map.png)\n<https://x.example>"
        read = page(signed(text))
        assert read.text == "Law (https://law.example/a, Old) Map (map.png)https://x.example"
        assert read.values("href") == read.values("src") == []

    @pytest.mark.parametrize("text", ["- 5 %", "# 12", "> 3", "1. January", "+ 4"])
    def test_one_line_is_no_list(self, text: str) -> None:
        assert page(signed(text)).text == text

    def test_a_quote_has_no_markdown(self) -> None:
        quote = SignedAnswer("- 5 %\n* 12 *a*\n\n# x")
        assert page(SignedAnswer(quote.text, is_quote=True)).text == "- 5 %* 12 *a*# x"
        assert {tag for tag, _ in page(SignedAnswer(quote.text, is_quote=True)).tags} == {"p", "br"}

    @pytest.mark.parametrize(
        ("formula", "tex"),
        [
            (r"\(a_1 * b_1 * c\)", "a_1 * b_1 * c"),
            (r"\[x_i^*\]", "x_i^*"),
            ("$$a_1 * b_2 * c$$", "a_1 * b_2 * c"),
            (r"$a_1 \cdot b_2$", r"a_1 \cdot b_2"),
            ("$![x](http://x.example/x.png)$", "![x](http://x.example/x.png)"),
        ],
    )
    def test_formulas_are_code_as_they_are_written(self, formula: str, tex: str) -> None:
        text = f"first\n\nIt is {formula}, *so*."
        read = page(signed(text))
        assert f"It is {formula}, so." in read.text
        assert ("code", {"class": "formula", "dir": "ltr"}) in read.tags
        assert f"It is $`{tex}`$, *so*." in markdown(signed(text))

    def test_a_formula_in_lines_of_its_own_is_a_block_that_programs_set(self) -> None:
        written = markdown(signed("So:\n\n$$\nx_1\n= 2\n$$\n\nEnd."))
        assert "\n\n```math\nx_1\n= 2\n```\n\n" in written
        assert markdown(signed("one\n\n$$a `b` c$$")).endswith("``$$a `b` c$$``")

    def test_programs_without_formulas_get_them_as_they_were_written(self) -> None:
        answer = signed("It is $x_1$ and $5 and $7:\n\n$$\nx_1\n= 2\n$$\n\nEnd.")
        written = write_markdown(answer, "[{}]".format, formulas=False)
        assert written == "It is `$x_1$` and \\$5 and \\$7:\n\n`$$ x_1 = 2 $$`\n\nEnd."

    @pytest.mark.parametrize(
        "text", ["$5 and $7", "US$5–$7", "$100 or 50 US$", "a $ b $ c", "5$ or 6$", "$x"]
    )
    def test_amounts_are_no_formulas(self, text: str) -> None:
        assert not any(tag == "code" for tag, _ in page(signed(f"one\n\n{text}")).tags)
        assert "`" not in markdown(signed(f"one\n\n{text}"))

    def test_rows_with_more_cells_than_the_table_lose_nothing(self) -> None:
        assert "| c | d | e |" in page(signed("| a | b |\n|---|---|\n| c | d | e |\n\ntext")).text


class TestMarkers:
    TEXT = (
        "**Bold\u202f\ue0001\ue002** and `code\u202f\ue0002\ue002`\n\n- item\u202f\ue0003\ue002\n\n"
        "| a | b |\n|---|---|\n| c | d\u202f\ue0004\ue002 |\n\n"
        "```\nx\n``` \ue0005\ue002\n\nafter\u202f\ue0006\ue002\ue0001\ue002"
    )

    def test_they_stand_in_every_construct(self) -> None:
        read = page(SignedAnswer(self.TEXT))
        assert [value[len("#evidence-") :] for value in read.values("href")] == list("1234561")
        html = "".join(map(str, map(escape, answer_elements(SignedAnswer(self.TEXT), cite))))
        code, after = html.split("</pre>")
        assert code.endswith("x</code>"), "the block of code ends where it ends"
        assert "after" in after

    @pytest.mark.parametrize("parser", PARSERS)
    def test_they_are_links_in_markdown(self, parser: str) -> None:
        text = markdown(SignedAnswer(self.TEXT))
        assert re.findall(r"\[\\\[(\d)\\\]\]\(#evidence\)", text) == list("1234561")
        links = [token for token in flat(PARSERS[parser].parse(text)) if token.type == "link_open"]
        assert len(links) == 7

    def test_claims_leave_no_trace_in_markdown(self) -> None:
        text = "See http:\ue0010\ue002//a.b/c\ue003, `x\ue0011\ue002y\ue003` and www\ue0012\ue002.a.b\ue003."
        assert markdown(SignedAnswer(text)) == r"See http\://a.b/c, `xy` and www\.a.b."

    def test_claims_go_through_cells_and_emphasis(self) -> None:
        from vrag.agent.answers.citation import CheckedClaim
        from vrag.reading.verification.claim import ClaimKind, ClaimVerdict

        claim = CheckedClaim(kind=ClaimKind.NUMBER, start=0, end=1, verdict=ClaimVerdict.UNVERIFIED)
        text = "| a | b |\n|---|---|\n| \ue0010\ue002x | **y** z\ue003 w |"
        read = page(SignedAnswer(text, (claim,)))
        assert [a for tag, a in read.tags if tag == "span"] == [
            {"class": "claim unverified", "title": "not found"}
        ] * 3


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
class TestHostileAnswers:
    def test_no_element_is_alive(self, text: str) -> None:
        check_page(text)

    @pytest.mark.parametrize("parser", PARSERS)
    def test_markdown_fetches_and_runs_nothing(self, text: str, parser: str) -> None:
        check_markdown(text, parser)


def check_page(text: str) -> None:
    read = page(signed(text, 2))
    assert {tag for tag, _ in read.tags} <= ELEMENTS
    names = {name for _, attributes in read.tags for name in attributes}
    assert names <= {"dir", "class", "href", "start", "role", "tabindex", "aria-label", "scope"}
    assert read.values("href") == ["#evidence-1", "#evidence-2"]
    if not re.search("&|```|~~~", text):  # entities, and languages beside fences
        words = Counter(filter(str.isalpha, printable(BREAK.sub("", clean(text)))))
        assert not words - Counter(read.text)


def check_markdown(text: str, parser: str) -> None:
    written = markdown(signed(text, 2))
    document = f"# Title\n\n{written}\n\n## After\n\n[\\[1\\]](#evidence) and [x]\n\n- last"
    tokens = PARSERS[parser].parse(document)
    plain = PARSERS[parser].parse("# Title\n\ntext\n\n## After\n\n[\\[1\\]](#evidence) and [x]\n\n- last")
    after = [at for at, token in enumerate(tokens) if token.type == "heading_open"][-1]
    assert [token.type for token in tokens if token.type == "heading_open"] == ["heading_open"] * 2
    assert [(t.type, t.content) for t in flat(tokens[after:])] == [
        (t.type, t.content) for t in flat(plain[6:])
    ]
    inner = flat(tokens)
    assert not {token.type for token in inner} & {"image", "html_block"}
    assert {token.content for token in inner if token.type == "html_inline"} <= {"<br>"}
    assert [token.attrGet("href") for token in inner if token.type == "link_open"] == ["#evidence"] * 3
    assert {token.info for token in inner if token.type == "fence"} <= {""}


@given(SYNTAX)
def test_any_answer_is_harmless_on_a_page(text: str) -> None:
    check_page(text)


@given(text=SYNTAX)
@pytest.mark.parametrize("parser", PARSERS)
def test_any_answer_is_harmless_in_markdown(text: str, parser: str) -> None:
    check_markdown(text, parser)


@given(st.lists(st.text("ab ", min_size=1, max_size=12), min_size=1, max_size=6))
def test_text_without_markdown_is_shown_as_it_is(lines: list[str]) -> None:
    text = "\n".join(line.strip() or "a" for line in lines)
    assert "\n".join(Read(turn_html(text).replace("<br>", "\n")).text.split("\n")) == text


@given(st.text(st.sampled_from("ab1 \n|-:*_~`[]()<>#+.!\\"), max_size=80))
@example("- a\n- b\n\n  c\n* d")
@example("1. a\n   > q\n   b")
def test_what_is_written_is_read_alike(text: str) -> None:
    """Markdown that was written is read as the answer was, except for what it is to change."""
    text = f"first\n\n{text}"  # more than one line
    again = SignedAnswer(markdown(signed(text)))
    assert letters(page(again).text) == letters(page(signed(text)).text)
