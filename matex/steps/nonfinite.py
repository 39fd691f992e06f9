"""Policies for a step in which a rank computed NaN or infinity.

The rank detects it while it packs its contribution, and informs the others by a flag in the
header; no weight was changed. By *policy* the run stops, or the step is made again

* ``recompute``: by the same ranks from the same samples, which helps after a transient hardware
  error; if it happens again the run stops;
* ``skip``: without the samples of the ranks that computed it. The sum is scaled by all samples /
  remaining samples, so it remains a mean over samples. The samples left out count as lost. If no
  samples remain the run stops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

import ft
from matex.errors import NonFiniteGradients
from matex.exchange import Header, Layout
from matex.exchange.texts import allgather_texts

__all__ = ["NonfinitePolicy", "StepRedo", "nonfinite_error", "whole_batch_error"]

_BYTES = 512  # of tensor names, from each rank
_NAMED = 2  # tensors, and ranks beside the first


class StepRedo(NamedTuple):
    """The way in which a step is made again.

    Its ``samples`` with their ``fingerprint`` are left out; or it is made ``anew``, with all work
    divided again, because a rank died meanwhile.
    """

    samples: int
    fingerprint: int
    anew: bool


class NonfinitePolicy:
    """Applies one policy; allows one second attempt per step.

    Args:
        policy: "stop", "skip" or "recompute".
        tell: function called on every rank with the ranks that computed non-finite values.
    """

    def __init__(
        self,
        policy: str,
        communicator: ft.Communicator,
        *,
        tell: Callable[[tuple[int, ...]], None] = lambda ranks: None,
    ) -> None:
        self._policy = policy
        self._communicator = communicator
        self._tell = tell
        self._tried = False
        self._why_not = ""

    @property
    def why_not(self) -> str:
        """Reason for which the policy could not be applied to the step; "" if there is none."""
        return self._why_not

    @property
    def stops(self) -> bool:
        """Whether the run stops at such a step."""
        return self._policy == "stop"

    def begin(self) -> None:
        """Start a new step. Local."""
        self._tried = False
        self._why_not = ""

    def redo(
        self, *, guilty: bool, samples: int, fingerprint: int, header: Header
    ) -> StepRedo | None:
        """Way to make the step again; None to stop. Equal on all ranks.

        Collective, but local where the policy is ``stop``, no rank has told of non-finite numbers,
        or the step was made again before.

        Args:
            guilty: whether this rank's contribution is not finite.
            samples, fingerprint: number and fingerprint of this rank's samples in the step.
            header: header of the step's sum.
        """
        if self._policy == "stop" or not header.nonfinite:
            return None
        if self._tried:
            self._why_not = (
                f"--nonfinite {self._policy} makes a step again once, which did not help"
            )
            return None
        self._tried = True
        gathered = self._communicator.allgather(np.array([guilty, samples, fingerprint], np.int64))
        rows = gathered.rows
        bad = rows[:, 0] != 0
        if not bad.any():
            return None
        if self._policy == "skip" and rows[bad, 1].sum() == rows[:, 1].sum():
            self._why_not = "--nonfinite skip would leave no samples: no rank has finite gradients"
            return None
        self._tell(tuple(np.array(gathered.ranks)[bad].tolist()))
        if len(gathered.ranks) != round(header.ranks):
            self._tried = False
            return StepRedo(0, 0, True)
        if self._policy == "recompute":
            return StepRedo(0, 0, False)
        return StepRedo(int(rows[bad, 1].sum()), int(rows[bad, 2].sum()), False)


def nonfinite_error(
    communicator: ft.Communicator,
    layout: Layout,
    spoiled: np.ndarray | None,
    *,
    step: int,
    why_not: str,
) -> NonFiniteGradients:
    """Exception that names the ranks and tensors with non-finite values; collective.

    Args:
        spoiled: this rank's contribution if it is not finite, else None.
        why_not: see :attr:`NonfinitePolicy.why_not`.
    """
    mine = "" if spoiled is None else _in_short(layout.nonfinite_names(spoiled))
    texts = allgather_texts(communicator, mine, _BYTES)
    guilty = {rank: text for rank, text in texts.items() if text}
    return NonFiniteGradients(
        f"step {step} has gradients that are not finite: "
        + _told(guilty, len(texts), why_not=why_not)
    )


def whole_batch_error(policy: str, *, step: int) -> NonFiniteGradients:
    """Exception for non-finite gradients that every rank computed from the same batch; pure.

    Args:
        policy: "stop", "skip" or "recompute"; none of them can make such a step.
    """
    why_not = {
        "skip": "--nonfinite skip would leave no samples: no rank has finite gradients. ",
        "recompute": "--nonfinite recompute would not help: each rank computed all of the batch. ",
    }.get(policy, "")
    return NonFiniteGradients(
        f"step {step} has gradients that are not finite: those of all ranks. {why_not}"
        "No weight was changed by this update; look at the learning rate and at those samples"
    )


def _in_short(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _told(guilty: Mapping[int, str], ranks: int, *, why_not: str) -> str:
    """Text about the *guilty* ranks, of which the first is described, of all *ranks*. Pure."""
    if not guilty:
        return "those of the sum, though of no rank's. No weight was changed by this step"
    first, what = next(iter(guilty.items()))
    others = _in_short([str(rank) for rank in guilty if rank != first])
    told = f"rank {first}: {what}" + (f"; also ranks {others}" if others else "")
    because = f"{why_not}. " if why_not else ""
    cause = "look at the learning rate and at those samples"
    if len(guilty) < ranks:
        cause = (
            "look at its samples, the learning rate, and its memory, which may have flipped bits"
        )
    return f"{told}. {because}No weight was changed by this step; {cause}"
