#!/bin/sh
# Restores the newest backup into a temporary folder, checks it, and asks it a question:
#
#     deploy/restore-test.sh /mnt/backup/vrag/documents "What was the revenue in 2023?"
#
# Fails if anything is damaged, or the question has no answer. VRAG=/opt/vrag/bin/vrag names the program.
set -eu
backups=$1 question=$2
vrag=${VRAG:-vrag}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$vrag" index backups "$backups" --check
"$vrag" index restore "$backups" "$folder/collection"
"$vrag" index verify --collection "$folder/collection"
"$vrag" ask "$question" --collection "$folder/collection"
