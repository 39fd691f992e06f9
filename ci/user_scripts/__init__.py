"""The scripts of `tests/scripts`, in plain Python and on ranks."""
