#!/bin/sh
# Print a Python from 3.10 to 3.13 that can make virtual environments: $PYTHON, or the newest found.
set -u

fits() { # a name may exist and still not run: version managers put such shims on the path
    "$1" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null
}
has_venv() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }

without_venv=
for python in ${PYTHON:-python3.13 python3.12 python3.11 python3.10 python3 python}; do
    fits "$python" || continue
    if has_venv "$python"; then
        command -v "$python"
        exit 0
    fi
    without_venv=${without_venv:-$python}
done

if [ -n "$without_venv" ]; then
    echo "matex: $without_venv has no venv module; install it (Debian, Ubuntu: apt install python3-venv)" >&2
else
    echo "matex: Python 3.10 to 3.13 is needed. Received: ${PYTHON:-none on the PATH}; name one with make PYTHON=/path/to/python3" >&2
fi
exit 1
