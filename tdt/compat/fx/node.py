"""`torch.fx.node`: the nodes of graphs, which tdt does not make."""

from tdt.compat.fx import Node, map_arg

__all__ = ["Node", "map_arg"]
