#!/usr/bin/env bash
# copy.sh FOLDER: copies this checkout, or an unpacked source distribution, without what was built. Other parts of
# `make check` may build meanwhile.
set -euo pipefail
folder=$(realpath "$1")
cd "$(dirname "$0")/.."
if [ -e .git ]; then
    git ls-files -z --cached --others --exclude-standard | xargs -0 cp -p --parents -t "$folder"
else # it has nothing else but what was built
    tar cf - --exclude '*.so' --exclude ./build --exclude './.venv*' --exclude __pycache__ . | tar xf - -C "$folder"
fi
