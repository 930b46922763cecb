"""The test suite; its folders mirror tdt/."""
