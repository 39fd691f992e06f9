"""The parts of `make test`, and what they leave behind."""
