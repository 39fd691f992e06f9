"""Exchange of rows between ranks while the next step is computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

import ft
from matex.data.row_store import Form, RowStore

__all__ = ["RowExchange", "packed", "unpacked"]

_CHANNEL = 1  # strategies send in the other


class RowExchange:
    """Exchanges the rows of one step at a time. Never raises for a death: rows are then missing.

    Args:
        store: store from which rows are sent, and to which received rows are added.
    """

    def __init__(self, communicator: ft.Communicator, store: RowStore) -> None:
        self._communicator = communicator
        self._store = store
        self._coming: list[tuple[np.ndarray, ft.Receiving]] = []
        self._going: list[ft.Sending] = []

    def begin(
        self, giving: Mapping[int, np.ndarray], getting: Mapping[int, np.ndarray], *, number: int
    ) -> int:
        """Start sending and receiving rows, and return the number of bytes sent; local.

        Every member calls it in the same place between two operations, where nothing is
        disturbed: see :class:`ft.Pending`.

        Args:
            giving: row numbers by the member (original rank) that gets them; all are held, and
                may be dropped at once.
            getting: row numbers by the member that gives them, in the order of its *giving*.
            number: step of the run.
        """
        row_bytes = sum(form.nbytes for form in self._store.forms)
        for rank, rows in getting.items():
            into = np.empty(len(rows) * row_bytes, np.uint8)
            receiving = ft.Receiving(
                self._communicator, into, source=rank, number=number, channel=_CHANNEL
            )
            self._coming.append((rows, receiving))
        sent = 0
        for rank, rows in giving.items():
            vector = packed(self._store.take(rows))
            self._going.append(
                ft.Sending(self._communicator, vector, to=rank, number=number, channel=_CHANNEL)
            )
            sent += vector.nbytes
        return sent

    def end(self) -> int:
        """Wait for the exchange of :meth:`begin`; return the number of received rows; local."""
        came = 0
        for rows, receiving in self._coming:
            vector = receiving.wait()
            if vector is not None:
                self._store.put(rows, unpacked(vector, len(rows), self._store.forms))
                came += len(rows)
        for sending in self._going:
            sending.wait()
        self._coming, self._going = [], []
        return came


def packed(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Bytes of contiguous *arrays*, concatenated: uint8."""
    return np.concatenate([array.reshape(-1).view(np.uint8) for array in arrays])


def unpacked(vector: np.ndarray, rows: int, forms: Sequence[Form]) -> list[np.ndarray]:
    """Arrays that :func:`packed` was given, *rows* rows of these *forms*; as views."""
    arrays = []
    for form in forms:
        mine, vector = np.split(vector, [rows * form.nbytes])
        arrays.append(mine.view(form.dtype).reshape(rows, *form.shape))
    return arrays
