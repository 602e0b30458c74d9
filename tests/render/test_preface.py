"""A page tells what was said before its question, and shows the pictures that came with it."""

from __future__ import annotations

import hashlib

import pytest
from hostile import hostile, payload
from sample_runs import Telling, drawn_page, jpeg, vimrag_run, vrag_run
from test_page import Read

from vrag.agent.events import RunStarted
from vrag.agent.question import PreviousTurn
from vrag.render.run_page import RunPage, render

SAID = (PreviousTurn("How many in 2023?", "57,100 passengers."), PreviousTurn("And in 2022?", None))
PICTURES = tuple(jpeg(drawn_page(title)) for title in ("First", "Second"))
HASHES = tuple(hashlib.sha256(data).hexdigest() for data in PICTURES)


def page(run: Telling, **changes: object) -> RunPage:
    """The page of the run with another beginning."""
    first = run.events[0]
    assert isinstance(first, RunStarted)
    files = run.files | dict(zip(HASHES, PICTURES, strict=True))
    return render([first.model_copy(update=changes), *run.events[1:]], files.get)


@pytest.mark.parametrize("run", [vrag_run(), vimrag_run()], ids=["vrag", "vimrag"])
def test_earlier_exchanges_stand_above_the_question_and_its_pictures_below(run: Telling) -> None:
    html = page(run, history=SAID, attached=HASHES).html
    assert isinstance(run.events[0], RunStarted)
    places = [
        html.index("Follows on 2 earlier questions"),
        html.index("How many in 2023?"),
        html.index("57,100 passengers."),
        html.index("And in 2022?"),
        html.index("There was no answer."),
        html.index("<h1"),
        html.index("Picture 1 that came with the question"),
        html.index("Picture 2 that came with the question"),
        html.index('id="answer"'),
    ]
    assert places == sorted(places)


@pytest.mark.parametrize("run", [vrag_run(), vimrag_run()], ids=["vrag", "vimrag"])
def test_notices_about_the_run_stand_before_its_answer(run: Telling) -> None:
    notice = "The family of <the model> is not known: crops may show the wrong place."
    done = page(run, notices=(notice,))
    assert notice in Read(done.html).text
    assert done.html.index("crops may show") < done.html.index('id="answer"')
    assert 'class="notices"' not in page(run).html


def test_a_question_alone_has_neither() -> None:
    html = page(vrag_run()).html
    assert "Follows on" not in html
    assert "came with the question" not in html


def test_own_pictures_are_in_the_page_once_and_count_among_its_pictures() -> None:
    alone, with_them = page(vrag_run()), page(vrag_run(), attached=(*HASHES, HASHES[0]))
    assert with_them.pictures == alone.pictures + 2
    assert with_them.absent == 0
    ids = Read(with_them.html).values("id")
    assert len(ids) == len(set(ids))


def test_an_own_picture_that_is_gone_leaves_a_note() -> None:
    told = page(vrag_run(), attached=("ab" * 32, "../../secret"))
    assert told.absent == 2
    assert Read(told.html).text.count("The picture is not among the files of the run.") >= 2


@pytest.mark.parametrize(("count", "tag"), [(3, "div"), (4, "details")])
def test_a_long_conversation_is_folded_up(count: int, tag: str) -> None:
    read = Read(page(vrag_run(), history=SAID[:1] * count).html)
    assert [name for name, attributes in read.tags if attributes.get("class") == "history"] == [tag]


def test_hostile_words_of_earlier_exchanges_stay_words() -> None:
    run, text = vrag_run(), payload()
    first = run.events[0].model_copy(update={"history": SAID, "attached": HASHES})
    html = render([hostile(first, text), *run.events[1:]], run.files.get).html
    read = Read(html)
    assert not {tag for tag, _ in read.tags} & {"script", "iframe", "img", "base", "object"}
    assert not any(name.startswith("on") for _, attributes in read.tags for name in attributes)
    assert read.text.count("PWNED") >= 3
