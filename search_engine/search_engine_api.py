"""Serve search on port 8001: `python search_engine/search_engine_api.py [OPTIONS OF vrag serve]`."""

from vrag.compat.scripts import serve_search

model_path = ""  # folder or name of the embedder; empty for the one that the indexes were made with
corpus_path: list[str] = []  # such as ["search_engine/corpus/image_index"]; empty for all of them

if __name__ == "__main__":
    serve_search(model_path, corpus_path)
