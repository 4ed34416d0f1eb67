"""The command line: parse, call the library, print. The only place that prints or exits."""

from twoclock.cli.app import app, main

__all__ = ["app", "main"]
