"""cuDNN's convolutions on the host. cuDNN may be absent: its name is not NVIDIA's, so that only tests of it find it."""

from __future__ import annotations

from cupy._host_library import HostLibrary

EXECUTION_FAILED = 5000
LIBRARY = HostLibrary(
    "cudnn.c", "libcudnn_fake.so.9", "cudnn_execute", "cudnn_run", "cudnnBackendExecute",
    "x, w and y, the workspace", EXECUTION_FAILED,
)  # fmt: skip
