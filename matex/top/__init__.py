"""``matex top``: view of a run from its report directory."""
