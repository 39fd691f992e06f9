"""The ``matex`` command; a module for each of its commands, which imports what it needs late."""

from matex.cli.main import main

__all__ = ["main"]
