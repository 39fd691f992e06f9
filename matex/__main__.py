"""``python -m matex``: a ``matex`` command, or one rank under an existing mpiexec or srun."""

import sys

from matex.cli import main

sys.exit(main())
