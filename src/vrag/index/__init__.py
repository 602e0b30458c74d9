"""Items become a durable table, and what is derived from it."""
