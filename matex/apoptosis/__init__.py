"""Adaptive neuron apoptosis: networks that shrink while they train.

Siegel, Daily, Vishnu (arXiv:1610.00790) had the idea; constants and schedule are ours.

================  ==========================================================
criteria          pure: which units of a group die, and who does their work
pairs             pure: the criteria that compare two units at a time
elimination       pure: down-dating of an inverse Gram matrix in blocks
================  ==========================================================
"""
