"""`aos-context demo`: boot a run, change it, be refused once, and pack it up."""

from __future__ import annotations

import os
from pathlib import Path

import click

from strongroom.compat.aos_context import _locations
from strongroom.compat.aos_context.context_brief import render_context_brief
from strongroom.compat.aos_context.resume_pack import snapshot_resume_pack
from strongroom.compat.aos_context.ws_manager import WorkingSetManager


@click.group()
def main() -> None:
    """The AoS Context Module's command line, over Strongroom."""


@main.command()
@click.option("--root", default="runs", show_default=True, help="the folder that holds run folders")
def demo(root: str) -> None:
    """Show a working set, optimistic locking and a resume pack."""
    run_id = f"run_{os.urandom(8).hex()}"
    folder = Path(root) / run_id
    manager = WorkingSetManager(folder / "state" / _locations.WORKING_SET)
    manager.create_initial(
        task_id="task_demo",
        thread_id="thread_demo",
        run_id=run_id,
        objective="Show how a run is kept",
        acceptance_criteria=["The state survives this process"],
        constraints=["No update is lost"],
    )
    patch = {"_schema_version": "2.1", "expected_seq": 0, "set": {"status": "BUSY", "next_action": "Look around"}}
    click.echo(f"run {run_id} in {folder}")
    click.echo(f"first update: {'applied' if manager.apply_patch(patch).ok else 'refused'}")
    click.echo(f"the same again: {manager.apply_patch(patch).error}")
    click.echo(render_context_brief(manager.load()))
    made = snapshot_resume_pack(run_dir=folder, output_dir=folder / "resume")
    if not made.ok:
        raise click.ClickException(str(made.error))
    click.echo(f"resume pack: {made.pack_dir}, and as one file {made.pack_zip}")


if __name__ == "__main__":
    main()
