"""HTTP around every route: authentication, limits, errors, headers, start and end."""
