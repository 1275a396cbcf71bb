"""The retry policy: when a failed window or gold table runs again, in which ranges, and when trying ends.

Belongs here: every delay, size and limit. Does not: applying them (`healing`, `failure_isolation`, the sensors), or how many
tries a table allows (`extraction.retries` in its `defs.yaml`).
"""

from datetime import timedelta

# A failed window waits for FIRST_DELAY, then GROWTH times longer after each try, and never longer than LONGEST_DELAY.
FIRST_DELAY, GROWTH, LONGEST_DELAY = timedelta(minutes=10), 3, timedelta(days=1)
# A window that arrived and has had no run for so long was overlooked: it changed while a run of it ended, or its request was
# lost.
OVERLOOKED = timedelta(hours=6)
# Windows that failed together run again in ranges of at most this size after the first failed try, the second, …, and in at
# least PARTS ranges, so that the window at fault is alone in the end.
RANGE_SIZES, PARTS = (64, 16, 4, 1), 4
# One run may span several gaps if there are more than MAX_SINGLE_GAPS of them and at most MAX_BRIDGE windows lie between two. A
# run costs some twenty seconds to start; passing over an unchanged window costs some hundredths of one.
MAX_SINGLE_GAPS, MAX_BRIDGE = 4, 24
# After this many equal errors in a row, single windows run before any further range.
EQUAL_FAILURES = 4
# After this many single windows with equal errors in a row, the source is down: before any window has succeeded, and after.
LIMIT_BEFORE_SUCCESS, LIMIT_AFTER_SUCCESS = 8, 64
# A stream whose source failed is tried again after the first of these, then twice as long each time, up to the last.
FIRST_STREAM_DELAY, LONGEST_STREAM_DELAY = timedelta(seconds=1), timedelta(seconds=60)
# Gold that failed runs again at these times.
GOLD_RETRY_CRON = "0 */6 * * *"


def retry_delay(failures: int) -> timedelta:
    """Return the delay of the next try after the last of so many failures: 10 min, 30 min, 90 min, 4.5 h, 13.5 h, then a day.

    >>> [str(retry_delay(n)) for n in (1, 2, 5, 6)]
    ['0:10:00', '0:30:00', '13:30:00', '1 day, 0:00:00']
    """
    return min(FIRST_DELAY * GROWTH ** min(failures - 1, 20), LONGEST_DELAY)


def stream_retry_delay(failures: int) -> timedelta:
    """Return how long after the last of so many failures a stream is tried again.

    >>> [stream_retry_delay(n).seconds for n in (1, 2, 3, 7, 1000)]
    [1, 2, 4, 60, 60]
    """
    return min(FIRST_STREAM_DELAY * 2 ** min(failures - 1, 20), LONGEST_STREAM_DELAY)
