"""Try whether the embedder loads: `python search_engine/vl_embedding.py [OPTIONS OF vrag match]`."""

from vrag.compat.scripts import try_embedder

if __name__ == "__main__":
    try_embedder()
