# imports TRL, which the plain environment does not have
collect_ignore = ["trl_worker.py"]
