"""The kernel loader: a kernel is compiled once, kept safely, and never found stale."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]

USE = """
import sys
import numpy as np
from tdt._kernels.softmax_cpu import log_softmax
out = log_softmax(np.linspace(0, 1, 20000, dtype=np.float32).reshape(10000, 2), dim=1)
assert abs(out[0, 0] + 0.6931722) < 1e-5, out[0]
from tdt._kernels import _cache
print("llvmlite" in sys.modules, _cache.cache_folder())
"""


def run(code: str, folder: Path, **environment: str) -> tuple[bool, str]:
    """Whether a fresh process that ran `code` had to compile, and the folder it kept kernels in."""
    done = start(code, folder, **environment)
    out, err = done.communicate(timeout=120)
    assert done.returncode == 0, err
    compiled, place = out.split()
    return compiled == "True", place


def start(code: str, folder: Path, root: Path = ROOT, **environment: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(root), "XDG_CACHE_HOME": str(folder), **environment},
        cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_the_second_process_loads_what_the_first_compiled_without_a_compiler(tmp_path):
    compiled, place = run(USE, tmp_path)
    assert compiled
    assert Path(place).is_relative_to(tmp_path)
    assert run(USE, tmp_path) == (False, place)


def test_processes_that_start_together_on_a_cold_cache_all_get_right_kernels(tmp_path):
    together = [start(USE, tmp_path) for _ in range(3)]
    for process in together:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    assert run(USE, tmp_path)[0] is False
    (folder,) = (tmp_path / "tdt").iterdir()
    assert all(file.suffix == ".o" for file in folder.iterdir()), "temporary files were left behind"


def test_an_edited_helper_is_compiled_again(tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(ROOT / "tdt", copy / "tdt", ignore=shutil.ignore_patterns("__pycache__"))
    code = (
        "import numpy as np; from tdt._kernels.softmax_cpu import softmax;"
        "print(float(softmax(np.arange(20000, dtype=np.float32).reshape(10000, 2), dim=1)[0, 0]))"
    )

    def value() -> float:
        process = start(code, tmp_path / "cache", root=copy)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        return float(out)

    assert value() == pytest.approx(0.2689414, abs=1e-6)
    helper = copy / "tdt/_kernels/_exponential.py"
    text = helper.read_text()
    assert "1.66664720e-1, 4.99999851e-1)" in text
    stamp = helper.stat()
    helper.write_text(text.replace(" 4.99999851e-1)", " 9.99999851e-1)"))  # the same length
    os.utime(helper, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))  # and the same time
    shutil.rmtree(copy / "tdt/_kernels/__pycache__", ignore_errors=True)
    assert value() != pytest.approx(0.2689414, abs=1e-6)


def test_without_a_writable_cache_kernels_go_to_a_private_temporary_folder(tmp_path):
    (tmp_path / "file").write_text("")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    _, place = run(USE, tmp_path / "file", TMPDIR=str(temporary))
    assert Path(place).is_relative_to(temporary)
    assert Path(place).parent.stat().st_mode & 0o077 == 0


def test_without_any_writable_folder_kernels_still_work(tmp_path):
    (tmp_path / "file").write_text("")
    nowhere = "from tdt._kernels import _cache; from pathlib import Path\n"
    nowhere += f"_cache._user_cache = _cache._private_temporary = lambda: Path({str(tmp_path / 'file')!r}) / 'x'\n"
    assert run(nowhere + USE, tmp_path) == (True, "None")


def test_a_kernel_that_would_need_numba_at_run_time_is_refused():
    from tdt._kernels._compile import compiled
    from tdt._kernels._jit import jit

    @jit
    def allocates(first, last, x):
        y = np.empty(x.size, np.float32)
        y[:] = 1
        x[:] = y + y[::-1]

    with pytest.raises(RuntimeError, match="allocates refers to NRT_.*must not allocate"):
        compiled(allocates, (("<f4", 1, True),))


def test_a_kernel_takes_strided_and_higher_dimensional_arrays_ints_floats_and_bools():
    from tdt._kernels._jit import jit

    @jit
    def fill(first, last, scale, flip, x):
        for i in range(first, last):
            for j in range(x.shape[1]):
                x[i, j] = -scale if flip else scale

    x = np.zeros((6, 8))
    fill(1, 3, 2.5, True, x[::2, 1::3])
    expected = np.zeros((6, 8))
    expected[2::2, 1::3] = -2.5
    np.testing.assert_array_equal(x, expected)


def test_importing_optimizers_and_small_steps_load_neither_numba_nor_llvm(tmp_path):
    code = """
import sys
import tdt
p = tdt.zeros(10, requires_grad=True)
p.grad = tdt.ones(10)
tdt.optim.Adam([p]).step()
print(any(name.split(".")[0] in ("numba", "llvmlite") for name in sys.modules), None)
"""
    assert run(code, tmp_path)[0] is False


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_waits_for_a_thread_that_compiles_and_the_child_compiles_too():
    code = """
        import os, threading, time
        from tdt._kernels import _cache, _native
        _cache.load = lambda name: None
        began = threading.Event()
        text = f'target triple = "{_native.target_triple()}"\\n' + "define i64 @f(ptr %w, i64 %a, i64 %b) {\\n ret i64 0\\n}"
        def write():
            began.set()
            time.sleep(0.5)
            return text
        thread = threading.Thread(target=lambda: _native.linked("slow", ["f"], write))
        thread.start()
        began.wait()
        child = os.fork()
        if not child:
            done = "slow" in _native._libraries
            os._exit(32 if done and _native.linked("own", ["f"], lambda: text) else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        thread.join()
        print(bool(_native.linked("after", ["f"], lambda: text)))
    """
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60
    )
    assert ended.stdout == "32\nTrue\n", ended.stderr
