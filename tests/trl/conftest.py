import os

os.environ["HF_HUB_OFFLINE"] = "1"  # before anything imports the hub's client

collect_ignore = ["tiny.py"]  # imports TRL, which the plain environment does not have
