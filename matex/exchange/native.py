"""The exchange as a TensorFlow operation: see ``exchange.cc``."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

import ft
from matex.exchange.graph_exchange import GraphExchange
from matex.exchange.hierarchical_allreduce import HierarchicalAllreduce
from matex.exchange.layout import Layout
from matex.exchange.library import Library
from matex.exchange.messages import TAGS
from matex.exchange.route import groups
from matex.exchange.slices import Tables

__all__ = ["RECORD_BYTES", "NativeExchange"]

_HOOK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
_BEFORE, _READY = 0, 1
_FENCED, _REDUCED = 2, 3
_COLLECTIVES = ("allreduce", "barrier", "error_string")
_CALLS = ("isend", "irecv", "test", "testsome")


class _RouteTables(ctypes.Structure):
    """Structures Mpi and Route of ``slices.h``, which describes each field."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in _CALLS),
        *((name, ctypes.c_void_p) for name in ("byte", "null_request")),
        ("request_bytes", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("messages", "buckets")),
        *((name, ctypes.c_int64) for name in ("message_count", "bucket_count")),
        *((name, ctypes.c_int64) for name in ("locals", "index", "hosts", "host")),
        *((name, ctypes.c_int64) for name in ("serves", "first_tag")),
        *((name, ctypes.c_void_p) for name in ("kept", "taken")),
        ("number", ctypes.c_int64),
    )


