"""`ingot lake`: many data sets under one folder."""

from ingot.cli.command import Command, command_group
from ingot.cli.lake.review import review_lake
from ingot.cli.lake.run import run

lake = command_group("Convert all data sets below a folder, and review those that wait.")
lake.command("run", cls=Command)(run)
lake.command("review", cls=Command)(review_lake)
