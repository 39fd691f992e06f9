"""The state of fits in checkpoints: when it is saved, what it is, and how a fit goes on."""
