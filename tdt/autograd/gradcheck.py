"""Gradients against finite differences; written down in `tdt.testing`, since nothing here needs it."""

from tdt.testing._gradcheck import GradcheckError, gradcheck, gradgradcheck

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]
