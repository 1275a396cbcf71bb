"""`python -m benchmarks.peers setup NAME …`: make the environments in which peers run; `list`: which there are.

Belongs here: arguments. Does not: what is in an environment.
"""

from typing import Annotated

import typer
from rich.console import Console

from benchmarks.peers.environments import PEERS

app = typer.Typer(no_args_is_help=True)
out = Console(highlight=False)


@app.command()
def setup(names: Annotated[list[str], typer.Argument(help=f"Any of {', '.join(PEERS)}, or `all`.")]) -> None:
    """Make the environments of these peers anew, some hundred megabytes each."""
    wanted = list(PEERS) if names == ["all"] else names
    for name in wanted:
        if name not in PEERS:
            raise typer.BadParameter(f"there is no {name!r}; there are {', '.join(PEERS)}")
    for name in wanted:
        PEERS[name].set_up()
        out.print(f"{name}: ready in {PEERS[name].home}")


@app.command("list")
def listed() -> None:
    """Which peers there are, where their environments are, and whether they are ready."""
    for name, peer in PEERS.items():
        out.print(f"{name}: {peer.title}, {'ready' if peer.ready else 'not set up'}, {peer.home}")


if __name__ == "__main__":
    app()
