"""The HTTP server: search, items, runs, collections, the OpenAI and MCP interfaces, and the web page.

Authentication, limits, metrics and logs stand in front of all of them.
"""
