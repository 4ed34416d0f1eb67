"""Runs and events with known truth: `truth` states it, `runs` draws it, `logs` writes logs."""