class _OperationRecord(ctypes.Structure):
    """Structure of ``exchange.cc``, which describes each field."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in _COLLECTIVES),
        ("hook", _HOOK),
        *((name, ctypes.c_void_p) for name in ("comm", "datatype", "sum")),
        *((name, ctypes.c_void_p) for name in ("send", "result", "offsets")),
        *((name, ctypes.c_int64) for name in ("parts", "chunk")),
        *(
            (f"{name}_at", ctypes.c_int64)
            for name in ("samples", "fingerprint", "nonfinite", "ranks")
        ),
        *((name, ctypes.c_double) for name in ("samples", "fingerprint", "size")),
        *((name, ctypes.c_int32) for name in ("fence", "check_finite", "spoiled", "stage")),
        ("code", ctypes.c_int64),
        *((name, ctypes.c_double) for name in ("waiting_since", "seconds", "ended")),
        ("sliced", ctypes.c_int64),
        ("route", _RouteTables),
        *((name, ctypes.c_void_p) for name in ("slices", "left", "groups")),
        ("group_count", ctypes.c_int64),
        ("flow", ctypes.c_void_p),
    )


RECORD_BYTES = ctypes.sizeof(_OperationRecord)


class NativeExchange(GraphExchange):
    """An exchange whose graph operation is written in C++.

    It packs, reduces and checks in the same buffers, so recovery uses them in the same way. Both
    exchanges make the same MPI calls: ranks with and without the native one work together.
    """

    def __init__(
        self,
        communicator: ft.Communicator,
        layout: Layout,
        *,
        library: Library,
        faults: ft.Injector,
        **options: Any,
    ) -> None:
        super().__init__(communicator, layout, faults=faults, **options)
        import tensorflow as tf
        from mpi4py import MPI

        self._library = library
        # The extension's handle finds the very library that it is linked to.
        functions = ctypes.CDLL(MPI.__file__)
        self._offsets = np.array(layout.offsets, np.int64)
        self._record = record = _OperationRecord(
            datatype=(MPI.DOUBLE if layout.dtype == np.float64 else MPI.FLOAT).handle,
            sum=MPI.SUM.handle,
            send=self._send.ctypes.data,
            offsets=self._offsets.ctypes.data,
            parts=len(layout.shapes),
            fence=self._reduction.result_count == 1,
        )
        route = record.route
        for target, names in ((record, _COLLECTIVES), (route, _CALLS)):
            for name in names:
                function = getattr(functions, f"MPI_{name.capitalize()}")
                setattr(target, name, ctypes.cast(function, ctypes.c_void_p).value)
        route.byte, route.null_request = MPI.BYTE.handle, MPI.REQUEST_NULL.handle
        route.request_bytes, route.first_tag = MPI._sizeof(MPI.Request), TAGS
        self._tables: Tables | None = None
        self._groups = np.array(groups(layout.offsets[:-1], layout.dtype.itemsize), np.int64)
        record.groups, record.group_count = self._groups.ctypes.data, len(self._groups) - 1
        # The record must live until then.
        weakref.finalize(self, _free, library, record).atexit = False
        for field in ("samples", "fingerprint", "nonfinite", "ranks"):
            setattr(record, f"{field}_at", layout.header_at(field))
        if faults.strikes:
            record.hook = self._hook = _HOOK(self._strike)
        self._mpi_error, self._op_error = MPI.Exception, tf.errors.OpError

    def waiting_since(self) -> float:
        """Time (``time.monotonic()``) since which this rank waits inside MPI; 0 if it does not."""
        return float(self._record.waiting_since)

    def in_graph(self, parts: Sequence[Any]) -> list[Any]:
        import tensorflow as tf

        record, dtype = ctypes.addressof(self._record), self.layout.dtype
        # The gradients of the last layers are available first.
        leave = [
            self._library.early(parts[first:last], plan=record, U=dtype, group=number)
            for number, (first, last) in reversed(list(enumerate(pairwise(self._groups))))
            if self._terms.is_sliced
        ]
        with tf.control_dependencies(leave):
            sums: list[Any] = self._library.operation(parts, plan=record, U=dtype, N=len(parts))
        return sums

    def run(self, fused: Callable[[], Any]) -> Any:
        record = self._record
        record.samples, record.fingerprint = self.expected
        record.stage = record.code = record.spoiled = 0
        record.check_finite = self.check_finite
        result = self._next_result()
        record.result = result.ctypes.data
        output: Any = None
        refused: Exception | None = None

        def call(comm: Any) -> None:
            nonlocal output, refused
            record.comm = comm.handle
            record.size = self._communicator.world.size
            record.chunk = self._terms.chunk_elements
            record.sliced = self._terms.is_sliced
            if record.sliced:
                self._set_out()
            elif isinstance(self._reduction, HierarchicalAllreduce):
                self._reduction.slices.skip()
            try:
                output = fused()
            except self._op_error as error:
                self._library.stop(ctypes.addressof(record))
                if record.fence and record.stage >= _FENCED:
                    self._communicator.result_overwritten()
                if record.code:
                    raise self._mpi_error(record.code) from None
                if self.error is not None:  # raised by an injected fault
                    raise self.error from None
                if record.stage != _REDUCED:
                    raise  # the graph itself failed, before the exchange
                refused = error

        try:
            self._communicator.attempt(result, call, self._is_whole, untouched=True, computes=True)
            if refused is not None:
                self.check()
                raise refused
        except BaseException as error:
            self.spoiled = bool(record.spoiled)
            self.error = error
            raise
        self.seconds, self.ended = record.seconds, record.ended
        self._is_summed = True
        return output

    def _set_out(self) -> None:
        """Pass the operation the route of the current members and the rounding residuals."""
        assert isinstance(self._reduction, HierarchicalAllreduce), (
            "no other one is native and sliced"
        )
        slices, route = self._reduction.slices, self._record.route
        tables, residuals = slices.tables, slices.residuals
        if tables is not self._tables:
            self._tables = tables
            for name, value in tables.numbers.items():
                setattr(route, name, value)
            route.messages, route.buckets = (
                table.ctypes.data for table in (tables.messages, tables.buckets)
            )
            route.message_count, route.bucket_count = len(tables.messages), len(tables.buckets)
            route.number += 1
        if residuals is not None:
            route.kept, route.taken = residuals.kept.ctypes.data, residuals.taken.ctypes.data

    def _strike(self, phase: int) -> int:
        """Inject faults, called by the operation; a nonzero result stops it."""
        try:
            if phase == _BEFORE:
                self._before()
            elif phase == _READY:
                self._record.spoiled = self._ready()
            else:
                self._after()
        except BaseException as error:  # noqa: BLE001 - goes on behind TensorFlow, in run()
            self.error = error
            return 1
        return 0


def _free(library: Library, record: _OperationRecord) -> None:
    library.free(ctypes.addressof(record))
