"""Files become items."""
