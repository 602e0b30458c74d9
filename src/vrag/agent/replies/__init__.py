"""Model replies: the grammars of tags and tool calls, and the repair of damaged ones."""
