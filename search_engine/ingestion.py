"""Index the pictures of the corpus: `python search_engine/ingestion.py [OPTIONS OF vrag index add]`."""

from vrag.compat.scripts import index_corpus

if __name__ == "__main__":
    index_corpus()
