"""twoclock."""
