"""Methods: each a settings object that turns a problem into a posterior, by one contract."""

from svidag.methods.base import Method
from svidag.methods.bayesdag import BayesDAG
from svidag.methods.bcd_nets import BCDNets
from svidag.methods.dds import DDS
from svidag.methods.dibs import DiBS
from svidag.methods.exact import Exact
from svidag.methods.fitting import fit
from svidag.methods.order_mcmc import OrderMCMC
from svidag.methods.prodag import ProDAG
from svidag.methods.registry import METHODS
from svidag.methods.svi_dag import SVIDAG, PublishedSVIDAG

__all__ = [
    "DDS",
    "METHODS",
    "SVIDAG",
    "BCDNets",
    "BayesDAG",
    "DiBS",
    "Exact",
    "Method",
    "OrderMCMC",
    "ProDAG",
    "PublishedSVIDAG",
    "fit",
]
