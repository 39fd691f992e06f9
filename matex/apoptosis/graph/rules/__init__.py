"""Rules for units in each kind of layer: one function per kind, found by the exact class.

A rule takes the network, the call, and the tags of its inputs, in order; it notes the units that
index the layer's weights, and returns the tags of its outputs. Layers without a rule,
subclasses among them, are left alone.
"""

from matex.apoptosis.graph.rules.table import rule_for

__all__ = ["rule_for"]
