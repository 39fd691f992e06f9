"""Files and directories that several processes use at once, also on a file server."""
