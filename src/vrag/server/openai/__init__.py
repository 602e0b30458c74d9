"""The OpenAI interface to runs: `/v1/models`, `/v1/chat/completions`."""
