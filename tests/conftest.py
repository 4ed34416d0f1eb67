"""What several test files share."""

import pytest

from twoclock.cli import main


@pytest.fixture
def run(capsys):
    """Run the program; return exit code, stdout and stderr."""

    def call(*arguments):
        code = 0
        try:
            main([str(a) for a in arguments])
        except SystemExit as stop:
            code = stop.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call
