"""The network between the hosts of a launch: measured, what a step costs there, what to set.

``matex doctor --network`` starts the ranks, and each calls :func:`matex.network.session.attend`.
"""
