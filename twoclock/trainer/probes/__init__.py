"""Probes: the local theory's quantities, measured around the K updates of chosen rollouts.

`measure` takes them from a crew, `objective` differentiates the expected reward, `estimates` turns
what was seen in the parts of a held-out rollout into estimates with standard errors, `path` adds up
step lengths. The columns are described in `twoclock.schema.PROBES`. Probes draw from generators of
their own and change nothing of the training.
"""
