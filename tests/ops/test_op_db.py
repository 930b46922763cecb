"""Every op that PyTorch's op database names and tdt has: same values, variants, gradients and errors.

`TDT_OPDB=full pytest tests/ops/test_op_db.py` asks every sample; `scripts/opdb_report` counts cases.
A failure ends with the smallest call that shows it, as code that runs in both libraries.
"""

import pytest

from tests.helpers import require_torch

require_torch()

from tests.parity.checks import CHECKS  # noqa: E402
from tests.parity.deviations import DEVIATIONS  # noqa: E402
from tests.parity.opdb import full_name, present  # noqa: E402

# scope: all questions about one op follow each other, as its samples are kept only that long.
EVERY_OP = pytest.mark.parametrize("info", present(), ids=full_name, scope="module")


def _agrees(kind, info):
    report = CHECKS[kind](info)
    allowed = {
        key: reason for key, reason in DEVIATIONS.items() if key[0] == report.name and key[1] in CHECK_NAMES[kind]
    }
    met = set()
    for failure in list(report.failures):
        for key in allowed:
            if key[1] == failure.check and key[2] in ("*", failure.dtype):
                met.add(key)
                report.failures.remove(failure)
                break
    assert not report.failures, report.text()
    assert met == allowed.keys(), f"no longer differs, remove from DEVIATIONS: {allowed.keys() - met}"


CHECK_NAMES = {
    "values": {"value"},
    "variants": {"method", "inplace", "out= resized", "out= strided", "out= other dtype", "out= needs grad"},
    "gradients": {"gradient", "second gradient", "inplace gradient", "second inplace gradient"},
    "errors": {"error"},
    "refused": {"refused"},
}


@EVERY_OP
def test_values_dtypes_shapes_and_strides_are_pytorchs(info):
    _agrees("values", info)


@EVERY_OP
def test_methods_inplace_and_out_are_pytorchs(info):
    _agrees("variants", info)


@EVERY_OP
def test_first_and_second_gradients_are_pytorchs(info):
    _agrees("gradients", info)


@EVERY_OP
def test_bad_arguments_raise_pytorchs_error_class(info):
    _agrees("errors", info)


@EVERY_OP
def test_dtypes_that_pytorch_refuses_are_refused(info):
    _agrees("refused", info)


def test_the_deviations_name_ops_that_exist():
    names = {full_name(info) for info in present()}
    assert {key[0] for key in DEVIATIONS} <= names
