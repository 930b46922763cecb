"""Search for settings: `tdt tune` and its parts."""
