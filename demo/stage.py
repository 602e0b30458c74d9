"""The page of both demos: settings at the side, a question, and the run as it goes on."""

from __future__ import annotations

import os
import socket
import time
from typing import Any, Literal
from urllib.parse import urlsplit

import streamlit as st
from running import Running
from scenes import draw_run

from vrag.errors import SettingsError
from vrag.providers import DASHSCOPE, reachable
from vrag.settings import Settings, load_settings

__all__ = ["page"]

SEARCH_URL = "http://localhost:8001/search"
MODEL = "qwen3.5-plus"
STEPS, HITS = 20, 3
EXAMPLE = "How many passengers travelled on the line from Orla to Saltby in 2024?"
PACE = 0.5
"""Seconds from one drawing of a run to the next."""
START = "./run_demo.sh search"
STYLE = """<style>
.stMainBlockContainer { padding-top: 3.5rem; }
.st-key-said .stText * { font-size: 1.4rem; line-height: 1.4; }
.st-key-figures [data-testid="stMetricValue"] { font-size: 1.15rem; }
[class*="st-key-done-"] .stText * { opacity: 0.75; font-size: 0.9rem; }
</style>"""
"""Sizes; nothing that comes from a run is in it."""


def page(agent: Literal["vrag", "vimrag"], title: str, about: str) -> None:
    """Draws a demo.

    Args:
        agent: How questions are answered.
        title: Of the page.
        about: What this agent does, in a sentence or two.
    """
    st.set_page_config(page_title=title, page_icon="🔎", layout="wide")
    st.html(STYLE)
    st.title(title)
    st.markdown(about)
    try:
        settings = _sidebar(agent)
    except SettingsError as error:
        _complain("These settings cannot be used.", str(error))
        st.stop()
    with st.form("ask", border=False):
        wide, narrow = st.columns((9, 1), vertical_alignment="bottom")
        question = wide.text_input("Question", placeholder="What do you want to know?")
        asked = narrow.form_submit_button("Ask", type="primary", width="stretch")
    example = st.empty()
    if asked:
        _begin(question, settings)
    if "run" not in st.session_state and example.button(EXAMPLE, help="To the sample documents."):
        example.empty()
        _begin(EXAMPLE, settings)
    run: Running | None = st.session_state.get("run")
    if run is None:
        return
    if run.over:
        _draw(run)
    else:
        st.fragment(_follow, run_every=PACE)(run)


def _sidebar(agent: str) -> Settings:
    """The settings that are chosen at the side; those not shown there are as everywhere.

    Raises:
        SettingsError: If they cannot be used.
    """
    usual = load_settings().settings
    known = bool(usual.model or os.environ.get("DASHSCOPE_API_KEY"))
    with st.sidebar:
        without_model = st.toggle(
            "Without a model",
            not known,
            help="Finds short answers, and places that may answer; no key, no network.",
        )
        st.caption(
            "Quotes what it finds; no key, no network." if without_model else "A model looks and answers."
        )
        base_url = st.text_input("Base URL", usual.base_url or DASHSCOPE, disabled=without_model)
        model = st.text_input("Model", usual.model or MODEL, disabled=without_model)
        key = st.text_input(
            "API key", type="password", disabled=without_model, help="Kept in this session alone."
        )
        thinking = st.toggle(
            "Thinking", disabled=without_model, help="The model thinks apart from its reply."
        )
        search_url = st.text_input(
            "Search URL", usual.search_url or SEARCH_URL, help="Empty: the collection of this machine."
        )
        steps = st.number_input("Max steps", 1, 200, usual.max_steps or STEPS)
        hits = st.number_input("Top-k", 1, 100, usual.hits or HITS, help="Hits of a search.")
    chosen: dict[str, Any] = {
        "agent": agent,
        "search_url": search_url.strip(),
        "max_steps": int(steps),
        "hits": int(hits),
        "thinking": "on" if thinking and not without_model else usual.thinking,
    }
    if search_url.strip() != usual.search_url:
        chosen["search_key"] = ""  # the key of the owner is for the server that the owner named
    if without_model:
        return load_settings(**chosen, model="", base_url="").settings
    if not key and base_url.strip() not in {usual.base_url, DASHSCOPE}:
        key = "EMPTY"  # likewise
    return load_settings(
        **chosen, model=model.strip(), base_url=base_url.strip(), model_key=key or None
    ).settings


def _begin(question: str, settings: Settings) -> None:
    """Starts a run in the place of the one before."""
    before: Running | None = st.session_state.pop("run", None)
    if before is not None:
        before.stop()
    if not question.strip():
        st.warning("The question is empty.")
    elif settings.search_url and not _answers(settings.search_url):
        _complain("The search server cannot be reached.", settings.search_url)
        st.markdown("This starts one over the sample documents:")
        st.code(START, language=None)
        st.markdown("Or leave the search URL empty: then the collection of this machine is searched.")
    else:
        st.session_state["run"] = Running(question, settings)


def _answers(url: str) -> bool:
    """Whether something listens there."""
    try:
        parts = urlsplit(reachable(url))
        place = (parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
        with socket.create_connection(place, timeout=2):
            return True
    except (OSError, ValueError):
        return False


def _follow(run: Running) -> None:
    """Draws a run as far as it has come; at its end the whole page once more, which then rests."""
    if run.over:
        st.rerun()
    _draw(run)


def _draw(run: Running) -> None:
    with st.chat_message("user", avatar=":material/person:"):
        st.text(run.question)
    if run.fault is not None:
        _complain("There is no answer.", str(run.fault))
    elif not run.events:
        st.caption("Opening …")
    elif run.over:
        draw_run(run)
    else:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.button("Stop", on_click=run.stop, icon=":material/stop_circle:")
            st.caption(f"Step {run.events[-1].step}, {time.time() - run.events[0].ts:.0f} s")
        draw_run(run)


def _complain(what: str, why: str) -> None:
    """Says what is wrong. The reason may hold text of others, which is shown as it is."""
    st.error(what)
    st.text(why)
