#!/usr/bin/env bash
# Sets up what it needs and shows the sample documents. No GPU, key or download of a model.
#   ./run_demo.sh                      the sample question, answered in the terminal
#   ./run_demo.sh "Another question?"  your own question about the sample documents
#   ./run_demo.sh page                 a page to ask and watch on, at http://127.0.0.1:8000, until Ctrl-C
#   ./run_demo.sh search               a search server over the sample documents, on port 8001, until Ctrl-C
#   ./run_demo.sh vrag ["Question?"]   the page with the agent of one conversation; with a question, its answer here
#   ./run_demo.sh vimrag ["Question?"] the same with the agent that has a memory graph
# The model is the first of these that there is:
#   1. what VRAG_MODEL and VRAG_BASE_URL name;
#   2. with `vrag`, where the command `vllm` (or VLLM) and an NVIDIA GPU of 20 GiB are there: MODEL_PATH
#      (autumncc/Qwen2.5-VL-7B-VRAG), which vLLM serves on MODEL_PORT (8002) until the end;
#   3. with DASHSCOPE_API_KEY: qwen3.5-plus;
#   4. none: questions are answered without a model.
set -euo pipefail
cd "$(dirname "$0")"

python=${PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "Python 3.11 or newer is needed; $python is $("$python" --version 2>&1 || echo missing). Set PYTHON=/path/to/python3.11." >&2
    exit 1
fi
ready=no
if [ -x .venv/bin/vrag ]; then
    if [ -e .venv/dev ] || [ .venv/base -nt requirements.lock ]; then ready=yes; fi
fi
if [ "$ready" = no ]; then
    echo "Setting up .venv (once, a few minutes) …" >&2
    if ! "$python" -m venv .venv; then
        echo "On Debian and Ubuntu: apt-get install python3-venv" >&2
        exit 1
    fi
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps .
    touch .venv/base
fi
case "${1:-}" in
page | search | vrag | vimrag)
    what=$1
    shift
    ;;
*)
    status=0
    .venv/bin/vrag demo "${@:-How many passengers travelled on the line from Orla to Saltby in 2024?}" || status=$?
    if [ "$(command -v vrag)" != "$PWD/.venv/bin/vrag" ]; then
        echo "To use vrag in this terminal, first: source $PWD/.venv/bin/activate" >&2
    fi
    exit "$status"
    ;;
esac
if [ "$what" = search ]; then
    exec .venv/bin/vrag demo --only search "$@"
fi
if [ "$what" = page ]; then
    exec .venv/bin/vrag demo "$@"
fi
exec .venv/bin/python tools/demo_agent.py "$what" "$@"
