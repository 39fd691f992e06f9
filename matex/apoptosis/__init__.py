"""Adaptive neuron apoptosis: networks that shrink while they train.

Siegel, Daily, Vishnu (arXiv:1610.00790) had the idea; constants and schedule are ours.

A unit is a channel. Following a model's graph (``trace``, by the ``rules`` of each kind of
layer) gives a ``network`` of units, tied where they can only go together, and the groups that
they are removed from. ``measure`` says what the readers of a group see, a criterion
(``criteria``, ``elimination``, ``pairs``: pure) who dies, ``surgery`` gives their work to the
others, ``judge`` asks the held-out loss, ``rebuild`` cuts. An ``event`` is all of these, over
``peers``; ``schedule`` (pure) says when, and ``callback`` is what a user sees.
"""
