"""``python -m matex``: a command of ``matex``, or one rank under an existing mpiexec or srun."""

import sys

from matex.cli import main

sys.exit(main())
