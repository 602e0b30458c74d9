"""The VRAG demo: `streamlit run demo/app.py`."""

from stage import page

page(
    "vrag",
    "VRAG",
    "An agent that answers by looking: it searches pages, crops what is too small to read, and answers. "
    "Every step shows what it saw.",
)
