"""Emulated hosts, networks that break, and a cluster of Slurm in them."""
