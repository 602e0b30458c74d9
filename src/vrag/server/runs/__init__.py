"""Runs over HTTP: started, followed by as many as like, stopped, found again."""
