#!/usr/bin/env bash
# What all runs of the study begin with: documents, questions, and a model that knows the form and can search.
#
#   benchmarks/credit/prepare.sh OUT          VRAG=… names the command
set -euo pipefail
out=${1:?where is the study to be made?}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
read -ra vrag <<<"${VRAG:-vrag}"
mkdir -p "$out/prepared" && cd "$out/prepared"
test -e corpus/train.json || "${vrag[@]}" data synthesize corpus --template emblem_pair \
	--documents 25 --pages 4 --words 10 --colours 4 --held-out 0.3
"${vrag[@]}" index add corpus/documents --collection collection
test -e tiny || "${vrag[@]}" train make-tiny tiny --cases corpus/train.json --cases corpus/held_out.json
"${vrag[@]}" data demonstrate corpus/train.json --out demonstrations --model tiny --collection collection \
	--agent vimrag --hits 1 --count 1000 --searching 0.9 --reading 0.25 --detours 0.3
"${vrag[@]}" train local sft demonstrations --model tiny --out taught --steps 900 --batch 24 --lr 2e-3 --save-every 300
