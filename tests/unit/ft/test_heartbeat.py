"""The cases in which the progress engine of MPI has to be called from outside."""

from __future__ import annotations

import pytest

from ft.errors import Unrecoverable
from ft.heartbeat import Heartbeat, interval

DETECTOR = "OMPI_MCA_mpi_ft_detector"


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, None),
        ({DETECTOR: "0"}, None),
        ({DETECTOR: "1"}, 0.75),
        ({DETECTOR: "1", f"{DETECTOR}_period": "0.5"}, 0.125),
        ({DETECTOR: "1", f"{DETECTOR}_period": "60"}, 1.0),
        ({DETECTOR: "1", f"{DETECTOR}_thread": "1"}, None),
        ({DETECTOR: "1", f"{DETECTOR}_thread": "0"}, 0.75),
    ],
)
def test_several_calls_in_a_period(environment: dict[str, str], wanted: float | None) -> None:
    assert interval(environment) == wanted


def test_a_library_without_a_progress_engine_is_refused() -> None:
    with pytest.raises(Unrecoverable, match="set OMPI_MCA_mpi_ft_detector_thread=1"):
        Heartbeat("libc.so.6", every_s=1.0)
