"""The `twoclock` program: its commands, and how an error becomes one line and an exit code.

Exit codes: 0 at least one run was usable; 1 none was, or something could not be read or written;
2 wrong usage; 3 (`fit --strict`) a headline rests on one run or one batch size; 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import typer

from twoclock.cli import convert, fit, look, simulate, sweep, training
from twoclock.errors import NoUsableRuns, SettingsError, TwoclockError
from twoclock.notes import Refusal, printable, refusal_lines

app = typer.Typer(
    name="twoclock",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=(
        "What does a larger GRPO rollout batch cost, and what does it risk? Fits the learning "
        "clock (responses to a target accuracy) and the failure clock (responses to collapse) "
        "from run logs."
    ),
    epilog="Start with:  twoclock runs LOGDIR   then   twoclock fit LOGDIR --out report",
)

app.command()(fit.fit)
app.command()(look.runs)
app.command()(look.events)
app.command()(look.schema)
app.command()(convert.convert)
app.command()(training.train)
app.command()(sweep.sweep)
app.command()(simulate.simulate)


def _version(*, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(version("twoclock"))
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False,
        "--version",
        help="Print the version and exit.",
        is_eager=True,
        callback=lambda value: _version(wanted=value),
    ),
) -> None:
    del version  # its callback has answered


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program; errors that a user can cause are one line on stderr.

    Parameters
    ----------
    arguments : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    try:
        app(args=None if arguments is None else list(arguments))
    except NoUsableRuns as err:
        _say(str(err))
        refused = [Refusal(path, reason) for path, reason in err.refused]
        for line in refusal_lines(refused) if len(refused) > 1 else ():  # one is the message
            _say(line, prefix="  ")
        sys.exit(1)
    except SettingsError as err:
        _say(str(err))
        sys.exit(2)
    except TwoclockError as err:
        _say(str(err))
        sys.exit(1)
    except KeyboardInterrupt:
        _say("interrupted")
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has left: nothing to say to anybody
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as err:
        place = f"{err.filename}: " if err.filename else ""
        _say(f"{place}{err.strerror or err}")
        sys.exit(1)


def _say(text: str, *, prefix: str = "twoclock: ") -> None:
    print(prefix + printable(" ".join(text.splitlines())), file=sys.stderr)
