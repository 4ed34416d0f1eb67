"""Run every benchmark: ``python -m tests.benchmarks``, or some by name (``... cli trainer``)."""

import importlib
import sys

NAMES = ("bootstrap", "cli", "jsonl", "many_runs", "tensorboard", "trainer")


def main(names):
    """Run the named benchmarks, all by default."""
    for name in names or NAMES:
        if name not in NAMES:
            sys.exit(f"no benchmark {name!r}; known: {', '.join(NAMES)}")
        print(f"== {name}", flush=True)
        importlib.import_module(f"tests.benchmarks.bench_{name}").main()


if __name__ == "__main__":
    main(sys.argv[1:])
