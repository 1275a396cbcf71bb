"""Backups of a lake: a consistent set of table versions, and the files of them by their checksums.

Belongs here: reading a lake's state, the manifest, and the store of file contents. Does not: making a backup or restoring one
(operations).
"""
