"""Other tools that measure the same rules, each in an environment of its own and in a process that times itself.

Belongs here: a file for each peer, which states the rules in that tool's own words, and what it takes to run them. Does not:
comparing them (`benchmarks.rules`). The peers' files run without the project: they import the tool and `peer_server` alone.
"""
