"""Every method by its name: an instance with its usual settings."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from svidag.methods.base import Method
from svidag.methods.bayesdag import BayesDAG
from svidag.methods.bcd_nets import BCDNets
from svidag.methods.dds import DDS
from svidag.methods.dibs import DiBS
from svidag.methods.exact import Exact
from svidag.methods.order_mcmc import OrderMCMC
from svidag.methods.prodag import ProDAG
from svidag.methods.svi_dag import SVIDAG, PublishedSVIDAG
from svidag.run.settings import suggest

_REGISTERED = {
    method.name: method
    for method in (
        OrderMCMC(),
        SVIDAG(),
        PublishedSVIDAG(),
        Exact(),
        DiBS(),
        BayesDAG(),
        DDS(),
        ProDAG(),
        BCDNets(),
    )
}

METHODS: Mapping[str, Method] = MappingProxyType(_REGISTERED)
"""Methods with their usual settings, the default first."""


def find_method(method: str | Method) -> Method:
    """A method by its name, or a method itself.

    Examples
    --------
    >>> find_method("order-mcmd")
    Traceback (most recent call last):
        ...
    ValueError: unknown method 'order-mcmd'; did you mean 'order-mcmc'?
    """
    if isinstance(method, Method):
        return method
    if not isinstance(method, str):
        raise ValueError(
            f"method must be a name or one of svidag.methods; got {type(method).__name__}"
        )
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}{suggest(method, METHODS)}")
    return METHODS[method]
