"""The state that a server keeps over a restart: browser sessions, uploads, the model chosen on the page."""
