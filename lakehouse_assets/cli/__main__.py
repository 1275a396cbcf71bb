"""`python -m lakehouse_assets.cli`: the command, where its script is not on the path."""

from lakehouse_assets.cli import main

main()
