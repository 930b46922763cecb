"""cuDNN on the host. It may be absent: its name is not NVIDIA's, so that only tests of it find it."""

from __future__ import annotations

from cupy._host_library import HostLibrary

EXECUTION_FAILED = 5000
LIBRARY = HostLibrary(
    "cudnn.c", "libcudnn_fake.so.9", "cudnn_execute", "cudnn_run", "cudnnBackendExecute",
    "a problem's tensors, the workspace", EXECUTION_FAILED, 12, ("numbers.h", "cudnn_graphs.h"),
)  # fmt: skip
