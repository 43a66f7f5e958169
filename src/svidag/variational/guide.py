"""The edge guide q(γ | r): edge logits given the node potentials.

A density guide maps base noise to logits, γ = T_φ(z; r) with z ~ N(0, I) over the m(m − 1) ordered
pairs, and keeps the log-determinant of the same forward pass, so that

    log q(γ | r) = log N(z; 0, I) − log |det ∂T_φ(z; r)/∂z|

needs no inverse (Eq. ELBO-flow-general). `FlowGuide` is a conditional normalising flow of any
family, `MeanFieldGuide` its ablation, `BernoulliGuide` the guide over B itself of Eq. ELBO-br.
Everything acts on one r; the caller vmaps over particles.

The trainable parameters are the inexact-array leaves of a guide, so that
`eqx.partition(guide, eqx.is_inexact_array)` separates them: permutations and autoregressive masks
are integers and booleans, spline settings are Python numbers. flowjax keeps some parameters
unconstrained inside wrappers (paramax); its bijections unwrap themselves when called, so a guide
is optimised as it stands and `paramax.unwrap` is only for looking at a constrained value.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict
from math import isqrt
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from flowjax.bijections import AbstractBijection, Affine, Chain
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from svidag.kernels import noise
from svidag.networks.flows import FlowFamily, FlowSettings, conditional_flow, undrawn_flow

__all__ = ["BernoulliGuide", "EdgeGuide", "FlowGuide", "MeanFieldGuide"]


class EdgeGuide(eqx.Module):
    """A density over edge logits given potentials, with zero logits on the diagonal.

    Examples
    --------
    >>> import jax.random as jr
    >>> guides = [MeanFieldGuide(2), FlowGuide(2, family="affine-coupling", key=jr.key(0))]
    >>> all(isinstance(guide, EdgeGuide) for guide in guides)
    True
    """

    @abstractmethod
    def sample_and_log_prob(
        self, key: PRNGKeyArray, r: Float[Array, " m"]
    ) -> tuple[Float[Array, "m m"], Float[Array, ""]]:
        """One draw γ ~ q(γ | r) and its log density over the m(m − 1) pairs."""

    @abstractmethod
    def log_prob(self, gamma: Float[Array, "m m"], r: Float[Array, " m"]) -> Float[Array, ""]:
        """Log q(γ | r) at any γ; the diagonal of γ is ignored."""

    def sample(self, key: PRNGKeyArray, r: Float[Array, " m"]) -> Float[Array, "m m"]:
        """One draw γ ~ q(γ | r)."""
        return self.sample_and_log_prob(key, r)[0]


class FlowGuide(EdgeGuide):
    """γ = T_φ(z; r − r̄), a conditional flow that ends in a learnable affine layer.

    Only differences of potentials matter, so the condition is centred. The affine layer carries γ
    beyond the spline's boundary; conditioners start at zero, so that the first guide is
    N(location, scale²) on every pair.

    Parameters
    ----------
    m
        Number of variables, at least two.
    family
        A name in `FAMILIES`, or a function (dim, condition_dim, settings) → bijection whose
        forward pass is z → γ; the weights of its networks are drawn afresh.
    blocks, bins, boundary, width, depth
        Flow blocks; spline bins on [−boundary, boundary]; hidden width and number of hidden layers
        of each conditioner.
    location, scale
        Where the guide starts: numbers or [m, m] arrays, for instance the prior's mean logits.
    key
        Draws the weights; None leaves them open, for the shapes alone (`eqx.filter_eval_shape`).

    Examples
    --------
    >>> import jax.numpy as jnp, jax.random as jr
    >>> guide = FlowGuide(3, location=-1.0, key=jr.key(0))
    >>> gamma, log_q = guide.sample_and_log_prob(jr.key(1), jnp.array([0.3, -1.0, 0.8]))
    >>> gamma.shape, log_q.shape
    ((3, 3), ())
    """

    bijection: AbstractBijection
    family: str | FlowFamily = eqx.field(static=True)
    settings: FlowSettings = eqx.field(static=True)

    def __init__(
        self,
        m: int,
        *,
        family: str | FlowFamily = "spline-coupling",
        blocks: int = 5,
        bins: int = 8,
        boundary: float = 5.0,
        width: int = 64,
        depth: int = 2,
        location: ArrayLike = 0.0,
        scale: ArrayLike = 1.0,
        key: PRNGKeyArray | None,
    ):
        _check_size(m)
        self.family = family
        self.settings = FlowSettings(blocks, bins, boundary, width, depth)
        if key is None:
            flow = undrawn_flow(family, m * (m - 1), m, self.settings)
        else:
            flow = conditional_flow(key, m * (m - 1), m, self.settings, family)
        affine = _affine(_pair_values(location, m), _pair_values(scale, m))
        self.bijection = _chain(flow, affine)

    def parts(self) -> dict[str, Any]:
        """What the guide can be built from again: its family, settings and arrays."""
        if not isinstance(self.family, str):
            raise ValueError(
                f"a guide with a flow of your own ({self.family}) cannot be saved; "
                "only the families that have a name can be built again"
            )
        return {"family": self.family, "settings": asdict(self.settings), "arrays": _arrays(self)}

    @classmethod
    def from_parts(cls, parts: Mapping[str, Any]) -> "FlowGuide":
        """The guide of these parts, which must agree in name, shape and type.

        Settings are held against the arrays first: they cannot ask for a larger guide.
        """
        family, arrays = parts["family"], parts["arrays"]
        settings = FlowSettings(**parts["settings"])
        pairs = len(next(array for name, array in arrays.items() if name.endswith(".loc")))
        bends = settings.bins if family.startswith("spline") else 1
        wide = pairs // 2 * (1 + bends) + max(settings.depth - 1, 0) * settings.width
        if settings.blocks * settings.width * wide > sum(a.size for a in arrays.values()):
            raise ValueError("the settings of a network ask for more parameters than there are")
        m = (1 + isqrt(1 + 4 * pairs)) // 2

        def build() -> FlowGuide:
            return cls(m, family=family, **parts["settings"], key=None)

        # Shapes need no compilation; but flowjax's own layers keep arrays inside functions.
        own = family == "spline-coupling"
        return _filled(eqx.filter_eval_shape(build) if own else build(), arrays)

    def sample_and_log_prob(
        self, key: PRNGKeyArray, r: Float[Array, " m"]
    ) -> tuple[Float[Array, "m m"], Float[Array, ""]]:
        """One draw γ and log q(γ | r), both from the forward pass."""
        z = noise.normal(key, self.bijection.shape)
        gamma, log_det = self.bijection.transform_and_log_det(z, _centred(r))
        return _to_matrix(gamma, r.shape[0]), _standard_normal(z) - log_det

    def log_prob(self, gamma: Float[Array, "m m"], r: Float[Array, " m"]) -> Float[Array, ""]:
        """Log q(γ | r) through the inverse."""
        z, log_det = self.bijection.inverse_and_log_det(_to_pairs(gamma), _centred(r))
        return _standard_normal(z) + log_det


class MeanFieldGuide(EdgeGuide):
    """γ_ij = μ_ij + e^{s_ij} z_ij, independent of each other and of r: the ablation of the flow.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> guide = MeanFieldGuide(3)
    >>> round(float(guide.log_prob(jnp.zeros((3, 3)), jnp.zeros(3))), 3)  # −3 log 2π: six pairs
    -5.514
    """

    location: Float[Array, " D"]
    log_scale: Float[Array, " D"]

    def __init__(self, m: int, *, location: ArrayLike = 0.0, scale: ArrayLike = 1.0):
        _check_size(m)
        self.location = jax.device_put(_pair_values(location, m))
        self.log_scale = jax.device_put(np.log(_pair_values(scale, m)))

    def sample_and_log_prob(
        self, key: PRNGKeyArray, r: Float[Array, " m"]
    ) -> tuple[Float[Array, "m m"], Float[Array, ""]]:
        """One draw γ and log q(γ)."""
        z = noise.normal(key, self.location.shape)
        gamma = self.location + jnp.exp(self.log_scale) * z
        return _to_matrix(gamma, r.shape[0]), _standard_normal(z) - self.log_scale.sum()

    def log_prob(self, gamma: Float[Array, "m m"], r: Float[Array, " m"]) -> Float[Array, ""]:
        """Log q(γ)."""
        z = (_to_pairs(gamma) - self.location) * jnp.exp(-self.log_scale)
        return _standard_normal(z) - self.log_scale.sum()


class BernoulliGuide(eqx.Module):
    """q(B) = Π Bernoulli(σ(l_ij)) over the edges themselves: the paper's bound without a flow.

    Its logits are parameters, not draws, so there is no density over γ: in the bound, minus `kl`
    takes the place of log p(γ) − log q(γ | r). Sums are over ordered pairs; the diagonal is idle.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> guide = BernoulliGuide(jnp.full((3, 3), -1.0))
    >>> prior = jnp.ones((3, 3))
    >>> bool(guide.kl(prior, prior) == -guide.expected_log_prior(prior, prior) - guide.entropy())
    True
    """

    logits: Float[Array, "m m"]

    def sample(self, key: PRNGKeyArray, r: Float[Array, " m"]) -> Float[Array, "m m"]:
        """Return the logits with a zero diagonal, whatever the key and the potentials."""
        return _to_matrix(_to_pairs(self.logits), r.shape[0])

    def entropy(self) -> Float[Array, ""]:
        """−E_q log q(B) = Σ log(1 + e^l) − l σ(l)."""
        logits = _to_pairs(self.logits)
        return (jax.nn.softplus(logits) - logits * jax.nn.sigmoid(logits)).sum()

    def expected_log_prior(
        self, alpha: Float[Array, "m m"], beta: Float[Array, "m m"]
    ) -> Float[Array, ""]:
        """E_q log p(B) under the Beta-Bernoulli prior, p(B_ij = 1) = α_ij/(α_ij + β_ij)."""
        logits = _to_pairs(self.logits)
        prior = jnp.log(_to_pairs(alpha)) - jnp.log(_to_pairs(beta))
        return (prior * jax.nn.sigmoid(logits) - jax.nn.softplus(prior)).sum()

    def kl(self, alpha: Float[Array, "m m"], beta: Float[Array, "m m"]) -> Float[Array, ""]:
        """KL(q(B) ‖ p(B)) in closed form."""
        return -self.expected_log_prior(alpha, beta) - self.entropy()


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray | jax.Array | jax.ShapeDtypeStruct)


def _arrays(tree: Any) -> dict[str, Any]:
    """Every array of a module, by its path."""
    found = jax.tree.leaves_with_path(eqx.filter(tree, _is_array))
    return {jax.tree_util.keystr(path): leaf for path, leaf in found}


def _filled(skeleton: FlowGuide, arrays: Mapping[str, np.ndarray]) -> FlowGuide:
    """The module with other arrays in place of its own."""
    own, rest = eqx.partition(skeleton, _is_array)
    wanted = _arrays(skeleton)
    if wanted.keys() != arrays.keys():
        raise ValueError(
            f"a network has the parameters {sorted(arrays)}; expected {sorted(wanted)}"
        )
    for name, leaf in wanted.items():
        if (leaf.shape, leaf.dtype) != (arrays[name].shape, arrays[name].dtype):
            raise ValueError(f"a network's {name} has the shape {arrays[name].shape}")
    filled = [jnp.asarray(arrays[name]) for name in wanted]
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(own), filled), rest)


def _check_size(m: int) -> None:
    if m < 2:
        raise ValueError(f"m must be at least 2, so that there is a pair; got {m}")


def _affine(location: Float[np.ndarray, " D"], scale: Float[np.ndarray, " D"]) -> Affine:
    """flowjax's layer with its parameters set by NumPy: JAX would compile each operation."""
    empty = eqx.filter_eval_shape(Affine, location, scale)
    set_to = jax.device_put((location, (np.log(np.expm1(scale)),)))
    return eqx.tree_at(lambda affine: (affine.loc, affine.scale.args), empty, set_to)


