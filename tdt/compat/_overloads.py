"""The names that the overloads of PyTorch's operators have, of those that `torch.ops.aten` of tdt holds."""

from __future__ import annotations

import functools


def overloads_of(name: str) -> tuple[str, ...]:
    """The overloads of an operator: "default" and, unless it works in place, "out", where OTHERS has none for it."""
    return _by_name().get(name) or (("default",) if name.endswith("_") else ("default", "out"))


@functools.cache
def _by_name() -> dict[str, tuple[str, ...]]:
    return {name: tuple(overloads.split()) for overloads, names in OTHERS for name in names.split()}


OTHERS = (
    (
        "default",
        "_conj _local_scalar_dense adaptive_max_pool1d adjoint alias allclose alpha_dropout argwhere as_strided "
        "batch_norm bilinear broadcast_shapes broadcast_tensors broadcast_to can_cast cartesian_prod cdist chunk coalesce "
        "col_indices combinations conj contiguous conv_transpose1d corrcoef cosine_embedding_loss cosine_similarity cov "
        "cpu cross_entropy_loss crow_indices cuda dense_dim det detach diagflat diagonal dim dropout element_size equal "
        "expand expand_as feature_alpha_dropout feature_dropout fft_fftshift fft_ifftshift fliplr flipud "
        "get_autocast_dtype get_device grid_sampler group_norm gru_cell hinge_embedding_loss imag indices initial_seed "
        "instance_norm is_autocast_cpu_enabled is_autocast_enabled is_coalesced is_complex is_conj is_distributed "
        "is_floating_point is_grad_enabled is_inference is_neg is_nonzero is_pinned is_same_size is_set_to is_signed "
        "isclose isreal istft item kl_div l1_loss layer_norm lift_fresh linalg_diagonal linalg_vander logdet lstm_cell "
        "margin_ranking_loss matrix_exp max_pool1d max_pool1d_with_indices max_pool2d max_pool3d native_channel_shuffle "
        "numel one_hot pad pairwise_distance pdist permute pin_memory pinverse poisson_nll_loss positive prelu "
        "promote_types ravel real record_stream relu6 reshape reshape_as resolve_conj resolve_neg retain_grad rms_norm "
        "rnn_relu_cell rnn_tanh_cell rrelu save scaled_dot_product_attention seed selu smm sparse_dim special_log_softmax "
        "special_softmax split_with_sizes storage_offset sum_to_size swapaxes swapdims t tile to_dense to_sparse_bsc "
        "to_sparse_bsr to_sparse_csc to_sparse_csr triplet_margin_loss type_as unfold unsafe_chunk unsqueeze vander "
        "view_as view_as_complex view_as_real wait",
    ),
    ("Dict_Tensor Dict_bool Dict_complex Dict_float Dict_int Dict_str default out t", "copy"),
    ("IntList Tensor", "ctc_loss"),
    ("IntList_out bool complex default dim_IntList float int out", "sum"),
    ("L default", "linalg_cholesky_ex"),
    ("OutScalar_Other OutScalar_Self OutTensor Scalar_Other Scalar_Self Tensor", "xlogy"),
    ("Q default", "qr"),
    ("Scalar ScalarOpt_dim ScalarOpt_dim_dtype ScalarOpt_dtype ScalarOpt_dtype_out Scalar_out dtype_out out", "norm"),
    ("Scalar ScalarOther ScalarSelf default self self_out", "where"),
    ("Scalar Scalar_Scalar Scalar_Tensor Tensor", "result_type"),
    (
        "Scalar Scalar_Scalar Scalar_out Tensor_Scalar Tensor_Scalar_out Tensor_Tensor Tensor_Tensor_out complex "
        "complex_float float float_complex float_int int int_float int_to_int",
        "pow",
    ),
    (
        "Scalar Scalar_Scalar complex complex_complex complex_float complex_int default float float_complex float_float "
        "float_int int int_complex int_float int_int out",
        "log",
    ),
    ("Scalar Scalar_Tensor Scalar_Tensor_out Scalar_out Tensor Tensor_out", "bitwise_and bitwise_or bitwise_xor"),
    (
        "Scalar Scalar_Tensor Scalar_Tensor_out Scalar_out Tensor Tensor_out default float float_int int int_float",
        "remainder",
    ),
    ("Scalar Scalar_mode Scalar_mode_out Scalar_out Tensor Tensor_mode complex default float int out out_mode", "div"),
    ("Scalar Scalar_mode Tensor Tensor_mode", "div_ divide_"),
    ("Scalar Scalar_mode Tensor Tensor_mode out out_mode", "divide"),
    (
        "Scalar Scalar_out Tensor Tensor_list Tensor_out bool bool_list complex complex_float default device enum float "
        "float_complex float_int float_list int int_float int_list str str_list",
        "eq ne",
    ),
    (
        "Scalar Scalar_out Tensor Tensor_out",
        "bucketize fill greater greater_equal lerp less less_equal masked_fill not_equal rsub searchsorted",
    ),
    ("Scalar Scalar_out Tensor Tensor_out default float float_int int int_float", "fmod"),
    ("Scalar Scalar_out Tensor Tensor_out default float float_int int int_float str", "ge gt le lt"),
    (
        "Scalar Scalar_out Tensor complex complex_float complex_int default float float_complex float_int int int_complex "
        "int_float left_t out right_",
        "mul",
    ),
    (
        "Scalar Scalar_out Tensor complex complex_float complex_int default float float_complex float_int int int_complex "
        "int_float out",
        "sub",
    ),
    (
        "Scalar Scalar_out Tensor complex complex_float complex_int default float float_complex float_int int int_complex "
        "int_float out str t",
        "add",
    ),
    ("Scalar Scalar_out Tensor default float float_int int int_float out", "copysign"),
    ("Scalar Scalar_out Tensor_Scalar Tensor_Scalar_out Tensor_Tensor Tensor_Tensor_out", "float_power"),
    ("Scalar Scalar_out default out", "floor_divide"),
    (
        "Scalar Tensor",
        "bitwise_and_ bitwise_or_ bitwise_xor_ copysign_ eq_ fill_ float_power_ floor_divide_ fmod_ ge_ greater_ "
        "greater_equal_ gt_ le_ lerp_ less_ less_equal_ lt_ masked_fill_ multiply_ ne_ not_equal_ pow_ remainder_ sub_ "
        "subtract_ true_divide_",
    ),
    ("Scalar Tensor out", "multiply subtract true_divide"),
    ("Scalar Tensor t", "add_ mul_"),
    (
        "Scalar complex default float int out",
        "acos acosh angle asin asinh atan atanh cos cosh exp log10 neg sin sinh sqrt tan tanh",
    ),
    ("Scalar decimals decimals_out default float int out", "round"),
    ("Scalar default float int out", "ceil erf erfc expm1 floor lgamma log1p"),
    ("Scalar_Other Tensor", "xlogy_"),
    ("Scalar_Scalar default float float_int int int_float out", "atan2 polar"),
    (
        "Scalar_Tensor Scalar_Tensor_out Tensor Tensor_Scalar Tensor_Scalar_out Tensor_out",
        "bitwise_left_shift bitwise_right_shift",
    ),
    ("Scalar_Tensor Scalar_Tensor_out Tensor_Scalar Tensor_Scalar_out Tensor_Tensor Tensor_Tensor_out", "isin"),
    (
        "Scalar_Tensor Scalar_Tensor_out Tensor_Scalar Tensor_Scalar_out Tensor_Tensor Tensor_Tensor_out default out",
        "linspace logspace",
    ),
    ("Sequence default", "atleast_1d atleast_2d atleast_3d"),
    ("Tensor Tensor_Scalar", "bitwise_left_shift_ bitwise_right_shift_"),
    (
        "Tensor Tensor_generator Tensor_generator_out Tensor_out default generator generator_out low_dtype low_dtype_out "
        "low_generator_dtype low_generator_dtype_out out",
        "randint_like",
    ),
    ("Tensor Tensor_hacked_twin Tensor_out list_Tensor list_bool list_float list_int list_str str", "index"),
    ("Tensor Tensor_out", "slice_copy split_copy unsafe_split"),
    ("Tensor Tensor_out default", "frexp"),
    ("Tensor Tensor_out default float_out out p", "bernoulli"),
    ("Tensor Tensor_out default out", "clamp clamp_max clamp_min clip"),
    ("Tensor Tensor_out self_Tensor self_int", "repeat_interleave"),
    ("Tensor any bool default float int stable str values values_stable", "sort"),
    ("Tensor bool complex default float int str", "values"),
    ("Tensor default", "clamp_ clamp_max_ clamp_min_ clip_ narrow"),
    ("Tensor default float int", "copy_"),
    ("Tensor default out", "ldexp"),
    ("Tensor default sizes str", "split"),
    ("Tensor float", "bernoulli_"),
    ("Tensor str t", "slice"),
    ("TensorList default", "backward"),
    ("TensorList_bins default int_bins", "histogramdd"),
    (
        "Tensor_Tensor Tensor_Tensor_out Tensor_float Tensor_float_out float_Tensor float_Tensor_out float_float "
        "float_float_out out",
        "normal",
    ),
    ("U default", "linalg_svd svd"),
    ("X default", "triangular_solve"),
    ("a default", "geqrf"),
    ("all_out bool default dim dims dims_out float int out", "all"),
    ("all_out bool default dim dims dims_out float int out str", "any"),
    ("array int", "dsplit hsplit vsplit"),
    ("array scalararray scalarint scalarrayarray scalarrayint tensorarray tensorarrayint", "gradient"),
    (
        "atol_rtol_float atol_rtol_float_out atol_rtol_tensor atol_rtol_tensor_out default out out_rcond_tensor "
        "rcond_tensor",
        "linalg_pinv",
    ),
    (
        "atol_rtol_float atol_rtol_float_out atol_rtol_tensor atol_rtol_tensor_out default out out_tol_tensor tol_tensor",
        "linalg_matrix_rank",
    ),
    ("beta beta_out default out periodic periodic_out", "kaiser_window"),
    ("bin_ct bin_ct_out bins_tensor bins_tensor_out", "histogram"),
    ("bool complex default float int", "tensor"),
    ("bool complex default float int list", "as_tensor"),
    ("center default", "stft"),
    ("complex default float", "isfinite"),
    ("complex default float out", "isinf isnan"),
    ("correction correction_out default dim", "std_mean var_mean"),
    ("correction correction_out default dim out", "std var"),
    ("crow_col_value crow_col_value_size", "sparse_csr_tensor"),
    ("data input", "gru lstm rnn_relu rnn_tanh"),
    ("decimals default", "round_"),
    ("default dim dim_max other out unary_out", "max"),
    ("default dim dim_min other out unary_out", "min"),
    ("default dim dim_out dims dims_out out", "squeeze_copy"),
    ("default dim dim_out out", "nuclear_norm"),
    ("default dim dim_values out", "median nanmedian"),
    ("default dim dims", "squeeze squeeze_"),
    ("default dim dtype_out out", "mean"),
    ("default dim_IntList dim_IntList_out out", "count_nonzero"),
    ("default dim_int int_out out", "prod"),
    ("default dtype", "view"),
    ("default dtype dtype_out out", "addmm baddbmm bmm mm view_copy"),
    ("default eigvals", "linalg_eigh"),
    ("default from to", "random_"),
    ("default generator", "manual_seed"),
    ("default generator generator_out low low_generator low_generator_out low_out out", "randint"),
    ("default generator generator_out out", "rand rand_like randn randn_like randperm"),
    ("default hacked_twin", "index_put_"),
    ("default hacked_twin out", "index_put"),
    ("default indexing", "meshgrid"),
    ("default int", "size stride sym_size"),
    ("default int out", "gcd"),
    ("default inverse", "linalg_inv_ex"),
    ("default m m_out out", "eye"),
    ("default memory_format", "is_contiguous"),
    (
        "default n_scalar n_scalar_out out x_scalar x_scalar_out",
        "special_chebyshev_polynomial_t special_chebyshev_polynomial_u special_chebyshev_polynomial_v "
        "special_chebyshev_polynomial_w special_hermite_polynomial_h special_hermite_polynomial_he "
        "special_laguerre_polynomial_l special_legendre_polynomial_p special_shifted_chebyshev_polynomial_t "
        "special_shifted_chebyshev_polynomial_u special_shifted_chebyshev_polynomial_v "
        "special_shifted_chebyshev_polynomial_w",
    ),
    ("default ord_str ord_str_out out", "linalg_norm"),
    ("default other_scalar other_scalar_out out self_scalar self_scalar_out", "special_xlog1py special_xlogy special_zeta"),
    ("default out out_ step", "range"),
    ("default out p_str p_str_out", "linalg_cond"),
    (
        "default out periodic periodic_alpha periodic_alpha_beta periodic_alpha_beta_out periodic_alpha_out periodic_out",
        "hamming_window",
    ),
    ("default out periodic periodic_out", "bartlett_window blackman_window hann_window"),
    ("default out scalar scalar_out", "nanquantile quantile"),
    ("default out start start_out start_step", "arange"),
    ("default out str_ord str_ord_out", "linalg_matrix_norm"),
    ("default out vec", "upsample_bicubic2d upsample_linear1d upsample_nearest1d upsample_nearest3d upsample_trilinear3d"),
    ("default out vec vec_out", "upsample_bilinear2d upsample_nearest2d"),
    ("default output", "fractional_max_pool2d fractional_max_pool3d"),
    ("default padding", "conv1d conv2d conv3d"),
    ("default padding_idx", "embedding_bag"),
    ("default source_Storage source_Storage_storage_offset source_Tensor source_Tensor_storage_offset", "set_"),
    ("default sparse_dim", "to_sparse"),
    ("default stable stable_out", "argsort"),
    ("default sublist", "einsum"),
    ("default values", "kthvalue mode topk"),
    ("device dtype dtype_layout other prim_Device prim_dtype prim_other", "to"),
    ("dim out", "frobenius_norm"),
    ("dx x", "cumulative_trapezoid trapezoid trapz"),
    ("indices indices_size size size_out", "sparse_coo_tensor"),
    ("indices sections tensor_indices_or_sections", "tensor_split"),
    ("input", "conv_transpose2d conv_transpose3d"),
    ("int", "transpose unbind unflatten"),
    ("int int_out", "log_softmax select_copy softmax transpose_copy unbind_copy"),
    ("int intlist", "moveaxis movedim"),
    ("int t", "select"),
    ("int_Scalar int_Scalar_out int_Tensor int_Tensor_out", "index_fill"),
    ("int_Scalar int_Tensor", "index_fill_"),
    ("memory_format out", "empty"),
    ("reduce reduce_out src src_out value value_out value_reduce value_reduce_out", "scatter"),
    ("reduce src value value_reduce", "scatter_"),
    ("two", "scatter_reduce_"),
    ("two two_out", "scatter_reduce"),
    ("using_ints", "flatten"),
)  # fmt: skip
