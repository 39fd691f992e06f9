"""A script in plain Keras, as ``python script.py`` runs it: ``-m tests.train.plain_script SCRIPT``.

sitecustomize has this module forked from a process that has imported TensorFlow, as ranks are. The
script runs without matex, unless it imports it.
"""

import sys

from matex.process.program import run_program

if __name__ == "__main__":
    run_program(sys.argv[1], sys.argv[2:])
