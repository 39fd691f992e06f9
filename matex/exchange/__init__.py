"""The one collective of a step: everything a step has to share, in one flat vector."""

from matex.exchange.host import HostExchange
from matex.exchange.layout import Header, Layout, header_of

__all__ = ["Header", "HostExchange", "Layout", "header_of"]
