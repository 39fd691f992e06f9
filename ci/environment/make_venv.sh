#!/bin/sh
# make_venv.sh FOLDER EXTRAS: a virtual environment with this project (editable) and its extras.
# Once everything is installed, running it again needs no network.
set -eu
cd "$(dirname "$0")/../.."
venv=$1 extras=$2

if ! "$venv/bin/python" -c 'import pip' 2>/dev/null; then
    python=$(sh ci/environment/find_python.sh)
    echo "making $venv with $python"
    "$python" -m venv --clear "$venv"
fi

echo "installing matex[$extras] into $venv (the first time some minutes; TensorFlow is 2 GB)"
pip() { "$venv/bin/python" -m pip --disable-pip-version-check "$@" --quiet --quiet --constraint constraints.txt; }
# The build tools come from the constraints too, so that no isolated build asks the network for them.
pip install setuptools wheel
pip install --no-build-isolation --editable ".[$extras]"
