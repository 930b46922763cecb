"""`torch.hub` without the network: models of a folder with a `hubconf.py`, and weights that were downloaded before."""

from __future__ import annotations

import builtins
import os
import re
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlparse

from tdt.compat._refusal import refused

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

HUBCONF = "hubconf.py"
_folder: str | None = None

download_url_to_file = refused("hub.download_url_to_file", "tdt downloads no models; get the file by other means")


HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")  # the digest in a file's name, as in resnet18-f37072fd.pth


def _get_torch_home() -> str:
    """The folder of PyTorch's files: $TORCH_HOME, else torch in the cache folder."""
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch")))


def get_dir() -> str:
    """The folder of the hub: the one passed to `set_dir`, else $TORCH_HOME/hub, else torch/hub in the cache folder."""
    if _folder is not None:
        return _folder
    return os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike) -> None:
    """Set the folder of the hub to `d`."""
    global _folder
    _folder = os.path.expanduser(d)


def _hubconf(function: str, repo: str, source: str) -> ModuleType:
    """The module `hubconf.py` of a folder, which runs it."""
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    if source == "github":
        raise NotImplementedError(
            f"hub.{function}: tdt downloads no repositories; clone {repo} and give its folder with source='local'"
        )
    path = os.path.join(repo, HUBCONF)
    loader = SourceFileLoader("hubconf", path)
    module = module_from_spec(spec_from_loader("hubconf", loader))  # type: ignore[arg-type]
    sys.path.insert(0, repo)
    try:
        loader.exec_module(module)
    finally:
        sys.path.remove(repo)
    for library in getattr(module, "dependencies", []):
        __import__(library)
    return module


def _entry(module: ModuleType, name: str) -> Any:
    if not isinstance(name, str):
        raise ValueError("Invalid input: model should be a string of function name")
    function = getattr(module, name, None)
    if not callable(function):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return function


def list(
    github: str, force_reload: bool = False, skip_validation: bool = False, trust_repo: Any = "check",
    verbose: bool = True, *, source: str = "github",
) -> builtins.list[str]:  # fmt: skip
    """The names of the functions in a folder's `hubconf.py` (source="local"), which is run."""
    module = _hubconf("list", github, source)
    return [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]


def help(
    github: str, model: str, force_reload: bool = False, skip_validation: bool = False, trust_repo: Any = "check", *,
    source: str = "github",
) -> str | None:  # fmt: skip
    """The docstring of a function in a folder's `hubconf.py` (source="local"), which is run."""
    return _entry(_hubconf("help", github, source), model).__doc__


def load(
    repo_or_dir: str, model: str, *args: Any, source: str = "github", trust_repo: Any = "check",
    force_reload: bool = False, verbose: bool = True, skip_validation: bool = False, **kwargs: Any,
) -> Any:  # fmt: skip
    """Call a function in a folder's `hubconf.py` and return its result.

    Args:
        repo_or_dir: the folder; its `hubconf.py` is run.
        model: the function's name. RuntimeError if `hubconf.py` has no such function.
        args, kwargs: the arguments of the function.
        source: "local"; NotImplementedError for "github".
    """
    return _entry(_hubconf("load", repo_or_dir, source), model)(*args, **kwargs)


def load_state_dict_from_url(
    url: str, model_dir: str | None = None, map_location: Any = None, progress: bool = True, check_hash: bool = False,
    file_name: str | None = None, weights_only: bool = True,
) -> dict[str, Any]:  # fmt: skip
    """The weights of a file that was downloaded before.

    Args:
        url: where the file comes from; the last part of its path is the file's name.
        model_dir: the folder where the file lies; by default `checkpoints` in `get_dir()`.
        map_location: as in `load`.
        file_name: the file's name, if it differs from that in the URL.
        weights_only: as in `load`. True by default, unlike in PyTorch: a downloaded file runs no code.

    Raises:
        FileNotFoundError: when the file does not exist.
    """
    import tdt

    folder = Path(model_dir) if model_dir is not None else Path(get_dir(), "checkpoints")
    path = folder / (file_name or os.path.basename(urlparse(url).path))
    if not path.is_file():
        raise FileNotFoundError(f"hub.load_state_dict_from_url: tdt downloads no models; download {url} to {path}")
    return tdt.load(path, map_location=map_location, weights_only=weights_only)
