"""The collective of a step: everything that a step shares between ranks, in one flat vector."""

from matex.exchange.choice import Choice
from matex.exchange.host import HostExchange
from matex.exchange.layout import Header, Layout, header_of
from matex.exchange.native import NativeExchange

__all__ = ["Choice", "Header", "HostExchange", "Layout", "NativeExchange", "header_of"]
