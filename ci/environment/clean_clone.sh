#!/bin/sh
# clean_clone.sh [make arguments]: what a newcomer gets. Clones the last commit elsewhere and runs
# make there (default: test), so that a file nobody added to git is missed here and not by them.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
clone=$(mktemp -d)
trap 'rm -rf "$clone"' EXIT INT TERM

git clone --quiet "$root" "$clone/matex"
cd "$clone/matex"
make "${@:-test}"
