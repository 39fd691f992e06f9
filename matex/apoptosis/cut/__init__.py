"""The cut: the work of removed units given to others, smaller variables, and the proof."""
