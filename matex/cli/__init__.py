"""The ``matex`` command; one module per subcommand, with late imports."""

from matex.cli.main import main

__all__ = ["main"]
