"""The multimodal memory graph of VimRAG and the budget of pixels that it shares out."""
