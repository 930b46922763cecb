// cuBLASLt as far as tdt calls it: descriptions are checked as cublasLt.h documents them, and products computed on the host.
//
// Products go to `lt_matmul`, which decides when `lt_run` computes them. With NVIDIA_HEADER defined, the declarations below are
// compared with NVIDIA's own.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_VALUE = 7, NOT_SUPPORTED = 15 };
enum { R_32F = 0, R_64F = 1, R_16F = 2, R_16BF = 14 };
enum { COMPUTE_32F = 68, COMPUTE_64F = 70, COMPUTE_TF32 = 77 };
enum { TRANSA = 3, TRANSB = 4, EPILOGUE = 7, BIAS_POINTER = 8 };
enum { DEFAULT = 1, BIAS = 4, BGRADB = 512 };
enum { BATCH_COUNT = 5, BATCH_OFFSET = 6 };
enum { MAX_WORKSPACE = 1, REDUCTION_MASK = 3, ALIGNMENT_A = 5, ALIGNMENT_D = 8 };

typedef struct { int type; uint64_t rows, columns; int64_t step, offset; int32_t batch; } layout;
typedef struct { int compute, scale, operation[2]; uint32_t epilogue; void* bias; } description;
typedef struct { uint64_t workspace; uint32_t reduction, alignment[4]; } preference;
typedef struct { uint64_t words[8]; } algorithm;
typedef struct { algorithm algo; size_t workspace; int state; float waves; int reserved[4]; } result;
typedef struct { const char* at; uint64_t bytes; } extent;
// A product, and the memory that it reads (a, b, and the bias) and writes (d, and sums).
typedef struct { description how; layout a, b, d; extent memory[4]; void* stream; } job;

