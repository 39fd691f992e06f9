"""The common parts of the numbered examples: command line and data, read or made up."""
