"""Routes for tests on one host."""

from __future__ import annotations

import ft
from matex.exchange.route import Route

__all__ = ["in_pairs"]


def in_pairs(world: ft.World) -> Route:
    """The route as if two ranks in a row were on a host of their own."""
    places = [tuple(range(world.size))[at : at + 2] for at in range(0, world.size, 2)]
    return Route(tuple(places), world.place)
