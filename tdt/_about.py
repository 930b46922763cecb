"""The version, the name of the distribution, and hints how to install extras."""

from __future__ import annotations

__version__ = "0.1.0"

# The prefix in the `repr` of dtypes and sizes. `tdt.as_torch` sets it to "torch": programs parse such names.
prefix = "tdt"

# The defining modules of classes whose `__module__` `tdt.as_torch` has set to PyTorch's name.
homes: dict[type, str] = {}


def home(kind: type) -> str:
    """The module in which a class is defined.

    >>> import tdt
    >>> from tdt._about import home
    >>> home(tdt.Tensor)
    'tdt._core.tensor'
    """
    return homes.get(kind, kind.__module__)


# The package index has another project called "tdt"; only the package and the command carry the short name.
DISTRIBUTION = "tdt-train"


def install_hint(extra: str) -> str:
    """The command that installs tdt with an extra.

    >>> from tdt._about import install_hint
    >>> install_hint("cuda12")
    "pip install 'tdt-train[cuda12]'"
    """
    return f"pip install '{DISTRIBUTION}[{extra}]'"
