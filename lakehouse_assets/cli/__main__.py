"""`python -m lakehouse_assets.cli` runs `lakehouse` where its script is not on the PATH.

Belongs here: that call alone. Does not: a command (a file of cli/ for each group, all added in cli/__init__).
"""

from lakehouse_assets.cli import main

main()