def _chain(*parts: AbstractBijection) -> Chain:
    """flowjax's chain, whose check of shapes would evaluate every parameter."""
    return eqx.tree_at(lambda c: c.bijections, eqx.filter_eval_shape(Chain, parts), parts)


def _centred(r: Float[Array, " m"]) -> Float[Array, " m"]:
    return r - r.mean()


def _standard_normal(z: Float[Array, " D"]) -> Float[Array, ""]:
    return jax.scipy.stats.norm.logpdf(z).sum()


def _pair_values(value: ArrayLike, m: int) -> Float[np.ndarray, " D"]:
    full = np.broadcast_to(np.asarray(value, np.float32), (m, m))
    return full[~np.eye(m, dtype=bool)]


# Without its first cell, a flattened m × m matrix is (m − 1) × (m + 1) with the rest of the
# diagonal as its last column: reshapes and no scatter.
def _to_pairs(matrix: Float[Array, "m m"]) -> Float[Array, " D"]:
    """Off-diagonal cells in row-major order."""
    m = matrix.shape[0]
    return matrix.ravel()[1:].reshape(m - 1, m + 1)[:, :-1].ravel()


def _to_matrix(pairs: Float[Array, " D"], m: int) -> Float[Array, "m m"]:
    """Put the pairs around a zero diagonal."""
    rest = jnp.pad(pairs.reshape(m - 1, m), ((0, 0), (0, 1)))
    return jnp.pad(rest.ravel(), (1, 0)).reshape(m, m)
