#!/usr/bin/env bash
# A tiny model learns to search and to look, on one core and offline: in some ten minutes it answers questions
# about pages that it never saw, and cannot when the pictures are blank.
#
#   examples/learn_to_look.sh [FOLDER]        VRAG=… names the command, QUICK=1 takes few steps and learns nothing.
#
# Stopped, it goes on where it was.
set -euo pipefail
out=${1:-learn-to-look}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} VRAG_MAX_TOKENS=24
read -ra vrag <<<"${VRAG:-vrag}"
documents=25 demonstrations=800 taught=600 trained=400
if [ -n "${QUICK:-}" ]; then documents=6 demonstrations=24 taught=8 trained=2; fi

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
mkdir -p "$out" && cd "$out"

say "1. Documents of coloured pages, and questions; a fifth of the documents is held out"
test -e corpus/train.json || "${vrag[@]}" data synthesize corpus --template emblem \
	--documents "$documents" --pages 4 --words 10 --colours 4 --held-out 0.2
"${vrag[@]}" index add corpus/documents --collection collection

say "2. A model that knows nothing"
test -e tiny || "${vrag[@]}" train make-tiny tiny --cases corpus/train.json --cases corpus/held_out.json

say "3. The form: demonstrations that search for the right page half of the time, and answer by chance"
"${vrag[@]}" data demonstrate corpus/train.json --out demonstrations --model tiny --collection collection \
	--count "$demonstrations" --searching 0.5
"${vrag[@]}" train local sft demonstrations --model tiny --out taught --steps "$taught" --lr 2e-3 --save-every 200

say "4. The skill: reinforcement, by what is found and what is answered"
"${vrag[@]}" train local rl corpus/train.json --model taught/model --out trained --collection collection \
	--held-out corpus/held_out.json --steps "$trained" --lr 1e-3 --clip-norm 0.3 --entropy 0.003 \
	--weights 0.4,0.5,0.1 --exact --max-steps 3 --max-tokens 24 --evaluate-every 20 --save-every 20
"${vrag[@]}" train plot trained --out curves.svg

say "5. Held-out documents: before, after, and with blank pictures"
asked=(eval run corpus/held_out.json --collection collection --exact --max-steps 3)
"${vrag[@]}" "${asked[@]}" --model local:taught/model --out before
"${vrag[@]}" "${asked[@]}" --model local:trained/model --out after
"${vrag[@]}" "${asked[@]}" --model local:trained/model --out blank --blank
"${vrag[@]}" eval table before after blank
"${vrag[@]}" eval compare before after --out comparison

say "6. A question that it could not answer before"
question=$(python3 - <<'PY'
import json
right = {}
for name in ("before", "after", "blank"):
    records = map(json.loads, open(f"{name}/records.jsonl"))
    right[name] = {one["subject"]["question"]: one["outcome"] == "right" for one in records}
order = sorted(right["after"], key=lambda q: (right["before"][q], not right["after"][q], right["blank"][q]))
print(order[0])
PY
)
for model in taught trained; do
	echo "$ vrag ask --model local:$model/model '$question'"
	"${vrag[@]}" ask --collection collection --model "local:$model/model" --max-steps 3 "$question" || true
done
