"""What the numbered examples share: their command line, and their data, read or made up."""
