"""Accepted windows that were surprising enough for a warning: when they join the baseline, and when they do not.

Belongs here: that rule. Does not: what a baseline is made of (baseline_state), or the judgement (judge).
"""

from typing import Generic, TypeVar

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.drift import is_of_stream, warning_level

Window = TypeVar("Window")


def is_doubtful(decision: Decision) -> bool:
    """Whether drift raised a warning of an accepted window by itself, and no person has decided on it. A warning over several
    windows is none: each of them is usual.
    """
    if decision.kind != "judged" or decision.drift_p_value is None:
        return False
    if is_of_stream(decision.ruleset):
        # Its levels are those of the window, and not of the rules.
        return any(reason.check == "drift" for reason in decision.reasons)
    return decision.drift_p_value <= warning_level(decision.ruleset)


class DoubtfulWindows(Generic[Window]):
    """Lets windows join in the order of their decisions.

    A doubtful one waits. If the next one is not doubtful, it was chance, and both join. If the next one is doubtful, too, it
    may be a fault too small to be quarantined, and what lasts must not become normal by itself: none of an unbroken run of
    them joins. By chance a clean window is one of two in a row in less than twice `warn_at` squared, so that the past loses
    hardly any of its far windows. Before ``after`` windows have joined none is doubtful: nothing is known yet.
    """

    def __init__(self, after: int) -> None:
        self._after = after
        self._joined = 0
        self._waiting: list[Window] = []

    @property
    def waiting(self) -> tuple[Window, ...]:
        """The doubtful windows since the last one that was not."""
        return tuple(self._waiting)

    def join(self, window: Window, *, doubtful: bool) -> list[Window]:
        """The windows that join now, in order."""
        if doubtful and self._joined >= self._after:
            self._waiting.append(window)
            return []
        joining = [*self._waiting, window] if len(self._waiting) == 1 else [window]
        self._waiting.clear()
        self._joined += len(joining)
        return joining
