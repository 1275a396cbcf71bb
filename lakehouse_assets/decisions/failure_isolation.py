"""Windows that fail together run in ever smaller ranges, until each window at fault is alone and all others have succeeded.

Belongs here: the order of the tries, and their end if the source is down. Does not: running anything, or limits (retry_policy).
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions.retry_policy import EQUAL_FAILURES, LIMIT_AFTER_SUCCESS, LIMIT_BEFORE_SUCCESS

Ranges = list[list[Window]]
Failures = list[tuple[Sequence[Window], Exception]]


def halves(windows: Sequence[Window]) -> Ranges:
    """Return the two halves of these windows, without an empty one."""
    middle = len(windows) // 2
    return [list(half) for half in (windows[:middle], windows[middle:]) if half]


@dataclass
class FailureIsolation:
    """``run``: runs windows and returns the error, if any. ``unfinished``: returns those of the given windows that still have
    to run. ``split``: divides windows that failed together into smaller ranges. ``fatal``: errors after which nothing else
    runs.

    An error's text does not say whether the source is down: masked, those of two windows read the same. So equal errors lead to
    runs of single windows, and only if those fail alike too do the tries end.
    """

    run: Callable[[Sequence[Window]], Exception | None]
    unfinished: Callable[[Sequence[Window]], Sequence[Window]]
    split: Callable[[Sequence[Window]], Ranges]
    fatal: tuple[type[Exception], ...] = ()
    _windows: Sequence[Window] = ()
    _single_failures: dict[Window, Exception] = field(default_factory=dict)
    _last_text: str | None = None
    _equal_failures: int = 0
    _equal_single_failures: int = 0
    _has_succeeded: bool = False
    _final_error: Exception | None = None

    def isolate(self, windows: Sequence[Window]) -> Failures:
        """Run these windows. Returns the smallest ranges that failed, each with its error."""
        self._windows = windows
        error = self._try(windows)
        return [] if error is None else self._smallest(windows, error)

    def _smallest(self, windows: Sequence[Window], error: Exception) -> Failures:
        if len(windows) == 1 or self._final_error is not None:
            return [(windows, error)]
        remaining = self.unfinished(windows)
        if not remaining:
            return [(windows, error)]
        failures: Failures = []
        for part in self.split([window for window in remaining if window not in self._single_failures]):
            # A window that failed alone meanwhile is known to be at fault.
            part_error = error if self._single_failures.keys() & set(part) else self._try(part)
            if part_error is not None:
                failures.append((part, part_error))
            if self._equal_failures >= EQUAL_FAILURES and self._final_error is None:
                self._try_single_windows()
            if self._final_error is not None:
                # One range for everything unfinished, with the error that ended the tries.
                return [(self.unfinished(windows) or windows, self._final_error)]
        single: Failures = [([w], self._single_failures[w]) for w in remaining if w in self._single_failures]
        isolated = {window for (window,), _ in single}
        smaller = [each for part, part_error in failures for each in self._smallest(part, part_error)]
        return single + [each for each in smaller if not isolated & set(each[0])]

    def _try(self, windows: Sequence[Window]) -> Exception | None:
        if len(windows) == 1 and windows[0] in self._single_failures:
            return self._single_failures[windows[0]]
        error = self.run(windows)
        if error is None:
            self._has_succeeded, self._last_text, self._equal_failures, self._equal_single_failures = True, None, 0, 0
            return None
        if str(error) != self._last_text:
            self._last_text, self._equal_failures, self._equal_single_failures = str(error), 0, 0
        self._equal_failures += 1
        if len(windows) == 1:
            self._single_failures[windows[0]] = error
            self._equal_single_failures += 1
        limit = LIMIT_AFTER_SUCCESS if self._has_succeeded else LIMIT_BEFORE_SUCCESS
        if isinstance(error, self.fatal) or self._equal_single_failures >= limit:
            self._final_error = error
        return error

    def _try_single_windows(self) -> None:
        """Run windows alone until one succeeds or fails otherwise, or the tries end."""
        # In an order that no pattern in the calendar follows, such as every Monday.
        remaining = sorted(self.unfinished(self._windows), key=lambda w: hashlib.sha256(w.key.encode()).digest())
        for window in remaining:
            if window not in self._single_failures:
                self._try([window])
                if self._final_error is not None or self._equal_failures < EQUAL_FAILURES:
                    return
