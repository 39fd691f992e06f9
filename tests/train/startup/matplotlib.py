"""Stands before matplotlib on the path of ranks in tests, none of which draws.

Keras imports matplotlib where it finds it, which takes a tenth of the time in which a rank starts.
"""

raise ModuleNotFoundError("ranks in tests have no matplotlib", name=__name__)
