"""Configs that `tdt init` writes: from a template, or for data."""
