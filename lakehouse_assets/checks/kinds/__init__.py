"""The kinds of checks, a file for each subject."""
