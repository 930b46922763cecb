"""The PyTorch scripts that the bundled configs equal: a test runs both and lays their loss curves over each other."""
