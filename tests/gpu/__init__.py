"""The GPU path without a GPU: `PYTHONPATH=tests/gpu/standin pytest --no-budget tests/gpu`. See docs/guide/gpu.md."""
