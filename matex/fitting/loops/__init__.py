"""Training loops of the script itself: functions that make a step, and ``train_on_batch``."""
