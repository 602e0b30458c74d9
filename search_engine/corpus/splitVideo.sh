#!/bin/sh
# Cuts videos into clips: search_engine/corpus/splitVideo.sh -i VIDEOS -o FOLDER [-d SECONDS]
set -eu
usage="$0 -i VIDEOS -o FOLDER [-d SECONDS]"
videos='' folder='' seconds=60
while getopts i:o:d: option; do
	case $option in
	i) videos=$OPTARG ;;
	o) folder=$OPTARG ;;
	d) seconds=$OPTARG ;;
	*) echo "$usage" >&2 && exit 2 ;;
	esac
done
if [ -z "$videos" ] || [ -z "$folder" ]; then
	echo "$usage" >&2
	exit 2
fi
vrag=$(dirname "$0")/../../.venv/bin/vrag
[ -x "$vrag" ] || vrag=$(command -v vrag) || {
	echo "vrag is not installed: pip install . in the clone, or run ./run_demo.sh once." >&2
	exit 1
}
echo "Runs: vrag corpus split $videos --out $folder --seconds $seconds" >&2
exec "$vrag" corpus split "$videos" --out "$folder" --seconds "$seconds"
