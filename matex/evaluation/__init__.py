"""Evaluation and prediction, shared among the ranks."""
