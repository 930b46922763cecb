"""Reasons, for error messages, why tdt does not support parts of `torch.distributed`."""

SHARDED = "tdt trains in one process and does not shard models; use the module as it is, or nn.DataParallel"
MESH = "tdt trains in one process, so there is no mesh of devices; use the tensor or module as it is"
AVERAGED = "tdt trains in one process, so there are no models of other processes to average with"
SENT = "tdt trains in one process, which sends no gradients"
