"""Linear algebra where PyTorch's op database does not ask: singular matrices, codes, odd shapes, words of errors, lobpcg."""

import math

import numpy as np
import pytest
import scipy.linalg

import tdt
from tdt._kernels._threads import THREADS
from tests.helpers import require_torch

torch = require_torch()

from tests.parity.attempts import attempt  # noqa: E402
from tests.parity.compare import difference, error_difference, first_clause  # noqa: E402

INDEFINITE = [[1.0, 2.0], [2.0, 1.0]]
HERMITIAN = [[2, 0.5 + 0.3j], [0.5 - 0.3j, 3]]


def upper_gradient(t):
    x = t.tensor(HERMITIAN, requires_grad=True)
    (t.linalg.cholesky(x, upper=True) * t.tensor([[1 + 1j, 2 - 1j], [0.3, 0.2 + 1j]])).sum().abs().backward()
    return x.grad


def small(t):
    return t.diag(t.tensor([1.0, 1e-3]))


def int32(t, *values):
    return t.tensor(values, dtype=t.int32)


AGREE = {
    "cholesky_ex: which minor": lambda t: tuple(t.linalg.cholesky_ex(t.tensor([[[1.0, 0.0], [0.0, 1.0]], INDEFINITE]))),
    "cholesky: the upper triangle alone": lambda t: t.linalg.cholesky(t.tensor([[4.0, 2.0], [9.0, 5.0]]), upper=True),
    "cholesky: the gradient of upper, complex": upper_gradient,
    "inv_ex: singular": lambda t: t.linalg.inv_ex(t.stack([t.eye(2), t.zeros(2, 2)])).info,
    "solve_ex: singular": lambda t: tuple(t.linalg.solve_ex(t.zeros(2, 2), t.ones(2))),
    "solve_ex: codes are A's": lambda t: t.linalg.solve_ex(t.zeros(2, 1, 1), t.ones(3, 2, 1, 1)).info,
    "slogdet: nan": lambda t: tuple(t.linalg.slogdet(t.tensor([[[math.nan, 1.0], [1.0, 2.0]], [[1.0, 2.0], [3.0, 4.0]]]))),
    "slogdet: infinity": lambda t: tuple(t.linalg.slogdet(t.tensor([[-math.inf, 1], [1, 2]]))),
    "solve: no equations": lambda t: t.linalg.solve(t.zeros(2, 0, 0), t.zeros(2, 0, 3)),
    "solve_triangular: a zero": lambda t: t.linalg.solve_triangular(t.zeros(2, 2), t.ones(2, 1), upper=True),
    "solve_triangular: broadcast": lambda t: t.linalg.solve_triangular(
        t.tensor([[2.0, 7.0], [1.0, 4.0]]), t.arange(12.0).reshape(3, 2, 2), upper=False, left=False),
    "lu: singular": lambda t: tuple(t.lu(t.zeros(2, 2), get_infos=True)),
    "lu_factor_ex: which pivot": lambda t: tuple(t.linalg.lu_factor_ex(t.tensor([[1.0, 2.0], [2.0, 4.0]]))),
    "lu_unpack: pivots alone": lambda t: tuple(t.lu_unpack(t.eye(2), int32(t, 2, 2), unpack_data=False)),
    "lu_unpack: factors alone": lambda t: tuple(t.lu_unpack(t.ones(2, 2), int32(t, 2, 2), unpack_pivots=False)),
    "lu: empty": lambda t: tuple(t.linalg.lu(t.zeros(2, 0, 3))),
    "lstsq: vectors": lambda t: t.linalg.lstsq(t.tensor([[[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]]), t.tensor([[1.0, 3.0, 6.0]]))[0],
    "lstsq: residuals": lambda t: tuple(t.linalg.lstsq(
        t.tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), t.tensor([[1.0], [3.0], [6.0]]), driver="gelsd")),
    "lstsq: low rank": lambda t: tuple(t.linalg.lstsq(t.ones(3, 2), t.ones(3, 1), driver="gelss"))[:3],
    "lstsq: rcond": lambda t: t.linalg.lstsq(small(t), t.ones(2, 1), rcond=1e-2)[::2],
    "lstsq: nothing": lambda t: tuple(t.linalg.lstsq(t.zeros(0, 2), t.zeros(0, 3))),
    "pinv: rcond": lambda t: t.linalg.pinv(small(t), 1e-2),
    "pinv: atol": lambda t: t.linalg.pinv(small(t), atol=1e-2),
    "pinv: a tensor": lambda t: t.linalg.pinv(t.stack([small(t)] * 2), atol=t.tensor([1e-2, 0.0])),
    "pinv: both": lambda t: t.linalg.pinv(small(t), atol=1e-4, rtol=1e-2),
    "matrix_rank: tol": lambda t: t.linalg.matrix_rank(t.eye(3).expand(2, 3, 3), tol=t.tensor([0.5, 2.0])),
    "matrix_rank: Hermitian": lambda t: t.linalg.matrix_rank(small(t), 0.1, True),
    "matrix_rank: empty": lambda t: t.linalg.matrix_rank(t.zeros(2, 0, 3)),
    "cond: singular": lambda t: [t.linalg.cond(t.zeros(2, 2), p) for p in (1, "fro", float("inf"))],
    "cond: empty": lambda t: t.linalg.cond(t.zeros(3, 0, 0)),
    "cond: 2 and -2": lambda t: [t.linalg.cond(t.tensor([[3.0, 0.0], [0.0, 2.0], [0.0, 0.0]]), p) for p in (2, -2)],
    "matrix_exp: empty": lambda t: t.matrix_exp(t.zeros(2, 0, 0)),
    "matrix_exp: large": lambda t: t.linalg.matrix_exp(t.tensor([[0.0, 30.0], [-30.0, 0.0]], dtype=t.float64)),
    "vander: a number": lambda t: t.linalg.vander(t.tensor(3), N=3),
    "eigvals: a rotation": lambda t: t.linalg.eigvals(t.tensor([[0.0, 1.0], [-1.0, 0.0]])),
    "eig: real eigenvalues": lambda t: t.linalg.eig(t.eye(2)).eigenvalues,
    "householder_product: no reflections": lambda t: t.linalg.householder_product(t.ones(3, 2), t.ones(0)),
    "householder_product: any factors": lambda t: t.linalg.householder_product(
        t.arange(6.0).reshape(3, 2), t.tensor([0.5, 0.0])),
    "chain_matmul: one": lambda t: t.chain_matmul(t.ones(2, 2)),
    "linalg.cross: broadcast": lambda t: t.linalg.cross(t.ones(1, 3), t.arange(6.0).reshape(2, 3)),
    "by keyword": lambda t: [
        t.linalg.cond(input=t.eye(2)), t.linalg.eigvalsh(input=t.eye(2)), t.linalg.inv(A=t.eye(2)),
        t.cholesky_solve(input=t.ones(2, 1), input2=t.eye(2)), t.triangular_solve(input=t.ones(2, 1), A=t.eye(2))[0],
        t.linalg.lstsq(input=t.eye(2), b=t.ones(2, 1))[0], t.linalg.tensorsolve(input=t.eye(2), other=t.ones(2)),
        t.linalg.pinv(input=t.eye(2), rcond=0.1), t.eye(2).ormqr(input2=t.ones(2), input3=t.eye(2))],
}  # fmt: skip