#ifdef NVIDIA_HEADER
#include <cublasLt.h>
#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
SAME(SUCCESS, CUBLAS_STATUS_SUCCESS); SAME(INVALID_VALUE, CUBLAS_STATUS_INVALID_VALUE); SAME(NOT_SUPPORTED, CUBLAS_STATUS_NOT_SUPPORTED);
SAME(R_32F, CUDA_R_32F); SAME(R_64F, CUDA_R_64F); SAME(R_16F, CUDA_R_16F); SAME(R_16BF, CUDA_R_16BF);
SAME(COMPUTE_32F, CUBLAS_COMPUTE_32F); SAME(COMPUTE_64F, CUBLAS_COMPUTE_64F); SAME(COMPUTE_TF32, CUBLAS_COMPUTE_32F_FAST_TF32);
SAME(0, CUBLAS_OP_N); SAME(1, CUBLAS_OP_T); SAME(2, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
SAME(TRANSA, CUBLASLT_MATMUL_DESC_TRANSA); SAME(TRANSB, CUBLASLT_MATMUL_DESC_TRANSB);
SAME(EPILOGUE, CUBLASLT_MATMUL_DESC_EPILOGUE); SAME(BIAS_POINTER, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
SAME(DEFAULT, CUBLASLT_EPILOGUE_DEFAULT); SAME(BIAS, CUBLASLT_EPILOGUE_BIAS); SAME(BGRADB, CUBLASLT_EPILOGUE_BGRADB);
SAME(BATCH_COUNT, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT); SAME(BATCH_OFFSET, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
SAME(MAX_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES); SAME(REDUCTION_MASK, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
SAME(ALIGNMENT_A, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES); SAME(ALIGNMENT_A + 1, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
SAME(ALIGNMENT_A + 2, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES); SAME(ALIGNMENT_D, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
SAME(sizeof(algorithm), sizeof(cublasLtMatmulAlgo_t)); SAME(sizeof(result), sizeof(cublasLtMatmulHeuristicResult_t));
SAME(offsetof(result, workspace), offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
SAME(offsetof(result, state), offsetof(cublasLtMatmulHeuristicResult_t, state));
#define SIGNATURE(name, ...) \
    _Static_assert(_Generic(&name, cublasStatus_t (*)(__VA_ARGS__): 1, default: 0), #name)
SIGNATURE(cublasLtCreate, cublasLtHandle_t*);
SIGNATURE(cublasLtMatmulDescCreate, cublasLtMatmulDesc_t*, cublasComputeType_t, cudaDataType_t);
SIGNATURE(cublasLtMatmulDescSetAttribute, cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, const void*, size_t);
SIGNATURE(cublasLtMatrixLayoutCreate, cublasLtMatrixLayout_t*, cudaDataType, uint64_t, uint64_t, int64_t);
SIGNATURE(cublasLtMatrixLayoutSetAttribute, cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t, const void*, size_t);
SIGNATURE(cublasLtMatmulPreferenceCreate, cublasLtMatmulPreference_t*);
SIGNATURE(cublasLtMatmulPreferenceSetAttribute, cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t, const void*, size_t);
SIGNATURE(cublasLtMatmulPreferenceDestroy, cublasLtMatmulPreference_t);
SIGNATURE(cublasLtMatmulAlgoGetHeuristic, cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
          cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t*, int*);
SIGNATURE(cublasLtMatmul, cublasLtHandle_t, cublasLtMatmulDesc_t, const void*, const void*, cublasLtMatrixLayout_t, const void*,
          cublasLtMatrixLayout_t, const void*, const void*, cublasLtMatrixLayout_t, void*, cublasLtMatrixLayout_t,
          const cublasLtMatmulAlgo_t*, void*, size_t, cudaStream_t);
#else

void* lt_matmul; // int (*)(const job*, size_t bytes), set by Python

static uint64_t size_of(int type) { return type == R_64F ? 8 : type == R_32F ? 4 : 2; }
static int read_attribute(void* to, const void* from, size_t size, size_t expected) {
    if (size != expected) return INVALID_VALUE;
    memcpy(to, from, size);
    return SUCCESS;
}

int cublasLtCreate(void** handle) { return *handle = malloc(1), SUCCESS; }

int cublasLtMatmulDescCreate(description** made, int compute, int scale) {
    if (scale != (compute == COMPUTE_64F ? R_64F : R_32F)) return INVALID_VALUE;
    if (compute != COMPUTE_32F && compute != COMPUTE_64F && compute != COMPUTE_TF32) return INVALID_VALUE;
    *made = calloc(1, sizeof **made);
    (*made)->compute = compute, (*made)->scale = scale, (*made)->epilogue = DEFAULT;
    return SUCCESS;
}
int cublasLtMatmulDescSetAttribute(description* of, int attribute, const void* value, size_t size) {
    switch (attribute) {
        case TRANSA: return read_attribute(&of->operation[0], value, size, 4);
        case TRANSB: return read_attribute(&of->operation[1], value, size, 4);
        case EPILOGUE: return read_attribute(&of->epilogue, value, size, 4);
        case BIAS_POINTER: return read_attribute(&of->bias, value, size, 8);
        default: return INVALID_VALUE;
    }
}

int cublasLtMatrixLayoutCreate(layout** made, int type, uint64_t rows, uint64_t columns, int64_t step) {
    *made = calloc(1, sizeof **made);
    **made = (layout){type, rows, columns, step, 0, 1};
    return SUCCESS;
}
int cublasLtMatrixLayoutSetAttribute(layout* of, int attribute, const void* value, size_t size) {
    switch (attribute) {
        case BATCH_COUNT: return read_attribute(&of->batch, value, size, 4);
        case BATCH_OFFSET: return read_attribute(&of->offset, value, size, 8);
        default: return INVALID_VALUE;
    }
}

int cublasLtMatmulPreferenceCreate(preference** made) {
    *made = calloc(1, sizeof **made);
    for (int k = 0; k < 4; k++) (*made)->alignment[k] = 256;
    return SUCCESS;
}
int cublasLtMatmulPreferenceSetAttribute(preference* of, int attribute, const void* value, size_t size) {
    if (attribute >= ALIGNMENT_A && attribute <= ALIGNMENT_D) return read_attribute(&of->alignment[attribute - ALIGNMENT_A], value, size, 4);
    switch (attribute) {
        case MAX_WORKSPACE: return read_attribute(&of->workspace, value, size, 8);
        case REDUCTION_MASK: return read_attribute(&of->reduction, value, size, 4);
        default: return INVALID_VALUE;
    }
}
int cublasLtMatmulPreferenceDestroy(preference* of) { return free(of), SUCCESS; }

static uint64_t inner(const description* how, const layout* of, int which) { return how->operation[which] ? (which ? of->columns : of->rows) : (which ? of->rows : of->columns); }
static uint64_t outer(const description* how, const layout* of, int which) { return how->operation[which] ? (which ? of->rows : of->columns) : (which ? of->columns : of->rows); }

static int invalid(const description* how, const layout* a, const layout* b, const layout* d) {
    const layout* all[] = {a, b, d};
    for (int k = 0; k < 3; k++) {
        if (all[k]->type != d->type || all[k]->batch != d->batch || all[k]->batch < 1) return 1;
        if (!all[k]->rows || !all[k]->columns || all[k]->step < (int64_t)all[k]->rows) return 1;
        if (all[k]->rows > INT32_MAX || all[k]->columns > INT32_MAX) return 1;
    }
    if ((d->type == R_64F) != (how->compute == COMPUTE_64F)) return 1;
    if (how->compute == COMPUTE_TF32 && d->type != R_32F) return 1;
    if (d->batch > 1 && d->offset < d->step * (int64_t)(d->columns - 1) + (int64_t)d->rows) return 1; // results would overlap
    if (how->epilogue != DEFAULT && how->epilogue != BIAS && how->epilogue != BGRADB) return 1;
    return inner(how, a, 0) != inner(how, b, 1) || outer(how, a, 0) != d->rows || outer(how, b, 1) != d->columns;
}

// What an algorithm was chosen for: a hash of the descriptions without the address of a bias.
static uint64_t hash_of(const description* how, const layout* a, const layout* b, const layout* d) {
    uint64_t hash = 14695981039346656037u;
    const int64_t words[] = {how->compute, how->operation[0], how->operation[1], how->epilogue,
        a->type, a->rows, a->columns, a->step, a->offset, a->batch, b->rows, b->columns, b->step, b->offset, d->rows, d->columns, d->step, d->offset};
    for (size_t k = 0; k < sizeof words; k++) hash = (hash ^ ((const unsigned char*)words)[k]) * 1099511628211u;
    return hash;
}

int lt_without = 0; // an epilogue that the GPU does not have, to test what happens then

int cublasLtMatmulAlgoGetHeuristic(void* handle, const description* how, const layout* a, const layout* b, const layout* c, const layout* d,
                                   const preference* wish, int most, result* found, int* count) {
    *count = 0;
    if (!handle || most < 1 || c != d || invalid(how, a, b, d)) return INVALID_VALUE;
    if (how->epilogue != DEFAULT && !how->bias) return INVALID_VALUE;
    if (how->epilogue == (uint32_t)lt_without) return NOT_SUPPORTED;
    memset(found, 0, sizeof *found);
    found->workspace = wish->workspace < 4096 ? wish->workspace : 4096;
    const uint64_t bias = (uint64_t)how->bias;
    const uint64_t words[8] = {hash_of(how, a, b, d), found->workspace, wish->alignment[0], wish->alignment[1], wish->alignment[2], wish->alignment[3], bias & -bias, 1};
    memcpy(found->algo.words, words, sizeof words);
    return *count = 1, SUCCESS;
}

static extent extent_of(const layout* of, const void* at) {
    const uint64_t last = (of->batch - 1) * of->offset + (of->columns - 1) * of->step + of->rows;
    return (extent){at, last * size_of(of->type)};
}

int cublasLtMatmul(void* handle, const description* how, const void* alpha, const void* a, const layout* at, const void* b, const layout* bt,
                   const void* beta, const void* c, const layout* ct, void* d, const layout* dt, const algorithm* algo, void* workspace,
                   size_t workspace_size, void* stream) {
    const double one = how->scale == R_64F ? *(const double*)alpha : *(const float*)alpha, zero = how->scale == R_64F ? *(const double*)beta : *(const float*)beta;
    if (!handle || !algo || one != 1 || zero != 0 || c != d || ct != dt || invalid(how, at, bt, dt)) return INVALID_VALUE;
    if (algo->words[0] != hash_of(how, at, bt, dt) || workspace_size < algo->words[1] || !workspace) return INVALID_VALUE;
    if ((uint64_t)a % algo->words[2] || (uint64_t)b % algo->words[3] || (uint64_t)d % algo->words[5]) return INVALID_VALUE;
    job made = {*how, *at, *bt, *dt, {extent_of(at, a), extent_of(bt, b), extent_of(dt, d), {0, 0}}, stream};
    if (how->epilogue != DEFAULT) {
        if (!how->bias || (algo->words[6] && (uint64_t)how->bias % algo->words[6])) return INVALID_VALUE;
        made.memory[3] = (extent){how->bias, (how->epilogue == BIAS ? dt->rows : dt->columns) * size_of(dt->type)};
    }
    return ((int (*)(const job*, size_t))lt_matmul)(&made, sizeof made);
}

#include "numbers.h"

// D = op(A) op(B) of each pair in the batch, with its epilogue; sums in double precision.
void lt_run(const job* of) {
    const layout *a = &of->a, *b = &of->b, *d = &of->d;
    const int type = d->type, tf32 = of->how.compute == COMPUTE_TF32, ta = of->how.operation[0], tb = of->how.operation[1];
    const uint64_t size = size_of(type), depth = inner(&of->how, a, 0), rows = d->rows;
    char* const sums = (char*)of->memory[3].at;
    double *left = malloc(depth * rows * sizeof *left), *column = malloc(rows * sizeof *column);
    for (int32_t n = 0; n < d->batch; n++) {
        const char *at = of->memory[0].at + n * a->offset * (int64_t)size, *bt = of->memory[1].at + n * b->offset * (int64_t)size;
        char* const dt = (char*)of->memory[2].at + n * d->offset * (int64_t)size;
        for (uint64_t k = 0; k < depth; k++)
            for (uint64_t i = 0; i < rows; i++) left[k * rows + i] = load(at, type, ta ? i * a->step + k : k * a->step + i, tf32);
        for (uint64_t j = 0; j < d->columns; j++) {
            double whole = 0;
            for (uint64_t i = 0; i < rows; i++) column[i] = 0;
            for (uint64_t k = 0; k < depth; k++) {
                const uint64_t place = tb ? k * b->step + j : j * b->step + k;
                const double factor = load(bt, type, place, tf32), *const values = left + k * rows;
                whole += load(bt, type, place, 0);
                for (uint64_t i = 0; i < rows; i++) column[i] += values[i] * factor;
            }
            for (uint64_t i = 0; i < rows; i++) store(dt, type, j * d->step + i, column[i] + (of->how.epilogue == BIAS ? load(sums, type, i, 0) : 0));
            if (of->how.epilogue == BGRADB) store(sums, type, j, whole);
        }
    }
    free(left), free(column);
}
#endif
