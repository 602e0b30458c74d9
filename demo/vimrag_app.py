"""The VimRAG demo: `streamlit run demo/vimrag_app.py`."""

from stage import page

page(
    "vimrag",
    "VimRAG",
    "An agent with a memory: what it searched becomes a graph, what was useful is remembered in pictures, "
    "and the answer rests on its nodes.",
)
