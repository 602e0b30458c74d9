#!/usr/bin/env bash
# A tiny model learns to search and to look, on one core and offline: in some minutes it answers questions
# about pages that it never saw, and cannot when the pictures are blank.
#
#   examples/learn_to_look.sh [FOLDER]        VRAG=… names the command, SEED=… draws everything anew.
#
# QUICK=1 takes few steps, to see that all commands run: it learns nothing, so that its model is expected to find
# few pages (0 to 25 %), to answer by chance (25 %) or not at all, and to fail the last question.
#
# Stopped, it goes on where it was.
set -euo pipefail
out=${1:-learn-to-look}
seed=${SEED:-0}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} VRAG_MAX_TOKENS=24
read -ra vrag <<<"${VRAG:-vrag}"
documents=50 words=15 demonstrations=640 taught=2000 trained=400
until_found=(--until-found 0.9)
if [ -n "${QUICK:-}" ]; then documents=10 words=7 demonstrations=24 taught=8 trained=2 until_found=(); fi

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
mkdir -p "$out" && cd "$out"

say "1. Documents of coloured pages, and questions; a fifth of the documents is held out"
test -e corpus/train.json || "${vrag[@]}" data synthesize corpus --template emblem --seed "$seed" \
	--documents "$documents" --pages 4 --words "$words" --colours 4 --held-out 0.2
"${vrag[@]}" index add corpus/documents --collection collection
# Half of the held-out documents decide when to stop; the other half is asked only at the end.
test -e test.json || python3 - <<'PY'
import json
cases = json.load(open("corpus/held_out.json"))["examples"]
half = len(cases) // 2
for name, part in (("validation", cases[:half]), ("test", cases[half:])):
    json.dump({"examples": part}, open(f"{name}.json", "w"))
PY

say "2. A model that knows nothing"
test -e tiny || "${vrag[@]}" train make-tiny tiny --cases corpus/train.json --cases corpus/held_out.json --seed "$seed"

say "3. To search: demonstrations that find the page and answer by chance, until its own searches find pages"
"${vrag[@]}" data demonstrate corpus/train.json --out demonstrations --model tiny --collection collection \
	--count "$demonstrations" --searching 1 --seed "$seed"
"${vrag[@]}" train local sft demonstrations --model tiny --out taught --steps "$taught" --lr 2e-3 --save-every 200 \
	--seed "$seed" --held-out validation.json --evaluate-every 50 --evaluate-samples 4 --evaluate-temperature 1 \
	"${until_found[@]}" --collection collection --max-steps 3 --max-tokens 24

say "4. To look: reinforcement, by what is found and what is answered"
"${vrag[@]}" train local rl corpus/train.json --model taught/model --out trained --collection collection \
	--held-out validation.json --stop-at 0.95 --steps "$trained" --lr 1e-3 --clip-norm 0.3 --entropy 0.003 \
	--weights 0.2,0.7,0.1 --exact --max-steps 3 --max-tokens 24 --evaluate-every 20 --save-every 20 --seed "$seed"
"${vrag[@]}" train plot trained --out curves.svg

say "5. Documents that decided nothing: before, after, and with blank pictures"
asked=(eval run test.json --collection collection --exact --max-steps 3)
"${vrag[@]}" "${asked[@]}" --model local:tiny --out untrained
"${vrag[@]}" "${asked[@]}" --model local:taught/model --out before
"${vrag[@]}" "${asked[@]}" --model local:trained/model --out after
"${vrag[@]}" "${asked[@]}" --model local:trained/model --out blank --blank
"${vrag[@]}" eval compare before after --out comparison
python3 - <<'PY'
import json
print(f"{'':10} right  pages found by its own searches")
for name in ("untrained", "before", "after", "blank"):
    records = [json.loads(line) for line in open(f"{name}/records.jsonl")]
    right = sum(record["outcome"] == "right" for record in records) / len(records)
    found = sum(record["measures"].get("seen_recall", 0.0) for record in records) / len(records)
    print(f"{name:10} {right:5.0%}  {found:5.0%}")
PY

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
