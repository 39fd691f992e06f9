"""Adaptive neuron apoptosis: networks that shrink while they train.

Siegel, Daily, Vishnu (arXiv:1610.00790) had the idea; constants and schedule are ours.

A unit is a channel. Traversing a model's ``graph`` (``graph.trace``, by the rules of each kind of
layer) gives a network of units, tied if they can only be removed together, and their groups.
``criteria`` measure the inputs of a group's readers and choose the removed units; ``cut`` transfers
their work to the others and makes variables smaller; ``held_out_loss`` evaluates the held-out loss.
An ``event`` is all of these, over ``peers``; ``schedule`` (pure) sets the time, and ``callback`` is
the user's interface.
"""
