"""The streams: the process that makes a window of what has arrived, one table after the other."""
