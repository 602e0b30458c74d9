"""Has each process of a mutation study, also those that tests start, load marked or changed modules."""

import os

if os.environ.get("PYTHON_MUTATION"):
    import mutants

    mutants.install()
