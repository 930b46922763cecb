// cuDNN's backend API as far as tdt calls it: descriptors are checked as cudnn_graph.h documents them, and convolutions and the
// graphs of attention computed on the host.
//
// They go to `cudnn_execute`, which decides when `cudnn_run` computes them. With NVIDIA_HEADER defined, the declarations
// below are compared with NVIDIA's own.
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, BAD_PARAM = 2000, NOT_FINALIZED = 2004, NOT_SUPPORTED = 3000 };
enum { CONVOLUTION = 1, ENGINE, ENGINECFG, ENGINEHEUR, EXECUTION_PLAN, FORWARD = 10, WEIGHT_GRAD, INPUT_GRAD, OPERATIONGRAPH = 15, VARIANT_PACK, TENSOR };
enum { T_HANDLE = 0, T_DATA_TYPE = 1, T_INT64 = 3, T_FLOAT = 4, T_POINTER = 6, T_CONVOLUTION_MODE = 7, T_HEUR_MODE = 8, T_NOTE = 11, T_DESCRIPTOR = 15 };
enum { COMP_TYPE = 100, CONV_MODE, DILATIONS, STRIDES, POST_PADDINGS, PRE_PADDINGS, SPATIAL_DIMS };
enum { HEUR_MODE = 200, HEUR_GRAPH, HEUR_RESULTS, CFG_ENGINE = 300, PLAN_HANDLE = 400, PLAN_CONFIG, PLAN_WORKSPACE_SIZE };
enum { FORWARD_ALPHA = 700, INPUT_ALPHA = 706, WEIGHT_ALPHA = 712, GRAPH_HANDLE = 800, GRAPH_OPS = 801 };
enum { ALIGNMENT = 900, DATA_TYPE, DIMENSIONS, TENSOR_STRIDES, UNIQUE_ID = 906, UNIQUE_IDS = 1000, DATA_POINTERS, WORKSPACE = 1003, ENGINE_INDEX = 1301, NUMERICAL_NOTE = 1303 };
enum { R_32F = 0, R_64F = 1, R_16F = 2, R_16BF = 9, CROSS_CORRELATION = 1, FALLBACK = 2, MODE_A = 3 };
enum { TENSOR_CORE, DOWN_CONVERT_INPUTS, REDUCED_PRECISION_REDUCTION, FFT, NONDETERMINISTIC, WINOGRAD, TILE_13 = 8 };

enum { POINTWISE = 0, MOST_NODES = 24, MOST_CONSTANTS = 3, PLACES = 12 };
typedef struct { int64_t size[5], step[5]; int64_t id, alignment; int type, dims; char is_virtual, by_value; } tensor;
typedef struct { int compute, mode; int64_t dims, stride[3], padding[3], post[3], dilation[3]; int counts[4]; } convolution;
typedef struct { float alpha, beta; int set; convolution how; tensor x, w, y; } operation;
typedef struct { int kind, mode, compute; int64_t axis; tensor x, b, t, y; } node; // an operation of a graph of several
typedef struct { int kind, finalized; void *handle, *graph, *config; int mode, engine; int64_t ids[PLACES + MOST_CONSTANTS]; void *pointers[PLACES + MOST_CONSTANTS], *workspace; int workspaces, named, pointed;
                 union { tensor tensor; convolution convolution; operation operation; node node; }; int of, count; node nodes[MOST_NODES]; } descriptor;
typedef struct { const char* at; uint64_t bytes; } extent;
typedef struct { int64_t id; double value; } constant;
// A convolution or a graph, by an engine, and the memory of its tensors and of the workspace. result: which of them a convolution writes.
typedef struct { operation op; int engine, result, count; node nodes[MOST_NODES]; int64_t ids[PLACES]; constant constants[MOST_CONSTANTS]; extent memory[PLACES]; void* stream; } job;

