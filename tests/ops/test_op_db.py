"""Every op that PyTorch's op database names and tdt has: same values, variants, gradients and errors.

Values, variants and gradients are asked with kernels, then of the portable code, against the same answers of PyTorch.

`scripts/opdb_report` counts cases. A failure ends with the smallest call that shows it, as code that runs in both libraries.
"""

import pytest

import tdt
from tests.helpers import require_torch

require_torch()
pytestmark = pytest.mark.long

from tests.parity.checks import CHECKS  # noqa: E402
from tests.parity.deviations import ANY_STRIDES, DEVIATIONS, UNIQUE  # noqa: E402
from tests.parity.left_out import LEFT_OUT, reason  # noqa: E402
from tests.parity.opdb import full_name, op_db, present  # noqa: E402

# scope: all questions about one op follow each other, as its samples are kept only that long.
EVERY_OP = pytest.mark.parametrize("info", present(), ids=full_name, scope="module")


def _agrees(kind, info, with_and_without_kernels=False):
    report = CHECKS[kind](info)
    if with_and_without_kernels and tdt.backends.kernels.enabled():
        report.ask_portable_code()
    allowed = [d for d in DEVIATIONS if d.op == report.name and d.check in CHECK_NAMES[kind]]
    met = [d for d in allowed if any(d.covers(f) for f in report.failures)]
    report.failures = [f for f in report.failures if not any(d.covers(f) for d in allowed)]
    assert not report.failures, report.text()
    assert met == allowed, f"no longer differs, remove from DEVIATIONS: {[d for d in allowed if d not in met]}"


CHECK_NAMES = {
    "values": {"value"},
    "variants": {"method", "inplace", "out= resized", "out= strided", "out= other dtype", "out= needs grad"},
    "gradients": {
        f"{which}{how}"
        for which in ("", "second ")
        for how in ("gradient", "inplace gradient", "gradient after a write")
    },
    "errors": {"error"},
    "refused": {"refused"},
    "argument names": {"argument names"},
}


@EVERY_OP
def test_values_dtypes_shapes_and_strides_are_pytorchs(info):
    _agrees("values", info, with_and_without_kernels=True)


@EVERY_OP
def test_methods_inplace_and_out_are_pytorchs(info):
    _agrees("variants", info, with_and_without_kernels=True)


@EVERY_OP
def test_first_and_second_gradients_are_pytorchs(info):
    _agrees("gradients", info, with_and_without_kernels=True)


@EVERY_OP
def test_bad_arguments_raise_pytorchs_error_class(info):
    _agrees("errors", info)


@EVERY_OP
def test_dtypes_that_pytorch_refuses_are_refused(info):
    _agrees("refused", info)


@EVERY_OP
def test_errors_name_the_arguments_as_pytorchs_do(info):
    _agrees("argument names", info)


def test_the_deviations_name_ops_that_exist():
    names = {full_name(info) for info in present()}
    assert {deviation.op for deviation in DEVIATIONS} | ANY_STRIDES | UNIQUE.keys() <= names


def test_what_is_left_out_is_in_the_database_and_not_in_tdt():
    here = {info.name for info in present()}
    missing = {info.name for info in op_db} - here
    assert not [name for name in here if reason(name)]
    assert {reason(name) for name in missing} == set(LEFT_OUT.values())  # None: a name that lacks a reason
