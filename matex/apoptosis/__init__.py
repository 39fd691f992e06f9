"""Adaptive neuron apoptosis: networks that shrink while they train.

Siegel, Daily, Vishnu (arXiv:1610.00790) had the idea; constants and schedule are ours.

A unit is a channel. Traversing a model's graph (``trace``, by the ``rules`` of each kind of layer)
gives a ``network`` of units, tied if they can only be removed together, and their groups.
``measure`` measures the inputs of a group's readers, a criterion (of the table ``criteria``, pure)
chooses the removed units, ``surgery`` transfers their work to the others, ``held_out_loss``
evaluates the held-out loss, ``rebuild`` cuts. An ``event`` is all of these, over ``peers``;
``schedule`` (pure) sets the time, and ``callback`` is the user's interface.
"""