#ifdef NVIDIA_HEADER
#include <cudnn_graph.h>
#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
SAME(SUCCESS, CUDNN_STATUS_SUCCESS); SAME(BAD_PARAM, CUDNN_STATUS_BAD_PARAM); SAME(NOT_FINALIZED, CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED); SAME(NOT_SUPPORTED, CUDNN_STATUS_NOT_SUPPORTED);
SAME(CONVOLUTION, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR); SAME(ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR); SAME(ENGINECFG, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
SAME(ENGINEHEUR, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR); SAME(EXECUTION_PLAN, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
SAME(FORWARD, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR); SAME(WEIGHT_GRAD, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
SAME(INPUT_GRAD, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR); SAME(OPERATIONGRAPH, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
SAME(VARIANT_PACK, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR); SAME(TENSOR, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
SAME(T_HANDLE, CUDNN_TYPE_HANDLE); SAME(T_DATA_TYPE, CUDNN_TYPE_DATA_TYPE); SAME(T_INT64, CUDNN_TYPE_INT64); SAME(T_FLOAT, CUDNN_TYPE_FLOAT); SAME(T_POINTER, CUDNN_TYPE_VOID_PTR);
SAME(T_CONVOLUTION_MODE, CUDNN_TYPE_CONVOLUTION_MODE); SAME(T_HEUR_MODE, CUDNN_TYPE_HEUR_MODE); SAME(T_NOTE, CUDNN_TYPE_NUMERICAL_NOTE); SAME(T_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR);
SAME(COMP_TYPE, CUDNN_ATTR_CONVOLUTION_COMP_TYPE); SAME(CONV_MODE, CUDNN_ATTR_CONVOLUTION_CONV_MODE); SAME(DILATIONS, CUDNN_ATTR_CONVOLUTION_DILATIONS);
SAME(STRIDES, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES); SAME(POST_PADDINGS, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS); SAME(PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
SAME(SPATIAL_DIMS, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS); SAME(HEUR_MODE, CUDNN_ATTR_ENGINEHEUR_MODE); SAME(HEUR_GRAPH, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
SAME(HEUR_RESULTS, CUDNN_ATTR_ENGINEHEUR_RESULTS); SAME(CFG_ENGINE, CUDNN_ATTR_ENGINECFG_ENGINE); SAME(PLAN_HANDLE, CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
SAME(PLAN_CONFIG, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG); SAME(PLAN_WORKSPACE_SIZE, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
#define OPERATION(first, NAME, X, W, Y) \
    SAME(first, CUDNN_ATTR_OPERATION_CONVOLUTION_##NAME##_ALPHA); SAME(first + 1, CUDNN_ATTR_OPERATION_CONVOLUTION_##NAME##_BETA); \
    SAME(first + 2, CUDNN_ATTR_OPERATION_CONVOLUTION_##NAME##_CONV_DESC); SAME(x_of(first), CUDNN_ATTR_OPERATION_CONVOLUTION_##NAME##_##X); \
    SAME(w_of(first), CUDNN_ATTR_OPERATION_CONVOLUTION_##NAME##_##W); SAME((first) + 5, CUDNN_ATTR_OPERATION_CONVOLUTION_##NAME##_##Y)
#define x_of(first) ((first) + 4)
#define w_of(first) ((first) + 3)
OPERATION(FORWARD_ALPHA, FORWARD, X, W, Y); OPERATION(INPUT_ALPHA, BWD_DATA, DX, W, DY); OPERATION(WEIGHT_ALPHA, BWD_FILTER, X, DW, DY);
SAME(GRAPH_HANDLE, CUDNN_ATTR_OPERATIONGRAPH_HANDLE); SAME(GRAPH_OPS, CUDNN_ATTR_OPERATIONGRAPH_OPS); SAME(ALIGNMENT, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
SAME(DATA_TYPE, CUDNN_ATTR_TENSOR_DATA_TYPE); SAME(DIMENSIONS, CUDNN_ATTR_TENSOR_DIMENSIONS); SAME(TENSOR_STRIDES, CUDNN_ATTR_TENSOR_STRIDES); SAME(UNIQUE_ID, CUDNN_ATTR_TENSOR_UNIQUE_ID);
SAME(UNIQUE_IDS, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS); SAME(DATA_POINTERS, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS); SAME(WORKSPACE, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
SAME(ENGINE_INDEX, CUDNN_ATTR_ENGINE_GLOBAL_INDEX); SAME(NUMERICAL_NOTE, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE); SAME(R_32F, CUDNN_DATA_FLOAT); SAME(R_64F, CUDNN_DATA_DOUBLE); SAME(R_16F, CUDNN_DATA_HALF); SAME(R_16BF, CUDNN_DATA_BFLOAT16);
SAME(CROSS_CORRELATION, CUDNN_CROSS_CORRELATION); SAME(FALLBACK, CUDNN_HEUR_MODE_FALLBACK); SAME(MODE_A, CUDNN_HEUR_MODE_A); SAME(TENSOR_CORE, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
SAME(DOWN_CONVERT_INPUTS, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS); SAME(REDUCED_PRECISION_REDUCTION, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION);
SAME(FFT, CUDNN_NUMERICAL_NOTE_FFT); SAME(NONDETERMINISTIC, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC); SAME(WINOGRAD, CUDNN_NUMERICAL_NOTE_WINOGRAD);
SAME(TILE_13, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13);
#define SIGNATURE(name, result, ...) _Static_assert(_Generic(&name, result (*)(__VA_ARGS__): 1, default: 0), #name)
SIGNATURE(cudnnGetVersion, size_t, void); SIGNATURE(cudnnGetCudartVersion, size_t, void); SIGNATURE(cudnnGetLastErrorString, void, char*, size_t);
SIGNATURE(cudnnCreate, cudnnStatus_t, cudnnHandle_t*); SIGNATURE(cudnnSetStream, cudnnStatus_t, cudnnHandle_t, cudaStream_t);
SIGNATURE(cudnnBackendCreateDescriptor, cudnnStatus_t, cudnnBackendDescriptorType_t, cudnnBackendDescriptor_t*);
SIGNATURE(cudnnBackendDestroyDescriptor, cudnnStatus_t, cudnnBackendDescriptor_t); SIGNATURE(cudnnBackendFinalize, cudnnStatus_t, cudnnBackendDescriptor_t);
SIGNATURE(cudnnBackendSetAttribute, cudnnStatus_t, cudnnBackendDescriptor_t, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, int64_t, const void*);
SIGNATURE(cudnnBackendGetAttribute, cudnnStatus_t, cudnnBackendDescriptor_t, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, int64_t, int64_t*, void*);
SIGNATURE(cudnnBackendExecute, cudnnStatus_t, cudnnHandle_t, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t);
#include "cudnn_graphs.h"
#else
#include "numbers.h"
#include "cudnn_graphs.h"

void* cudnn_execute; // int (*)(const job*, size_t bytes), set by Python
int cudnn_without = 0; // an operation that the GPU has no engine for, to test what happens then
static const char* last_error = "";

// The engines of the heuristics, in their order: those of mode A, and from LAST_OF_A on the fallback's.
int64_t cudnn_takes = INT64_MAX; // the workspace of the first engine
int cudnn_refuses = NOT_SUPPORTED; // the status of an engine that cannot be finalized
enum { ENGINES = 9, LAST_OF_A = 6, MOST_NOTES = 2, TAKES_TOO_MUCH = 0, FAILS = 1, BY_TENSOR_CORES = 3, INEXACT = 6, WORKSPACE_SIZE = 4096 };
static const struct { int count, notes[MOST_NOTES], number; } engines[ENGINES] = {
    {0, {0}},                                 // needs more memory than a GPU has
    {0, {0}},                                 // cannot be finalized
    {2, {TENSOR_CORE, DOWN_CONVERT_INPUTS}},
    {1, {TENSOR_CORE}},
    {1, {WINOGRAD}},
    {1, {FFT}},
    {0, {0}, 17},                             // whose weight gradients are not exact
    {2, {NONDETERMINISTIC, REDUCED_PRECISION_REDUCTION}},
    {0, {0}},
};

size_t cudnn_version = 92801; // to test that old ones are refused
size_t cudnnGetVersion(void) { return cudnn_version; }
size_t cudnnGetCudartVersion(void) { return 13000; }
void cudnnGetLastErrorString(char* text, size_t most) { strncpy(text, last_error, most), text[most - 1] = 0; }
static int fail(int status, const char* why) { return last_error = why, status; }

typedef struct { void* stream; } handle;
int cudnn_creates = SUCCESS; // the status of cudnnCreate, to test what happens on other GPUs
int cudnnCreate(handle** made) { return *made = calloc(1, sizeof **made), cudnn_creates ? fail(cudnn_creates, "no handle") : SUCCESS; }
int cudnnSetStream(handle* of, void* stream) { return of->stream = stream, SUCCESS; }

int cudnn_alive = 0; // descriptors
int cudnnBackendCreateDescriptor(int kind, descriptor** made) {
    *made = calloc(1, sizeof **made);
    (*made)->kind = kind, cudnn_alive++;
    return SUCCESS;
}
int cudnnBackendDestroyDescriptor(descriptor* of) { return free(of), cudnn_alive--, SUCCESS; }

enum { GRAPHS = 1000 }; // a graph of several operations is of a kind of its own, by the number of its products
static int first_of(int kind) { return kind == FORWARD ? FORWARD_ALPHA : kind == INPUT_GRAD ? INPUT_ALPHA : kind == WEIGHT_GRAD ? WEIGHT_ALPHA : -1; }
static uint64_t size_of(int type) { return type == R_32F || type == R_32I ? 4 : type == R_BOOLEAN ? 1 : 2; }

#define TAKE(expected, least, most, bytes, to) \
    do { \
        if (type != (expected) || count < (least) || count > (most)) return fail(BAD_PARAM, "a wrong type or number of values"); \
        memcpy(to, values, (size_t)count * (bytes)); \
        return SUCCESS; \
    } while (0)

// The operations of a graph: one convolution, or nodes.
static int take_operations(descriptor* of, int64_t count, descriptor* const* from) {
    if (count == 1 && first_of(from[0]->kind) >= 0) return of->operation = from[0]->operation, of->of = from[0]->kind, SUCCESS;
    if (count < 1 || count > MOST_NODES) return fail(BAD_PARAM, "no operations, or too many");
    for (of->of = GRAPHS, of->count = 0; of->count < count; of->count++) {
        const descriptor* each = from[of->count];
        if (!each->finalized) return fail(NOT_FINALIZED, "an operation that is not finalized");
        if (!is_node(each->kind)) return fail(BAD_PARAM, "not an operation");
        of->nodes[of->count] = each->node, of->of += each->kind == OF_MATMUL;
    }
    return SUCCESS;
}
static void take_graph(descriptor* of, const descriptor* from) {
    of->operation = from->operation, of->of = from->of, of->count = from->count;
    memcpy(of->nodes, from->nodes, sizeof of->nodes);
}

int cudnnBackendSetAttribute(descriptor* of, int attribute, int type, int64_t count, const void* values) {
    if (of->finalized) return fail(BAD_PARAM, "a finalized descriptor is set");
    descriptor* other = type == T_DESCRIPTOR && count == 1 ? *(descriptor* const*)values : NULL;
    if (other && !other->finalized) return fail(NOT_FINALIZED, "a descriptor that is not finalized");
    convolution* how = &of->convolution;
    switch (of->kind * 10000 + attribute) {
        case TENSOR * 10000 + UNIQUE_ID: TAKE(T_INT64, 1, 1, 8, &of->tensor.id);
        case TENSOR * 10000 + ALIGNMENT: TAKE(T_INT64, 1, 1, 8, &of->tensor.alignment);
        case TENSOR * 10000 + DATA_TYPE: TAKE(T_DATA_TYPE, 1, 1, 4, &of->tensor.type);
        case TENSOR * 10000 + DIMENSIONS: of->tensor.dims = (int)count; TAKE(T_INT64, 4, 5, 8, of->tensor.size);
        case TENSOR * 10000 + TENSOR_STRIDES: TAKE(T_INT64, of->tensor.dims, of->tensor.dims, 8, of->tensor.step);
        case TENSOR * 10000 + IS_VIRTUAL: TAKE(T_BOOLEAN, 1, 1, 1, &of->tensor.is_virtual);
        case TENSOR * 10000 + IS_BY_VALUE: TAKE(T_BOOLEAN, 1, 1, 1, &of->tensor.by_value);
        case POINTWISE * 10000 + POINTWISE_MODE: TAKE(T_POINTWISE_MODE, 1, 1, 4, &of->node.mode);
        case POINTWISE * 10000 + POINTWISE_AXIS: TAKE(T_INT64, 1, 1, 8, &of->node.axis);
        case POINTWISE * 10000 + POINTWISE_TYPE: case MATMUL * 10000 + MATMUL_TYPE: case REDUCTION * 10000 + REDUCTION_TYPE: TAKE(T_DATA_TYPE, 1, 1, 4, &of->node.compute);
        case REDUCTION * 10000 + REDUCTION_OPERATOR: TAKE(T_REDUCTION, 1, 1, 4, &of->node.mode);
        case CONVOLUTION * 10000 + COMP_TYPE: TAKE(T_DATA_TYPE, 1, 1, 4, &how->compute);
        case CONVOLUTION * 10000 + CONV_MODE: TAKE(T_CONVOLUTION_MODE, 1, 1, 4, &how->mode);
        case CONVOLUTION * 10000 + SPATIAL_DIMS: TAKE(T_INT64, 1, 1, 8, &how->dims);
        case CONVOLUTION * 10000 + DILATIONS: how->counts[0] = (int)count; TAKE(T_INT64, 2, 3, 8, how->dilation);
        case CONVOLUTION * 10000 + STRIDES: how->counts[1] = (int)count; TAKE(T_INT64, 2, 3, 8, how->stride);
        case CONVOLUTION * 10000 + PRE_PADDINGS: how->counts[2] = (int)count; TAKE(T_INT64, 2, 3, 8, how->padding);
        case CONVOLUTION * 10000 + POST_PADDINGS: how->counts[3] = (int)count; TAKE(T_INT64, 2, 3, 8, how->post);
        case OPERATIONGRAPH * 10000 + GRAPH_HANDLE: TAKE(T_HANDLE, 1, 1, 8, &of->handle);
        case OPERATIONGRAPH * 10000 + GRAPH_OPS:
            if (type != T_DESCRIPTOR) return fail(BAD_PARAM, "not operations");
            return take_operations(of, count, values);
        case ENGINEHEUR * 10000 + HEUR_MODE: TAKE(T_HEUR_MODE, 1, 1, 4, &of->mode);
        case ENGINEHEUR * 10000 + HEUR_GRAPH:
            if (!other || other->kind != OPERATIONGRAPH) return fail(BAD_PARAM, "not a graph");
            return of->graph = other, take_graph(of, other), SUCCESS;
        case EXECUTION_PLAN * 10000 + PLAN_HANDLE: TAKE(T_HANDLE, 1, 1, 8, &of->handle);
        case EXECUTION_PLAN * 10000 + PLAN_CONFIG:
            if (!other || other->kind != ENGINECFG) return fail(BAD_PARAM, "not a configuration");
            return of->config = other, of->engine = other->engine, take_graph(of, other), SUCCESS;
        case VARIANT_PACK * 10000 + UNIQUE_IDS: of->named = (int)count; TAKE(T_INT64, 3, PLACES + MOST_CONSTANTS, 8, of->ids);
        case VARIANT_PACK * 10000 + DATA_POINTERS: of->pointed = (int)count; TAKE(T_POINTER, 3, PLACES + MOST_CONSTANTS, 8, of->pointers);
        case VARIANT_PACK * 10000 + WORKSPACE: of->workspaces = 1; TAKE(T_POINTER, 1, 1, 8, &of->workspace);
    }
    if (is_node(of->kind)) {
        of->node.kind = of->kind;
        tensor* place = place_in(&of->node, attribute);
        if (!other || (place ? other->kind != TENSOR : other->kind != POINTWISE && other->kind != MATMUL && other->kind != REDUCTION)) return fail(BAD_PARAM, "a wrong kind of descriptor");
        if (place) return *place = other->tensor, SUCCESS;
        return of->node.mode = other->node.mode, of->node.axis = other->node.axis, of->node.compute = other->node.compute, SUCCESS;
    }
    const int first = first_of(of->kind);
    if (first < 0 || attribute < first || attribute > first + 5) return fail(BAD_PARAM, "the descriptor has no such attribute");
    operation* op = &of->operation;
    op->set |= 1 << (attribute - first);
    if (attribute == first) TAKE(T_FLOAT, 1, 1, 4, &op->alpha);
    if (attribute == first + 1) TAKE(T_FLOAT, 1, 1, 4, &op->beta);
    if (!other || other->kind != (attribute == first + 2 ? CONVOLUTION : TENSOR)) return fail(BAD_PARAM, "a wrong kind of descriptor");
    if (attribute == first + 2) return op->how = other->convolution, SUCCESS;
    tensor* to = attribute == first + 3 ? &op->w : attribute == first + 4 ? &op->x : &op->y;
    return *to = other->tensor, SUCCESS;
}

// Whether each element has a place of its own, without gaps.
static int is_dense(const tensor* t) {
    int64_t expected = 1, seen = 0;
    for (int k = 0; k < t->dims; k++) {
        int next = -1;
        for (int d = t->dims - 1; d >= 0; d--)
            if (!(seen >> d & 1) && t->step[d] == expected && (next < 0 || t->size[d] == 1)) next = d;
        if (next < 0) return 0;
        seen |= 1 << next, expected *= t->size[next];
    }
    return 1;
}

static const char* wrong(const descriptor* of) {
    if (of->kind == TENSOR) {
        const tensor* t = &of->tensor;
        if (t->type != R_32F && t->type != R_16F && t->type != R_16BF && !t->is_virtual) return "a type that is not known here";
        if (!t->id || !t->dims || t->alignment <= 0 || t->alignment % (int64_t)size_of(t->type)) return "a name, sizes or an alignment";
        for (int d = 0; d < t->dims; d++)
            if (t->size[d] <= 0 || t->step[d] <= 0) return "sizes and steps are positive";
    } else if (of->kind == CONVOLUTION) {
        const convolution* c = &of->convolution;
        if (c->compute != R_32F || c->mode != CROSS_CORRELATION) return "computed otherwise than by tdt";
        for (int k = 0; k < 4; k++)
            if (c->counts[k] != c->dims) return "as many strides, paddings and dilations as spatial dimensions";
        for (int d = 0; d < c->dims; d++)
            if (c->stride[d] < 1 || c->dilation[d] < 1 || c->padding[d] < 0 || c->post[d] < 0) return "a stride, padding or dilation";
    } else if (first_of(of->kind) >= 0) {
        const operation* op = &of->operation;
        const tensor *x = &op->x, *w = &op->w, *y = &op->y;
        if (!is_dense(x) || !is_dense(w) || !is_dense(y)) return "a tensor with gaps";
        if (op->set != 63 || op->alpha != 1 || op->beta != 0) return "something is not set";
        if (x->id == w->id || x->id == y->id || w->id == y->id) return "two tensors of one name";
        if (x->type != w->type || x->type != y->type || x->dims != w->dims || x->dims != y->dims || x->dims != op->how.dims + 2) return "tensors that do not fit";
        if (x->size[0] != y->size[0] || w->size[0] != y->size[1] || x->size[1] % w->size[1] || w->size[0] % (x->size[1] / w->size[1])) return "channels or groups";
        for (int d = 0; d < op->how.dims; d++) {
            const int64_t room = x->size[d + 2] + op->how.padding[d] + op->how.post[d] - op->how.dilation[d] * (w->size[d + 2] - 1) - 1;
            if (room < 0 || room / op->how.stride[d] + 1 != y->size[d + 2]) return "spatial sizes";
        }
    } else if (of->kind == OPERATIONGRAPH) {
        if (!of->handle || !of->of) return "a handle and an operation";
        return wrong_graph(of->nodes, of->count);
    } else if (is_node(of->kind)) {
        return wrong_node(&of->node);
    } else if (of->kind == POINTWISE || of->kind == MATMUL || of->kind == REDUCTION) {
        if (of->node.compute != (of->kind == POINTWISE && of->node.mode == NOT_LESS ? R_BOOLEAN : R_32F)) return "computed otherwise than by tdt";
    } else if (of->kind == ENGINEHEUR) {
        if (!of->graph || (of->mode != MODE_A && of->mode != FALLBACK)) return "a graph and a mode";
    } else if (of->kind == EXECUTION_PLAN) {
        if (!of->handle || !of->config) return "a handle and a configuration";
    } else if (of->kind == VARIANT_PACK) {
        if (!of->ids[0] || !of->workspaces || of->named != of->pointed) return "names, addresses and a workspace";
    } else return "it is read only";
    return NULL;
}

int cudnnBackendFinalize(descriptor* of) {
    const char* why = wrong(of);
    if (why) return fail(BAD_PARAM, why);
    if (of->kind == ENGINEHEUR && of->of == cudnn_without && of->mode == MODE_A) return fail(NOT_SUPPORTED, "no engine");
    if (of->kind == EXECUTION_PLAN && of->engine == FAILS) return fail(cudnn_refuses, "the engine cannot be used");
    return of->finalized = 1, SUCCESS;
}

int cudnnBackendGetAttribute(descriptor* of, int attribute, int type, int64_t most, int64_t* count, void* values) {
    if (!of->finalized) return fail(NOT_FINALIZED, "it is read before it is finalized");
    switch (of->kind * 10000 + attribute) {
        case ENGINEHEUR * 10000 + HEUR_RESULTS: {
            if (type != T_DESCRIPTOR) return fail(BAD_PARAM, "type");
            const int from = of->mode == MODE_A ? 0 : LAST_OF_A, to = of->of == cudnn_without ? from : of->mode == MODE_A ? LAST_OF_A : ENGINES;
            *count = to - from;
            for (int k = from; k < to && k - from < most; k++) {
                descriptor* config = ((descriptor**)values)[k - from];
                if (config->kind != ENGINECFG) return fail(BAD_PARAM, "not a configuration");
                config->finalized = 1, config->engine = k, take_graph(config, of);
            }
            return SUCCESS;
        }
        case ENGINECFG * 10000 + CFG_ENGINE: {
            descriptor* engine = *(descriptor**)values;
            if (type != T_DESCRIPTOR || most < 1 || engine->kind != ENGINE) return fail(BAD_PARAM, "not an engine");
            return engine->finalized = 1, engine->engine = of->engine, *count = 1, SUCCESS;
        }
        case ENGINE * 10000 + NUMERICAL_NOTE:
            *count = engines[of->engine].count;
            if (type != T_NOTE || most < *count) return fail(BAD_PARAM, "no room for notes");
            memcpy(values, engines[of->engine].notes, (size_t)*count * sizeof(int));
            return SUCCESS;
        case ENGINE * 10000 + ENGINE_INDEX:
            if (type != T_INT64 || most != 1) return fail(BAD_PARAM, "one number");
            *(int64_t*)values = engines[of->engine].number;
            return *count = 1, SUCCESS;
        case EXECUTION_PLAN * 10000 + PLAN_WORKSPACE_SIZE:
            if (type != T_INT64 || most != 1) return fail(BAD_PARAM, "one size");
            *(int64_t*)values = of->engine == TAKES_TOO_MUCH ? cudnn_takes : of->engine == BY_TENSOR_CORES ? 0 : WORKSPACE_SIZE;
            return *count = 1, SUCCESS;
        default: return fail(BAD_PARAM, "the descriptor has no such attribute");
    }
}

// Bytes from the first element of a tensor to its last.
static uint64_t extent_of(const tensor* t) {
    int64_t last = 0;
    for (int d = 0; d < t->dims; d++) last += (t->size[d] - 1) * t->step[d];
    return (uint64_t)(last + 1) * size_of(t->type);
}

// Whether a job has the address of a tensor.
static int place(job* made, int n, const tensor* t, const descriptor* pack) {
    for (int k = 0; k < pack->named; k++)
        if (pack->ids[k] == t->id) made->ids[n] = t->id, made->memory[n] = (extent){pack->pointers[k], extent_of(t)};
    return made->memory[n].at && (uint64_t)made->memory[n].at % (uint64_t)t->alignment == 0;
}

static int place_graph(job* made, const descriptor* plan, const descriptor* pack) {
    int places = 0, constants = 0;
    made->count = plan->count;
    memcpy(made->nodes, plan->nodes, sizeof made->nodes);
    for (int k = 0; k < 4 * plan->count; k++) {
        const node* each = &plan->nodes[k / 4];
        const tensor* t = (const tensor*[]){&each->x, &each->b, &each->t, &each->y}[k % 4];
        int known = !t->id || t->is_virtual;
        for (int n = 0; n < PLACES; n++) known |= made->ids[n] == t->id;
        for (int n = 0; n < MOST_CONSTANTS; n++) known |= made->constants[n].id == t->id;
        if (known) continue;
        if (!t->by_value && (places == PLACES - 1 || !place(made, places++, t, pack))) return 0;
        for (int n = 0; t->by_value && n < pack->named; n++)
            if (pack->ids[n] == t->id) made->constants[constants++] = (constant){t->id, *(const float*)pack->pointers[n]};
    }
    return places + constants == pack->named;
}

int cudnnBackendExecute(handle* with, const descriptor* plan, const descriptor* pack) {
    if (!with || plan->kind != EXECUTION_PLAN || !plan->finalized || pack->kind != VARIANT_PACK || !pack->finalized) return fail(BAD_PARAM, "a plan and addresses");
    job made = {plan->operation, plan->engine, plan->of == FORWARD ? 2 : plan->of == INPUT_GRAD ? 0 : 1, .stream = with->stream};
    const tensor* tensors[] = {&made.op.x, &made.op.w, &made.op.y};
    for (int k = 0; plan->of < GRAPHS && k < 3; k++)
        if (!place(&made, k, tensors[k], pack)) return fail(BAD_PARAM, "an address");
    if (plan->of >= GRAPHS && !place_graph(&made, plan, pack)) return fail(BAD_PARAM, "addresses");
    extent* workspace = &made.memory[PLACES - 1];
    if (made.engine != BY_TENSOR_CORES) *workspace = (extent){pack->workspace, WORKSPACE_SIZE};
    if (workspace->bytes && !workspace->at) return fail(BAD_PARAM, "a workspace");
    return ((int (*)(const job*, size_t))cudnn_execute)(&made, sizeof made);
}

static int64_t elements(const tensor* t) { return t->size[0] * t->size[1] * t->size[2] * t->size[3] * t->size[4]; }
static void three_dimensional(tensor* t) {
    if (t->dims == 4) t->size[4] = 1, t->step[4] = 1;
}

// Each product of the convolution, added to its place in the result; sums in double precision. Engines that may not be used give NaN.
void cudnn_run(const job* of) {
    if (of->count) return run_graph(of, of->engine != BY_TENSOR_CORES && of->engine != ENGINES - 1);
    operation op = of->op;
    three_dimensional(&op.x), three_dimensional(&op.w), three_dimensional(&op.y);
    if (op.how.dims == 2) op.how.stride[2] = op.how.dilation[2] = 1, op.how.padding[2] = 0;
    const tensor *tensors[] = {&op.x, &op.w, &op.y}, *out = tensors[of->result];
    const int inexact = of->engine == INEXACT && of->result == 1;
    const int forbidden = inexact || (of->engine != BY_TENSOR_CORES && of->engine < INEXACT) || of->engine == ENGINES - 2, type = op.x.type, tf32 = type == R_32F && of->engine == BY_TENSOR_CORES;
    double* values[3];
    for (int k = 0; k < 3; k++) {
        values[k] = calloc((size_t)elements(tensors[k]), sizeof(double));
        for (int64_t i = 0; k != of->result && i < elements(tensors[k]); i++) values[k][i] = load(of->memory[k].at, type, i, tf32);
    }
    const int64_t groups = op.x.size[1] / op.w.size[1], per = op.w.size[0] / groups, *xs = op.x.step, *ws = op.w.step, *ys = op.y.step;
    for (int64_t n = 0; n < op.y.size[0]; n++)
        for (int64_t o = 0; o < op.y.size[1]; o++)
            for (int64_t c = 0; c < op.w.size[1]; c++)
                for (int64_t p = 0; p < op.y.size[2] * op.y.size[3] * op.y.size[4]; p++)
                    for (int64_t q = 0; q < op.w.size[2] * op.w.size[3] * op.w.size[4]; q++) {
                        const int64_t places[] = {p / (op.y.size[3] * op.y.size[4]), p / op.y.size[4] % op.y.size[3], p % op.y.size[4]};
                        const int64_t cells[] = {q / (op.w.size[3] * op.w.size[4]), q / op.w.size[4] % op.w.size[3], q % op.w.size[4]};
                        int64_t x = n * xs[0] + (o / per * op.w.size[1] + c) * xs[1], w = o * ws[0] + c * ws[1], y = n * ys[0] + o * ys[1], inside = 1;
                        for (int d = 0; d < 3; d++) {
                            const int64_t at = places[d] * op.how.stride[d] - op.how.padding[d] + cells[d] * op.how.dilation[d];
                            inside &= at >= 0 && at < op.x.size[d + 2];
                            x += at * xs[d + 2], w += cells[d] * ws[d + 2], y += places[d] * ys[d + 2];
                        }
                        if (!inside) continue;
                        if (of->result == 2) values[2][y] += values[0][x] * values[1][w];
                        else if (of->result == 0) values[0][x] += values[1][w] * values[2][y];
                        else values[1][w] += values[0][x] * values[2][y];
                    }
    for (int64_t i = 0; i < elements(out); i++) store((char*)of->memory[of->result].at, type, i, forbidden ? NAN : values[of->result][i]);
    for (int k = 0; k < 3; k++) free(values[k]);
}
#endif
