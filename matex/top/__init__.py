"""``matex top``: a run while it happens, from what it writes into its report directory."""
