#!/bin/sh
# Trains Qwen2.5-VL-7B by GRPO on one node of 8 GPUs, with the settings of the reference, on stock verl.
#
#   ./train_grpo_qwen2_5_vl_7b.sh [--help] [SETTINGS OF VERL …]      trainer.total_epochs=3
#
# Variables: MODEL_PATH, TRAIN_FILE, VAL_FILE, SEARCH_URL, JUDGE_URL, JUDGE_MODEL, AGENT (vrag or vimrag),
# ATTENTION (sdpa or flash_attention_2; otherwise by what is installed), DRY_RUN=1 (up to the first call of CUDA),
# PYTHON (an interpreter that has verl, vLLM and this package; .venv/verl/bin/python where that exists).
# Keys are read from VRAG_JUDGE_KEY and VRAG_SEARCH_KEY by the program itself, and are never printed.
set -eu
cd "$(dirname "$0")"

if [ "${1:-}" = --help ] || [ "${1:-}" = -h ]; then
	sed -n '2,10s/^# \{0,1\}//p' "$0"
	exit 0
fi

if [ -z "${PYTHON:-}" ]; then
	if [ -x .venv/verl/bin/python ]; then PYTHON=.venv/verl/bin/python; else PYTHON=python3; fi
fi
TRAIN_FILE=${TRAIN_FILE:-data/train.parquet}
VAL_FILE=${VAL_FILE:-data/validation.parquet}

missing=0
need() { # what is missing, what to do
	echo "Missing: $1" >&2
	echo "  → $2" >&2
	missing=1
}

command -v "$PYTHON" >/dev/null || need "the interpreter $PYTHON" "name one: PYTHON=/path/to/python"
for file in "$TRAIN_FILE" "$VAL_FILE"; do
	[ -f "$file" ] || need "$file" "make it: vrag data convert, or name another: TRAIN_FILE, VAL_FILE"
done
if command -v "$PYTHON" >/dev/null; then
	for package in vrag verl; do
		"$PYTHON" -c "import importlib.util as u, sys; sys.exit(u.find_spec('$package') is None)" 2>/dev/null ||
			need "the package $package in $PYTHON" "in an environment of its own: pip install 'vrag-agent[verl]'"
	done
fi
[ -n "${JUDGE_URL:-}" ] || echo "JUDGE_URL is not set: answers are compared by rules, not judged by a model." >&2
[ "$missing" = 0 ] || exit 1

# The overrides come last, so that they win.
[ "${DRY_RUN:-}" != 1 ] || set -- --dry-run "$@"
set -- "$PYTHON" -m vrag train verl qwen2_5_vl_7b --agent "${AGENT:-vrag}" \
	--data "$TRAIN_FILE" --validation "$VAL_FILE" --search-url "${SEARCH_URL:-http://127.0.0.1:8001}" \
	${MODEL_PATH:+--model "$MODEL_PATH"} ${JUDGE_URL:+--judge-url "$JUDGE_URL"} \
	${JUDGE_MODEL:+--judge-model "$JUDGE_MODEL"} ${ATTENTION:+--attention "$ATTENTION"} "$@"
exec "$@"
