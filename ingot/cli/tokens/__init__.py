"""`ingot tokens`: token data sets as Megatron reads them."""

from ingot.cli.command import Command, command_group
from ingot.cli.tokens.build import build_tokens
from ingot.cli.tokens.tools import inspect, merge, verify

tokens = command_group("Build, inspect, merge and verify token data sets (.bin/.idx).")
tokens.command("build", cls=Command)(build_tokens)
tokens.command("inspect", cls=Command)(inspect)
tokens.command("merge", cls=Command)(merge)
tokens.command("verify", cls=Command)(verify)
