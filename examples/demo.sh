#!/bin/sh
# The main job on real input, with no server: refine an essay, look at how it went, and prove it from the log.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export REDRAFT_STORE="sqlite:///$folder/redraft.db"
here=$(dirname "$0")

say() { printf '\n\033[1m$ %s\033[0m\n' "$*"; "$@"; }

say redraft run --workflow prose "$here/essay.md" --out "$folder/essay.md"
say redraft list
say redraft show last
say redraft diff last 1 2
say redraft audit last --verify
