"""What each kind of layer means for units: one function a kind, found by the exact class.

A rule takes the network, the call, and the tags of its inputs, in order; it notes what the
layer's weights are indexed by, and gives the tags of its outputs. Layers without a rule,
subclasses among them, are left alone.
"""

from matex.apoptosis.rules.table import rule_for

__all__ = ["rule_for"]
