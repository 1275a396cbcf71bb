"""`python -m lakehouse_assets.cli`: the command, where its script is not on the path.

Belongs here: that call alone.
"""

from lakehouse_assets.cli import main

main()
