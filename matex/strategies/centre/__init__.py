"""Centre strategies: a rule (pure update equations) and a topology (who pushes to whom).

:class:`CentreStrategy` combines a :class:`~matex.strategies.rules.centre.CentreRule` and a
:class:`Topology`: :class:`AllAtOnce` or :class:`InTurn`, on one level or two.
"""

from matex.strategies.centre.strategy import CentreStrategy
from matex.strategies.centre.topology import AllAtOnce, InTurn, Topology

__all__ = ["AllAtOnce", "CentreStrategy", "InTurn", "Topology"]
