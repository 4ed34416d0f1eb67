"""Run the program as ``python -m twoclock``."""

from twoclock.cli import main

if __name__ == "__main__":
    main()
