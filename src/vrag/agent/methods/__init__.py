"""The methods VRAG, VimRAG, RAG and ReAct, and how they present a question and its history."""
