"""The trainer behind the command `tdt`: config, build, loop, events, checkpoints, run folders."""
