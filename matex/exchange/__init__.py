"""The collective of a step: everything that a step shares between ranks, in one flat vector."""

from matex.exchange.factory import ExchangeFactory, SumOptions
from matex.exchange.graph_exchange import GraphExchange
from matex.exchange.layout import Header, Layout, header_of
from matex.exchange.mpi4py_exchange import Mpi4pyExchange
from matex.exchange.native import NativeExchange
from matex.exchange.step_exchange import StepExchange

__all__ = [
    "ExchangeFactory",
    "GraphExchange",
    "Header",
    "Layout",
    "Mpi4pyExchange",
    "NativeExchange",
    "StepExchange",
    "SumOptions",
    "header_of",
]
