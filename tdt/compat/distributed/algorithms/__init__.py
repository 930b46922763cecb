"""`torch.distributed.algorithms`."""

from tdt.compat.distributed.algorithms.join import Join as Join
from tdt.compat.distributed.algorithms.join import Joinable as Joinable
from tdt.compat.distributed.algorithms.join import JoinHook as JoinHook
