"""A call of ``fit`` and its kin: what comes before the first step and between steps."""
