"""HTTP in front of the routes: authentication, limits, errors, headers, threads, and the uvicorn server."""
