import os

os.environ["HF_HUB_OFFLINE"] = "1"  # before anything imports the hub's client

# these import TRL, which the plain environment does not have
collect_ignore = ["tiny.py", "two_processes.py"]
