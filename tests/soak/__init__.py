"""Random inputs, random fits and random faults, for as long as one likes: `make soak MINUTES=20`.

An *input* goes to a reader, a check or a loader; a *fit* has a random table and random settings of
one of the methods; a *fault* hits a fit or its files from outside. Each ends in a right result or
in a clear error. Every case has a name, such as ``fault/kill/order-mcmc/17``, from which and from
the seed it can be repeated alone: ``--seed 3 --case fault/kill/order-mcmc/17``.
"""
