"""Objects built from the settings: sessions, agents, searchers, embedders, the server.

It is the only package that knows how the parts fit together. A command imports the modules that it needs.
"""
