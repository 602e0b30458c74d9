"""Parts of web pages beside their text: styles, fields, tables, pictures, and what their file lacks."""
