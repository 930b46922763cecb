"""Settings of the C library's allocator for the memory of arrays."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
from pathlib import Path
import numpy as np
before = Path("/proc/self/statm").read_text().split()
import tdt._backend._malloc as m
m.keep_freed_memory()
after = Path("/proc/self/statm").read_text().split()
a = np.empty(8 << 20, np.uint8)
place = a.__array_interface__["data"][0] + a.size // 2  # its first part may lie in what the heap had before
flags = ""
for line in Path("/proc/self/smaps").read_text().splitlines():
    first = line.split()[0]
    if "-" in first:
        begin, end = (int(part, 16) for part in first.split("-"))
    elif first == "VmFlags:" and begin <= place < end:
        flags = line
print("hg" in flags.split(), int(after[0]) - int(before[0]) > 0, (int(after[1]) - int(before[1])) * 4096)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="asks glibc")
@pytest.mark.skipif(not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="the kernel has no huge pages")
def test_large_arrays_lie_in_huge_pages_and_asking_for_them_takes_no_memory():
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    huge, resized, used = run.stdout.split()
    assert huge == resized == "True"
    assert int(used) < 16 << 20
