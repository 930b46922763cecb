"""Jacobians, Hessians and their products with vectors; made in `tdt/_functional.py`."""

from tdt._functional import hessian, hvp, jacobian, jvp, vhp, vjp

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]
