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
#   4. none: the offline policy answers.
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
    echo "Setting up .venv (once, about a minute) …" >&2
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
    exec .venv/bin/vrag demo "${@:-How many passengers travelled on the line from Orla to Saltby in 2024?}"
    ;;
esac
if [ "$what" = search ]; then
    exec .venv/bin/vrag demo --only search "$@"
fi
checkpoint=${MODEL_PATH:-autumncc/Qwen2.5-VL-7B-VRAG}
size="about 17 GB"
least_mib=20000 # its weights, and room for some pages
vllm=${VLLM:-vllm}
port=${MODEL_PORT:-8002}
log=.venv/vllm.log
server=
child=

# Why vLLM cannot be started here; nothing where it can.
why_no_vllm() {
    if ! command -v nvidia-smi >/dev/null; then
        echo "there is no NVIDIA GPU (no nvidia-smi)"
    elif ! memory=$(nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits 2>/dev/null) || [ -z "$memory" ]; then
        echo "nvidia-smi finds no GPU"
    elif largest=$(grep -xE '[0-9]+' <<<"$memory" | sort -n | tail -n 1) && [ "$largest" -lt "$least_mib" ]; then
        echo "no GPU has $least_mib MiB of memory: $(paste -sd ' ' <<<"$memory") MiB"
    elif ! command -v "$vllm" >/dev/null; then
        echo "vLLM is not installed (in an environment of its own: pip install vllm; then VLLM=/path/to/vllm)"
    fi
}

# The names of the models that are served on the port, one a line; fails where nobody answers.
served_models() {
    .venv/bin/python - "http://127.0.0.1:$port/v1/models" 2>/dev/null <<'PYTHON'
import json, sys, urllib.request

opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
with opener.open(sys.argv[1], timeout=5) as answer:
    print(*(model["id"] for model in json.load(answer)["data"]), sep="\n")
PYTHON
}

stop_server() {
    [ -n "$server" ] || return 0
    echo "Stopping vLLM …" >&2
    kill -TERM -- "-$server" 2>/dev/null || true
    for _ in $(seq 100); do
        kill -0 -- "-$server" 2>/dev/null || return 0
        sleep 0.2
    done
    kill -KILL -- "-$server" 2>/dev/null || true
}

# Passes a signal on to the program in front, or ends where there is none.
interrupt() {
    if [ -n "$child" ]; then kill "-$1" "$child" 2>/dev/null || true; else exit $((128 + $2)); fi
}

start_vllm() {
    if [ -d "$checkpoint" ]; then
        echo "vLLM serves $checkpoint on port $port." >&2
    else
        echo "vLLM serves $checkpoint on port $port. It is downloaded if it is not on this machine: $size." >&2
    fi
    trap stop_server EXIT
    trap 'interrupt INT 2' INT
    trap 'interrupt TERM 15' TERM
    trap 'interrupt HUP 1' HUP
    set -m # a process group of its own: Ctrl-C reaches it by stop_server alone
    "$vllm" serve "$checkpoint" --host 127.0.0.1 --port "$port" --served-model-name Qwen/Qwen2.5-VL-7B-Instruct \
        --max-model-len 32768 --limit-mm-per-prompt '{"image": 12}' >"$log" 2>&1 </dev/null &
    server=$!
    set +m
    seconds=0
    until served_models | grep -qxF Qwen/Qwen2.5-VL-7B-Instruct; do
        if ! kill -0 "$server" 2>/dev/null; then
            echo "vLLM ended before it answered; the last lines of $log:" >&2
            tail -n 20 "$log" >&2
            exit 1
        fi
        if [ $((seconds % 10)) = 0 ]; then echo "Waiting for vLLM ($seconds s): $(tail -n 1 "$log" | cut -c 1-120)" >&2; fi
        sleep 1
        seconds=$((seconds + 1))
    done
}

# Runs a command in front until it ends, signals included, and exits with its status.
run_in_front() {
    set -m
    "$@" &
    child=$!
    set +m
    status=0
    wait "$child" || status=$?
    while kill -0 "$child" 2>/dev/null; do # a signal came meanwhile, and was passed on
        status=0
        wait "$child" || status=$?
    done
    child=
    exit "$status"
}

# From a variable, or from a settings file.
named=$(.venv/bin/vrag config show --json |
    .venv/bin/python -c 'import json, sys; print(json.load(sys.stdin)["model"]["value"])')
if [ "$what" = vrag ] && [ -z "$named${VRAG_BASE_URL:-}" ]; then
    if model=$(served_models) && grep -qxF Qwen/Qwen2.5-VL-7B-Instruct <<<"$model"; then
        echo "The model server on port $port is used." >&2
    elif why=$(why_no_vllm) && [ -n "$why" ]; then
        echo "vLLM is not started: $why." >&2
        port=
    else
        start_vllm
    fi
    if [ -n "$port" ]; then
        named=Qwen/Qwen2.5-VL-7B-Instruct
        export VRAG_MODEL="$named" VRAG_BASE_URL="http://127.0.0.1:$port/v1"
    fi
fi
if [ -z "$named" ] && [ -n "${DASHSCOPE_API_KEY:-}" ]; then
    named=qwen3.5-plus
    export VRAG_MODEL="$named"
fi
if [ -z "$named" ]; then
    echo "No model is named (VRAG_MODEL and VRAG_BASE_URL, or DASHSCOPE_API_KEY): the offline policy answers." >&2
fi
if [ "$what" = page ]; then
    exec .venv/bin/vrag demo "$@"
fi
if [ -n "$server" ]; then
    run_in_front .venv/bin/vrag demo --agent "$what" "$@"
fi
exec .venv/bin/vrag demo --agent "$what" "$@"
