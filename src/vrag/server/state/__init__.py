"""What a server keeps over a restart: sessions of browsers, uploads, the model chosen on the page."""
