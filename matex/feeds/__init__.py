"""Where a training gets its global batches, and which of their rows a rank needs."""
