"""The version, the name of the distribution, and hints how to install extras."""

from __future__ import annotations

__version__ = "0.1.0"

# What `repr` of a dtype or a size begins with. `tdt.as_torch` makes it PyTorch's: programs take such names apart.
prefix = "tdt"

# Where classes are defined whose `__module__` `tdt.as_torch` has made PyTorch's.
homes: dict[type, str] = {}


def home(kind: type) -> str:
    """The module in which a class is defined.

    >>> import tdt
    >>> home(tdt.Tensor)
    'tdt._core.tensor'
    """
    return homes.get(kind, kind.__module__)


# The package index has another project called "tdt"; only the package and the command carry the short name.
DISTRIBUTION = "tdt-train"


def install_hint(extra: str | None = None) -> str:
    """The command that installs tdt, with an extra where one is named.

    >>> install_hint("cuda12")
    "pip install 'tdt-train[cuda12]'"
    """
    return f"pip install '{DISTRIBUTION}[{extra}]'" if extra else f"pip install {DISTRIBUTION}"
