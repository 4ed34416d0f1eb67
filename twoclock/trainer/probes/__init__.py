"""Probes: the local theory's quantities, measured around the K updates of chosen rollouts.

`measure` takes them from a crew, `objective` differentiates the expected reward, `estimates` turns
what was seen in the parts of a held-out rollout into estimates with standard errors, `path` adds up
step lengths. The columns are described in `twoclock.schema.PROBES`. Probes draw from generators of
their own and change nothing of the training.

How the columns meet the theory ``dJ = K*eta*rho*g - (K**2*rho**2*kappa + K*E*tr(H S)) * eta**2/2``,
with L the sum of the K steps' lengths (`update_length` / `path_ratio`), which stands for K*eta:

- ``K*eta*rho*g`` is `first_order_gain` = sqrt(`objective_square`) * rho * L with the mean alignment
  of the steps, rho = `update_cosine` * `path_ratio`. `alignment` is what rho would be for plain
  gradients of minibatches, from the noise batch size alone;
- ``K**2 * rho**2 * kappa * eta**2 / 2`` is `coherent_loss`: curvature along the mean update;
- ``K * E * tr(H S) * eta**2 / 2`` is `noise_loss`: curvature along what differs between updates.

An average of shares over probes is best taken as a ratio of averages (losses over gains), since a
share is not given where its gain is not above 0. The expected reward is that of sampling at the
training's temperature.
"""
