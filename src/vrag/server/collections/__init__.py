"""Collections, their documents and what is uploaded, over HTTP."""
