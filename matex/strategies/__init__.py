"""The ways to share the work of a training, each chosen by one word."""

from matex.strategies.interface import Strategy, Traffic
from matex.strategies.sync import Sync

__all__ = ["Strategy", "Sync", "Traffic"]
