"""Centre strategies: a rule (who becomes what) carried by a topology (who sends to whom).

:class:`CentreStrategy` is made of a :class:`~matex.strategies.rules.centre.CentreRule`, which is
pure, and a :class:`Topology`: :class:`AllAtOnce` or :class:`InTurn`, on one level or two.
"""

from matex.strategies.centre.strategy import CentreStrategy
from matex.strategies.centre.topology import AllAtOnce, InTurn, Topology

__all__ = ["AllAtOnce", "CentreStrategy", "InTurn", "Topology"]
