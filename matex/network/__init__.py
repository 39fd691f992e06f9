"""The network between the hosts of a launch: measurement, cost of a step, settings.

``matex doctor --network`` starts the ranks, and each calls :func:`matex.network.session.attend`.
"""
