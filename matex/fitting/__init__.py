"""Calls of ``fit`` and similar methods: work before the first step and between steps."""
