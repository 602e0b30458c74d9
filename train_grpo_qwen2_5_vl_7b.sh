#!/bin/sh
# Trains Qwen2.5-VL-7B by GRPO on one node of 8 GPUs, with the settings of the reference, on stock verl.
#
#   ./train_grpo_qwen2_5_vl_7b.sh [--help] [SETTINGS OF VERL …]      trainer.total_epochs=3
#
# Variables: MODEL_PATH, TRAIN_FILE, VAL_FILE, SEARCH_URL, JUDGE_URL, JUDGE_MODEL, AGENT (vrag or vimrag),
# CHECK=1 (only check, by vrag train doctor), PYTHON (an interpreter that has verl, vLLM and this package;
# .venv/verl/bin/python where that exists).
# Keys are read from VRAG_JUDGE_KEY and VRAG_SEARCH_KEY by the program itself, and are never printed.
set -eu
cd "$(dirname "$0")"

if [ "${1:-}" = --help ] || [ "${1:-}" = -h ]; then
	sed -n '2,9s/^# \{0,1\}//p' "$0"
	exit 0
fi

if [ -z "${PYTHON:-}" ]; then
	if [ -x .venv/verl/bin/python ]; then PYTHON=.venv/verl/bin/python; else PYTHON=python3; fi
fi
[ -n "${JUDGE_URL:-}" ] || echo "JUDGE_URL is not set: answers are compared by rules, not judged by a model." >&2

# The settings of the command line come last, so that they win.
set -- "agent=${AGENT:-vrag}" "data.train_files='${TRAIN_FILE:-data/train.parquet}'" \
	"data.val_files='${VAL_FILE:-data/validation.parquet}'" \
	"vrag.search_url='${SEARCH_URL:-http://127.0.0.1:8001}'" \
	${MODEL_PATH:+"actor_rollout_ref.model.path='$MODEL_PATH'"} \
	${JUDGE_URL:+vrag.judge.kind=endpoint "vrag.judge.base_url='$JUDGE_URL'"} \
	${JUDGE_MODEL:+"vrag.judge.model='$JUDGE_MODEL'"} "$@"
"$PYTHON" -m vrag train doctor qwen2_5_vl_7b "$@" || exit 1
[ "${CHECK:-}" != 1 ] || exit 0
exec "$PYTHON" -m verl.trainer.main_ppo --config-path pkg://vrag.rl.configs --config-name qwen2_5_vl_7b "$@"
