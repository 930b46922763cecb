"""Jacobians, Hessians and their products with vectors; made in `tdt/autograd/_functional.py`."""

from tdt.autograd._functional import hessian, hvp, jacobian, jvp, vhp, vjp

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]
