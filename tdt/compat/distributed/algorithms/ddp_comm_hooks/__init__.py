"""`torch.distributed.algorithms.ddp_comm_hooks`: how gradients are sent to other processes; refused."""