REFUSED = {
    "cholesky": lambda t: t.cholesky(t.tensor(INDEFINITE)),
    "cholesky: in a batch": lambda t: t.linalg.cholesky(t.tensor([[[1.0, 0.0], [0.0, 1.0]], INDEFINITE])),
    "cholesky_ex: checked": lambda t: t.linalg.cholesky_ex(t.tensor(INDEFINITE), check_errors=True),
    "inv": lambda t: t.linalg.inv(t.zeros(2, 2)),
    "inverse: in a batch": lambda t: t.inverse(t.ones(3, 2, 2)),
    "inv_ex: checked": lambda t: t.linalg.inv_ex(t.zeros(2, 2), check_errors=True),
    "inverse: not square": lambda t: t.zeros(2, 3).inverse(),
    "solve": lambda t: t.linalg.solve(t.zeros(2, 2, 2), t.ones(2, 2, 1)),
    "solve_ex: checked": lambda t: t.linalg.solve_ex(t.zeros(2, 2), t.ones(2), check_errors=True),
    "solve: rows": lambda t: t.linalg.solve(t.eye(2), t.ones(3)),
    "solve: columns": lambda t: t.linalg.solve(t.eye(2), t.ones(2), left=False),
    "solve: dtypes": lambda t: t.linalg.solve(t.eye(2), t.ones(2, dtype=t.float64)),
    "lu_factor": lambda t: t.linalg.lu_factor(t.zeros(3, 2, 2)),
    "lu_factor_ex: checked": lambda t: t.linalg.lu_factor_ex(t.zeros(2, 2), check_errors=True),
    "lu: without pivots": lambda t: t.linalg.lu(t.eye(2), pivot=False),
    "lu: a vector": lambda t: t.linalg.lu(t.ones(2)),
    "lu_solve: int64 pivots": lambda t: t.linalg.lu_solve(t.eye(2), t.tensor([1, 2]), t.ones(2, 1)),
    "lu_solve: too few pivots": lambda t: t.linalg.lu_solve(t.eye(2), int32(t, 1), t.ones(2, 1)),
    "lu_solve: rows": lambda t: t.linalg.lu_solve(t.eye(2), int32(t, 1, 2), t.ones(3, 1)),
    "lu_unpack: int64 pivots": lambda t: t.lu_unpack(t.eye(2), t.tensor([1, 2])),
    "solve_triangular: rows": lambda t: t.linalg.solve_triangular(t.eye(2), t.ones(3, 1), upper=True),
    "solve_triangular: a vector": lambda t: t.linalg.solve_triangular(t.eye(2), t.ones(2), upper=True),
    "triangular_solve: a vector": lambda t: t.triangular_solve(t.ones(2), t.eye(2)),
    "triangular_solve: rows": lambda t: t.triangular_solve(t.ones(3, 1), t.eye(2)),
    "cholesky_solve: rows": lambda t: t.cholesky_solve(t.ones(3, 1), t.eye(2)),
    "cholesky_inverse: not square": lambda t: t.cholesky_inverse(t.ones(3, 2)),
    "eig: nan": lambda t: t.linalg.eig(t.full((2, 2), float("nan"))),
    "eigh: UPLO": lambda t: t.linalg.eigh(t.eye(2), "X"),
    "svd: driver": lambda t: t.linalg.svd(t.eye(2), driver="gesvd"),
    "lstsq: rows": lambda t: t.linalg.lstsq(t.ones(3, 2), t.ones(4, 1)),
    "lstsq: driver": lambda t: t.linalg.lstsq(t.ones(3, 2), t.ones(3, 1), driver="x"),
    "lstsq: a vector": lambda t: t.linalg.lstsq(t.ones(3), t.ones(3, 1)),
    "matrix_rank: a vector": lambda t: t.linalg.matrix_rank(t.ones(3)),
    "cond: not square": lambda t: t.linalg.cond(t.ones(2, 3), "fro"),
    "cond: order": lambda t: t.linalg.cond(t.ones(2, 2), "x"),
    "matrix_exp: not square": lambda t: t.matrix_exp(t.ones(2, 3)),
    "matrix_power: singular": lambda t: t.linalg.matrix_power(t.zeros(2, 2), -2),
    "vander: N": lambda t: t.linalg.vander(t.ones(2), N=1),
    "tensorinv: sizes": lambda t: t.linalg.tensorinv(t.ones(2, 3), 1),
    "tensorinv: ind": lambda t: t.linalg.tensorinv(t.ones(2, 3), 0),
    "tensorsolve: sizes": lambda t: t.linalg.tensorsolve(t.ones(2, 3), t.ones(2)),
    "householder_product: wide": lambda t: t.linalg.householder_product(t.ones(2, 3), t.ones(2)),
    "householder_product: tau": lambda t: t.linalg.householder_product(t.ones(3, 2), t.ones(2, 2)),
    "ormqr: rows": lambda t: t.ormqr(t.ones(3, 2), t.ones(2), t.ones(2, 3)),
    "ormqr: dimensions": lambda t: t.ormqr(t.ones(3, 2), t.ones(2), t.ones(1, 3, 3)),
    "ldl_solve: pivots": lambda t: t.linalg.ldl_solve(t.eye(2), int32(t, 1, 2, 3), t.ones(2, 1)),
    "linalg.cross: dimensions": lambda t: t.linalg.cross(t.ones(3), t.ones(2, 3)),
    "linalg.cross: dtypes": lambda t: t.linalg.cross(t.ones(3), t.ones(3, dtype=t.int64)),
    "multi_dot: one": lambda t: t.linalg.multi_dot([t.ones(2, 2)]),
    "chain_matmul: none": lambda t: t.chain_matmul(),
    "pca_lowrank: q": lambda t: t.pca_lowrank(t.ones(4, 3), q=4),
    "lobpcg: few rows": lambda t: t.lobpcg(t.eye(5), k=2),
    "geqrf: no derivative": lambda t: t.geqrf(t.ones(2, 2, requires_grad=True))[0].sum().backward(),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:torch.chain_matmul", "ignore:torch.lu is", "ignore:torch.triangular_solve")
@pytest.mark.parametrize("call", AGREE.values(), ids=AGREE)
def test_results_are_pytorchs(call):
    assert difference(call(tdt), call(torch)) is None


@pytest.mark.filterwarnings("ignore:torch.chain_matmul", "ignore:torch.triangular_solve", "ignore:torch.cholesky")
@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_errors_begin_with_pytorchs_message(call):
    (_, ours), (_, theirs) = attempt(call, tdt), attempt(call, torch)
    assert theirs is not None
    assert error_difference(ours, theirs) is None
    assert first_clause(ours) == first_clause(theirs)


@pytest.mark.parametrize("make", [lambda: tdt.linalg.inv(tdt.zeros(2, 2)), lambda: tdt.linalg.cholesky(-tdt.eye(2)),
                                  lambda: tdt.linalg.ldl_factor(tdt.zeros(2, 2))])  # fmt: skip
def test_a_matrix_without_inverse_or_factors_raises_linalgerror(make):
    with pytest.raises(tdt.linalg.LinAlgError):
        make()


def test_the_condition_of_a_singular_matrix_is_infinite_in_every_norm():
    """PyTorch's nuclear norm of an inverse that is not there is nan."""
    singular = tdt.tensor([[1.0, 2.0], [2.0, 4.0]])
    assert [tdt.linalg.cond(singular, p).item() for p in ("fro", "nuc", 1, -1)] == [float("inf")] * 4


def test_every_name_of_torch_linalg_is_here():
    theirs = {n for n in dir(torch.linalg) if n[0] != "_" and getattr(torch.linalg, n) is not torch.Tensor} - {
        "common_notes"
    }
    assert theirs - set(tdt.linalg.__all__) == set()


def test_shapes_without_values_do_not_fail_where_values_would():
    """Of zeros, which stand in for values, there is no inverse."""
    from tdt.autograd._meta import meta, stand_in

    with meta():
        A, b = stand_in((2, 3, 3)), stand_in((2, 3, 1))
        found = [
            tdt.linalg.inv(A), tdt.linalg.solve(A, b), tdt.linalg.cholesky(A), tdt.linalg.solve_triangular(A, b, upper=True),
            tdt.cholesky_solve(b, A), tdt.linalg.lu_factor(A).LU, tdt.linalg.pinv(A), tdt.linalg.det(A),
        ]  # fmt: skip
    assert [tuple(x.shape) for x in found] == [
        (2, 3, 3),
        (2, 3, 1),
        (2, 3, 3),
        (2, 3, 1),
        (2, 3, 1),
        (2, 3, 3),
        (2, 3, 3),
        (2,),
    ]


def symmetric_pair(*batch, m=40):
    g = np.random.default_rng(3)
    C, D = g.standard_normal((2, *batch, m, m))
    return C + C.swapaxes(-1, -2), D @ D.swapaxes(-1, -2) / m + np.eye(m)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("general", [True, False])
def test_lobpcg_finds_the_extreme_eigenvalues(largest, general):
    a, b = symmetric_pair()
    A, B = tdt.tensor(a), tdt.tensor(b) if general else None
    steps = []
    tdt.manual_seed(0)
    E, X = tdt.lobpcg(A, k=3, B=B, largest=largest, tracker=lambda at: steps.append(at.ivars["istep"]))
    every = scipy.linalg.eigvalsh(a, b if general else None)
    np.testing.assert_allclose(E.numpy(), every[::-1][:3] if largest else every[:3], rtol=1e-9)
    np.testing.assert_allclose((A @ X).numpy(), ((X if B is None else B @ X) * E).numpy(), atol=1e-5)
    assert steps == list(range(len(steps))) and 1 < len(steps) < 200


def test_lobpcg_takes_batches_and_stops_where_the_tracker_requests():
    a, _ = symmetric_pair(2)
    tdt.manual_seed(0)
    E, X = tdt.lobpcg(tdt.tensor(a), k=2)
    np.testing.assert_allclose(E.numpy(), np.linalg.eigvalsh(a)[:, ::-1][:, :2], rtol=1e-9)
    assert X.shape == (2, 40, 2)
    eigenvalues = []

    def stop(at):
        eigenvalues.append(at.E)
        at.bvars["force_stop"] = len(eigenvalues) == 3

    tdt.lobpcg(tdt.tensor(a), k=2, tracker=stop)
    assert len(eigenvalues) == 3


def test_gradients_of_lobpcg_are_pytorchs():
    a, _ = symmetric_pair(m=12)
    found = []
    for t in (tdt, torch):
        A = t.tensor(a, requires_grad=True)
        t.manual_seed(0)
        E, X = t.lobpcg(A, k=2, tol=1e-12, niter=500)
        (E.sum() + (X**2)[0].sum()).backward()
        found.append(A.grad.numpy())
    np.testing.assert_allclose(*found, atol=1e-7)


@pytest.mark.parametrize("decades", [0, 4.5, 8])
@pytest.mark.parametrize("shape", [(30, 12), (12, 30), (3, 20, 20)])
def test_singular_values_of_float32_and_their_gradient_are_float64s(shape, decades):
    """Of matrices with singular values of 1 to 10^-decades; PyTorch's error is 10^-7 of the largest value."""
    U, S, Vh = np.linalg.svd(np.random.default_rng(0).standard_normal(shape), full_matrices=False)
    x = ((U * 10.0 ** -np.linspace(0, decades, S.shape[-1])) @ Vh).astype(np.float32)
    U, S, Vh = np.linalg.svd(x.astype(np.float64), full_matrices=False)
    leaf = tdt.from_numpy(x).requires_grad_()
    values = tdt.linalg.svdvals(leaf)
    weights = np.random.default_rng(1).random(S.shape).astype(np.float32)
    values.backward(tdt.from_numpy(weights))
    np.testing.assert_allclose(values.detach().numpy(), S, rtol=3e-6, atol=1e-10)
    np.testing.assert_allclose(leaf.grad.numpy(), U @ (weights[..., None] * Vh), rtol=1e-4, atol=2e-6)


def test_singular_values_of_a_matrix_do_not_depend_on_others_in_the_batch():
    rng = np.random.default_rng(0)
    x = tdt.from_numpy(np.stack([np.ones((3, 4)), rng.standard_normal((3, 4)), np.zeros((3, 4))]).astype(np.float32))
    together = tdt.linalg.svdvals(x)
    for k in range(3):
        assert together[k].equal(tdt.linalg.svdvals(x[k]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64])
@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 3, 2), (3, 5, 2), (40, 30, 1)])
def test_least_squares_of_matrices_without_full_rank_have_the_smallest_norm(shape, dtype):
    # PyTorch leaves LAPACK's pivots as memory holds them, so that its ranks differ between calls.
    m, n, columns = shape
    rng = np.random.default_rng(0)
    a, b = rng.random((m, n)).astype(dtype), rng.random((m, columns)).astype(dtype)
    a[:, -1] = a[:, 0]
    found = tdt.linalg.lstsq(tdt.tensor(a), tdt.tensor(b))
    expected, _, rank, _ = np.linalg.lstsq(a.astype(np.complex128), b, rcond=1e-5)
    assert found.rank.item() == rank
    np.testing.assert_allclose(found.solution.numpy(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_the_solution_of_one_triangular_system_lies_in_columns_as_pytorchs(upper, turned):
    rng = np.random.default_rng(0)
    a, b = (
        rng.random((4, 4)).astype(np.float32) + 4 * np.eye(4, dtype=np.float32),
        rng.random((6, 4)).astype(np.float32),
    )
    found = []
    for t in (torch, tdt):
        matrix, right = (t.tensor(v, requires_grad=True) for v in (a, b))
        x = t.linalg.solve_triangular(matrix.mT if turned else matrix, right[::2].mT, upper=upper)
        x.square().sum().backward()
        found.append((x.detach(), matrix.grad, right.grad))
    assert found[0][0].stride() == found[1][0].stride()
    for expected, value in zip(*found, strict=True):
        np.testing.assert_allclose(value.numpy(), expected.numpy(), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("pivots", [[0, 0, 0], [4, 1, 1], [1, 2, -3], [-1, -2, 3]])
def test_pivots_that_no_factorization_has_are_refused(pivots: list[int]):
    with pytest.raises(RuntimeError, match="pivots must be those of ldl_factor"):
        tdt.linalg.ldl_solve(tdt.eye(3), tdt.tensor(pivots, dtype=tdt.int32), tdt.ones(3, 1))


DECOMPOSITIONS = {
    "inv": lambda t, x: t.linalg.inv(x),
    "inv_ex": lambda t, x: t.linalg.inv_ex(x),
    "cholesky": lambda t, x: t.linalg.cholesky(x),
    "cholesky_ex": lambda t, x: t.linalg.cholesky_ex(x),
    "eigh": lambda t, x: t.linalg.eigh(x, "U"),
    "eigvalsh": lambda t, x: t.linalg.eigvalsh(x),
    "eig": lambda t, x: t.linalg.eig(x),
    "eigvals": lambda t, x: t.linalg.eigvals(x),
    "svd": lambda t, x: t.linalg.svd(x),
    "svd: thin": lambda t, x: t.linalg.svd(x[..., :2], full_matrices=False),
    "svdvals": lambda t, x: t.linalg.svdvals(x[..., :2]),
    "qr": lambda t, x: t.linalg.qr(x[..., :2]),
    "qr: complete": lambda t, x: t.linalg.qr(x[..., :2], "complete"),
    "qr: wide": lambda t, x: t.linalg.qr(x[..., :2, :]),
    "lu": lambda t, x: t.linalg.lu(x),
    "lu: tall": lambda t, x: t.linalg.lu(x[..., :2]),
    "lu: wide": lambda t, x: t.linalg.lu(x[..., :2, :]),
    "lu_factor": lambda t, x: t.linalg.lu_factor(x),
    "lu_factor_ex": lambda t, x: t.linalg.lu_factor_ex(x),
    "lu_solve": lambda t, x: t.linalg.lu_solve(*t.linalg.lu_factor(x), x[..., :2]),
    "solve": lambda t, x: t.linalg.solve(x, x[..., :2]),
    "solve_triangular": lambda t, x: t.linalg.solve_triangular(x, x[..., :2], upper=True),
    "cholesky_inverse": lambda t, x: t.cholesky_inverse(x),
}


def positive(shape, dtype):
    rng = np.random.default_rng(3)
    x = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if dtype[0] == "c" else 0)
    return (x @ x.conj().swapaxes(-1, -2) + np.diag(np.arange(3.0, shape[-1] + 3))).astype(dtype)


@pytest.mark.parametrize("graph", [False, True])
def test_gradients_of_cholesky_are_pytorchs_off_hermitian_matrices_too(graph):
    x, weights = positive((2, 4, 4), "complex128"), np.random.default_rng(4).standard_normal((2, 2, 4, 4))

    def gradient(t):
        matrix = t.from_numpy(x.copy()).requires_grad_()
        factor = t.linalg.cholesky(matrix)
        (found,) = t.autograd.grad(
            (factor * t.from_numpy(weights[0] + 1j * weights[1])).real.sum(), matrix, create_graph=graph
        )
        return found.detach().numpy()

    np.testing.assert_allclose(gradient(tdt), gradient(torch), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("name", DECOMPOSITIONS)
def test_repeated_calls_give_the_values_and_the_layout_of_the_first(name, dtype):
    """The first calls are general, further ones short; PyTorch's layout, and NumPy's values with its ufuncs or without."""
    call = DECOMPOSITIONS[name]
    for shape in ((3, 3), (2, 4, 4)):
        array, results = positive(shape, dtype), []
        for _ in range(4):
            found = call(tdt, tdt.from_numpy(array))
            results.append(found if isinstance(found, tuple) else (found,))
        theirs = call(torch, torch.from_numpy(array))
        for found in results:
            for ours, first, theirs_too in zip(
                found, results[0], theirs if isinstance(theirs, tuple) else (theirs,), strict=True
            ):
                np.testing.assert_array_equal(ours.numpy(), first.numpy(), strict=True)
                assert ours.stride() == first.stride()
                assert str(ours.dtype).removeprefix("tdt.") == str(theirs_too.dtype).removeprefix("torch.")
                assert ours.shape == theirs_too.shape


@pytest.mark.parametrize("name", DECOMPOSITIONS)
def test_numpys_ufuncs_give_the_values_of_its_functions(name, monkeypatch):
    from tdt._ops.linalg import _lapack

    array, results = positive((2, 3, 3), "float32"), []
    for elsewhere in (False, True):
        if elsewhere:
            monkeypatch.setattr(_lapack, "_ufunc", lambda name: None)
        _lapack._routine.cache_clear()
        found = DECOMPOSITIONS[name](tdt, tdt.from_numpy(array))
        results.append(found if isinstance(found, tuple) else (found,))
    _lapack._routine.cache_clear()
    for ours, expected in zip(*results, strict=True):
        np.testing.assert_array_equal(ours.numpy(), expected.numpy(), strict=True)
        assert ours.stride() == expected.stride()


@pytest.mark.parametrize("least", [2, 1 << 15])
def test_failures_of_small_matrices_raise_after_calls_that_did_not(least, monkeypatch):
    """least: elements from which on an op's threads share the work."""
    monkeypatch.setattr(THREADS, "rows", least)
    good, bad = tdt.eye(2), tdt.tensor(INDEFINITE)
    for _ in range(6):
        tdt.linalg.cholesky(good)
        tdt.linalg.inv(good)
        tdt.linalg.lu_factor(good)
    for call, matrix in (
        (tdt.linalg.cholesky, bad),
        (tdt.linalg.inv, tdt.ones(2, 2)),
        (tdt.linalg.lu_factor, tdt.ones(2, 2)),
    ):
        with pytest.raises(tdt.linalg.LinAlgError):
            call(matrix)
        with np.errstate(all="raise"), pytest.raises(tdt.linalg.LinAlgError):
            call(matrix)
    assert tdt.linalg.cholesky_ex(bad).info.item() == 2
    assert tdt.linalg.inv_ex(tdt.ones(2, 2)).info.item() == 2
    assert tdt.linalg.lu_factor_ex(tdt.ones(2, 2)).info.item() == 2


@pytest.mark.parametrize("name", ["inv", "cholesky", "eigh", "svd", "qr", "eigvalsh", "svdvals", "lu_factor"])
def test_gradients_of_repeated_calls_are_pytorchs(name):
    array = positive((3, 3), "float64")
    for _ in range(3):
        gradients, names = [], []
        for lib in (tdt, torch):
            x = lib.from_numpy(array.copy()).requires_grad_()
            found = getattr(lib.linalg, name)((x + x.mT) / 2)
            parts = [part for part in (found if isinstance(found, tuple) else (found,)) if part.is_floating_point()]
            total = sum(
                (part.abs() ** 2 * lib.arange(part.numel(), dtype=lib.float64).reshape(part.shape)).sum()
                for part in parts
            )
            total.backward()
            gradients.append(x.grad.numpy())
            names.append([part.grad_fn.name() for part in parts])
        np.testing.assert_allclose(*gradients, rtol=1e-8, atol=1e-8)
        assert names[0] == names[1]


@pytest.mark.parametrize("kind", ["float64", "complex128"])
def test_gradients_of_eigenvectors_are_hermitian(kind):
    torch, (a, weights) = require_torch(), np.random.default_rng(3).standard_normal((2, 4, 4))
    found = []
    for t in (tdt, torch):
        x = t.tensor(a + a.T, dtype=getattr(t, kind), requires_grad=True)
        (t.linalg.eigh(x).eigenvectors.abs() * t.tensor(weights)).sum().backward()
        found.append(x.grad.numpy())
    np.testing.assert_allclose(*found, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(found[0], found[0].conj().T)


NAN_MATRICES = [
    [[math.nan, 0.0], [0.0, 1.0]], [[1.0, math.nan], [math.nan, 1.0]], [[1.0, 0.0], [0.0, math.nan]], [[4.0, 2.0], [2.0, 3.0]],
    [[1.0, 2.0], [2.0, 1.0]],
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("padding", [0, 1, 30])
def test_matrices_with_nan_have_no_cholesky_factor_as_in_pytorch(dtype, padding):
    found = []
    for lib in (tdt, torch):
        whole = lib.stack([lib.block_diag(lib.tensor(m), lib.eye(padding)) for m in NAN_MATRICES]).to(
            getattr(lib, dtype)
        )
        codes = [lib.linalg.cholesky_ex(m, upper=upper).info.item() for m in whole for upper in (False, True)]
        codes += lib.linalg.cholesky_ex(whole).info.tolist()
        for m in whole:
            try:
                codes.append(lib.linalg.cholesky(m).isnan().any().item())
            except RuntimeError as error:
                codes.append(str(error))
        found.append(codes)
    assert found[0] == found[1]


@pytest.mark.skipif(not tdt._kernels.enabled(), reason="kernels are off")
def test_traces_of_large_matrices_take_the_short_way_on_several_threads_too(monkeypatch):
    x, before = tdt.arange(90_000.0).reshape(300, 300), tdt.get_num_threads()
    try:
        tdt.set_num_threads(2)
        expected = [x.trace() for _ in range(9)][-1]
        monkeypatch.setattr(tdt._kernels, "total", None)  # which the op's forward calls
        assert x.trace() == expected == sum(301 * k for k in range(300))
    finally:
        tdt.set_num_threads(before)
