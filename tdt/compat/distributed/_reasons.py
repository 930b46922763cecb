"""Reasons, for error messages, why tdt does not support parts of `torch.distributed`."""

SHARDED = "tdt does not shard models; use the module as it is, nn.DataParallel, or nn.parallel.DistributedDataParallel"
MESH = (
    "tdt has no meshes of devices, but groups of processes (distributed.new_group); use the tensor or module as it is"
)
AVERAGED = "tdt averages gradients, not models; use nn.parallel.DistributedDataParallel"
SENT = "tdt sends gradients as they are; use nn.parallel.DistributedDataParallel without a hook"
