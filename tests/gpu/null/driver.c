// CUDA's driver and runtime without a GPU: memory of the "GPU" is the host's, kernels compute nothing.
//
// Every call that a GPU would see is told to `null_call`, which wheel.py sets: it notes the call and may refuse it.

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

enum { ALLOCATE, FREE, UPLOAD, PINNED_UPLOAD, DOWNLOAD, COPY, FILL, WAIT, LIBRARY, EVENT, CAPTURE, CHECK };

// Set by wheel.py, and unset where Python ends.
int (*null_call)(int kind, const char* function, const void* stream, size_t bytes);
size_t (*null_module)(const void* image);                        // 0: refused
size_t (*null_function)(const void* module, const char* name);   // 0: there is none
int (*null_launch)(const void* function, const unsigned int* sizes, const void* stream, void** parameters);
int (*null_capture)(const void* stream, int begin);              // an error
int (*null_is_capturing)(const void* stream);
size_t (*null_work)(void);                                       // how much the GPU got so far
int null_count = 1, null_major = 9, null_minor = 0;

static const size_t TOTAL = 80ull << 30;
static _Thread_local int current;
static _Thread_local cudaError_t last;
static size_t taken, created = 0x1000;  // handles are numbers

int null_tell(int kind, const char* function, const void* stream, size_t bytes) {
    return null_call ? null_call(kind, function, stream, bytes) : 0;
}

// Takes the place of each of wheel.py's functions while time is measured (`silent`).
size_t null_nothing(void) { return 0; }

#define CALL(kind, stream, bytes) \
    do { \
        const int error = null_tell(kind, __func__, stream, bytes); \
        if (error) return last = (cudaError_t)error; \
    } while (0)

// Memory. Each block begins with its size; `pinned` lists what the host has locked.

enum { HEAD = 512, MOST_PINNED = 4096 };
static struct { const char* at; size_t size; } pinned[MOST_PINNED];

static void* allocate(size_t size) {
    char* block = aligned_alloc(HEAD, HEAD + (size + HEAD - 1) / HEAD * HEAD);
    if (!block) return NULL;
    memset(block, 0, HEAD + size);
    *(size_t*)block = size;
    return block + HEAD;
}

static cudaError_t allocated(void** at, size_t size) {
    if (taken + size > TOTAL || !(*at = allocate(size))) return last = cudaErrorMemoryAllocation;
    taken += size;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void** at, size_t size) {
    CALL(ALLOCATE, NULL, size);
    return allocated(at, size);
}
cudaError_t cudaMallocAsync(void** at, size_t size, cudaStream_t stream) {
    CALL(ALLOCATE, stream, size);
    return allocated(at, size);
}
cudaError_t cudaFree(void* at) {
    if (!at) return cudaSuccess;
    CALL(FREE, NULL, *(size_t*)((char*)at - HEAD));
    taken -= *(size_t*)((char*)at - HEAD);
    free((char*)at - HEAD);
    return cudaSuccess;
}
cudaError_t cudaFreeAsync(void* at, cudaStream_t stream) { return (void)stream, cudaFree(at); }
cudaError_t cudaMemGetInfo(size_t* available, size_t* total) {
    *available = TOTAL - taken, *total = TOTAL;
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** at, size_t size, unsigned int flags) {
    (void)flags;
    for (int k = 0; k < MOST_PINNED; k++)
        if (!pinned[k].at) {
            if (!(*at = allocate(size))) break;
            pinned[k].at = *at, pinned[k].size = size;
            return cudaSuccess;
        }
    return last = cudaErrorMemoryAllocation;
}
cudaError_t cudaFreeHost(void* at) {
    for (int k = 0; at && k < MOST_PINNED; k++)
        if (pinned[k].at == at) pinned[k].at = NULL, free((char*)at - HEAD);
    return cudaSuccess;
}
static int is_pinned(const void* at) {
    for (int k = 0; k < MOST_PINNED; k++)
        if (pinned[k].at && (const char*)at >= pinned[k].at && (const char*)at < pinned[k].at + pinned[k].size) return 1;
    return 0;
}
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes* attributes, const void* at) {
    memset(attributes, 0, sizeof *attributes);
    attributes->type = is_pinned(at) ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
    attributes->device = current;
    attributes->devicePointer = attributes->hostPointer = (void*)at;
    return cudaSuccess;
}

static cudaError_t copied(const char* function, void* to, const void* from, size_t size, enum cudaMemcpyKind way, const void* stream) {
    const int kind = way == cudaMemcpyHostToDevice   ? is_pinned(from) ? PINNED_UPLOAD : UPLOAD
                     : way == cudaMemcpyDeviceToHost ? DOWNLOAD
                                                     : COPY;
    const int error = null_tell(kind, function, stream, size);
    if (error) return last = (cudaError_t)error;
    memmove(to, from, size);
    return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t size, enum cudaMemcpyKind way) {
    CALL(WAIT, NULL, 0);
    return copied(__func__, to, from, size, way, NULL);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size, enum cudaMemcpyKind way, cudaStream_t stream) {
    return copied(__func__, to, from, size, way, stream);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int target, const void* from, int source, size_t size, cudaStream_t stream) {
    (void)target, (void)source;
    return copied(__func__, to, from, size, cudaMemcpyDeviceToDevice, stream);
}
cudaError_t cudaMemset(void* at, int value, size_t size) { return cudaMemsetAsync(at, value, size, NULL); }
cudaError_t cudaMemsetAsync(void* at, int value, size_t size, cudaStream_t stream) {
    CALL(FILL, stream, size);
    memset(at, value, size);
    return cudaSuccess;
}

// Devices.

cudaError_t cudaGetDeviceCount(int* count) { return *count = null_count, cudaSuccess; }
cudaError_t cudaGetDevice(int* device) { return *device = current, cudaSuccess; }
cudaError_t cudaSetDevice(int device) {
    if (device < 0 || device >= null_count) return last = cudaErrorInvalidDevice;
    return current = device, cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }
// No: then CuPy refuses to compute with arrays of another device.
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) { return (void)device, (void)peer, *can = 0, cudaSuccess; }
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags) { return (void)peer, (void)flags, cudaSuccess; }
cudaError_t cudaDeviceGetPCIBusId(char* name, int size, int device) {
    if (size < 13) return last = cudaErrorInvalidValue;
    memcpy(name, "0000:00:00.0", 13);
    name[6] = (char)('0' + device);
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, enum cudaDeviceAttr which, int device) {
    if (device < 0 || device >= null_count) return last = cudaErrorInvalidDevice;
    switch (which) {
        case cudaDevAttrComputeCapabilityMajor: *value = null_major; break;
        case cudaDevAttrComputeCapabilityMinor: *value = null_minor; break;
        case cudaDevAttrMultiProcessorCount: *value = 108; break;
        case cudaDevAttrMaxThreadsPerBlock: *value = 1024; break;
        case cudaDevAttrMaxThreadsPerMultiProcessor: *value = 2048; break;
        case cudaDevAttrWarpSize: *value = 32; break;
        case cudaDevAttrMaxSharedMemoryPerBlock: *value = 49152; break;
        case cudaDevAttrMaxRegistersPerBlock: *value = 65536; break;
        case cudaDevAttrMaxGridDimX: *value = 2147483647; break;
        case cudaDevAttrMaxGridDimY:
        case cudaDevAttrMaxGridDimZ: *value = 65535; break;
        default: *value = 1;
    }
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp* properties, int device) {
    if (device < 0 || device >= null_count) return last = cudaErrorInvalidDevice;
    memset(properties, 0, sizeof *properties);
    strcpy(properties->name, "null driver, no GPU");
    properties->major = null_major, properties->minor = null_minor;
    properties->totalGlobalMem = TOTAL;
    properties->multiProcessorCount = 108;
    properties->warpSize = 32;
    properties->maxThreadsPerBlock = 1024;
    properties->sharedMemPerBlock = 49152;
    return cudaSuccess;
}

// Streams, events and graphs.

static void* create(void) { return (void*)(created += 16); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) { return *stream = (cudaStream_t)((size_t)create() + (flags & 1)), cudaSuccess; }
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, 0); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority) { return (void)priority, cudaStreamCreateWithFlags(stream, flags); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return (void)stream, cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t stream) {
    CALL(CHECK, stream, 0);
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    CALL(WAIT, stream, 0);
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize(void) {
    CALL(WAIT, NULL, 0);
    return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
    (void)event, (void)flags;
    CALL(EVENT, stream, 0);
    return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) { return (void)flags, *event = create(), cudaSuccess; }
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) { return (void)event, cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    (void)event;
    CALL(EVENT, stream, 0);
    return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) { return (void)event, cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    (void)event;
    CALL(WAIT, NULL, 0);
    return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
    (void)start, (void)end;
    return *milliseconds = 0, cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) { return (void)mode, last = (cudaError_t)null_capture(stream, 1); }
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
    *graph = create();
    return last = (cudaError_t)null_capture(stream, 0);
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus* status) {
    return *status = null_is_capturing(stream) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone, cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* graph, cudaGraph_t of, unsigned long long flags) { return (void)of, (void)flags, *graph = create(), cudaSuccess; }
cudaError_t cudaGraphUpload(cudaGraphExec_t graph, cudaStream_t stream) { return (void)graph, (void)stream, cudaSuccess; }
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
    (void)graph;
    CALL(CAPTURE, stream, 0);
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return (void)graph, cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) { return (void)graph, cudaSuccess; }

cudaError_t cudaGetLastError(void) {
    const cudaError_t error = last;
    return last = cudaSuccess, error;
}
cudaError_t cudaPeekAtLastError(void) { return last; }
static const char* name_of(int error) {
    switch (error) {
        case 1: return "invalid argument";
        case 2: return "out of memory";
        case 101: return "invalid device ordinal";
        case 400: return "invalid resource handle";
        case 701: return "too many resources requested for launch";
        case 900: return "operation not permitted when stream is capturing";
        case 901: return "operation failed due to a previous error during capture";
        case 906: return "operation would make the legacy stream depend on a capturing blocking stream";
        default: return "an error of the null driver";
    }
}
const char* cudaGetErrorName(cudaError_t error) { return (void)error, "cudaError"; }
const char* cudaGetErrorString(cudaError_t error) { return name_of(error); }

// Kernels of CuPy's own libraries, CUB and Thrust, which hold them compiled.

static cudaError_t launched(const char* function, const void* stream) {
    const int error = null_tell(LIBRARY, function, stream, 0);
    return error ? last = (cudaError_t)error : cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** parameters, size_t shared, cudaStream_t stream) {
    (void)function, (void)grid, (void)block, (void)parameters, (void)shared;
    return launched(__func__, stream);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* how, const void* function, void** parameters) {
    (void)function, (void)parameters;
    return launched(__func__, how->stream);
}
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes* attributes, const void* function) {
    (void)function;
    memset(attributes, 0, sizeof *attributes);
    attributes->maxThreadsPerBlock = 1024;
    attributes->numRegs = 32;
    attributes->ptxVersion = attributes->binaryVersion = null_major * 10 + null_minor;
    return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function, int threads, size_t shared, unsigned int flags) {
    (void)function, (void)threads, (void)shared, (void)flags;
    return *blocks = 8, cudaSuccess;
}

// The driver: modules that NVRTC has compiled, and their kernels.

CUresult cuGetErrorName(CUresult error, const char** name) { return (void)error, *name = "CUDA_ERROR", CUDA_SUCCESS; }
CUresult cuGetErrorString(CUresult error, const char** text) { return *text = name_of((int)error), CUDA_SUCCESS; }
CUresult cuCtxGetCurrent(CUcontext* context) { return *context = (CUcontext)(size_t)(1 + current), CUDA_SUCCESS; }
CUresult cuCtxGetDevice(CUdevice* device) { return *device = current, CUDA_SUCCESS; }
CUresult cuCtxSetCurrent(CUcontext context) { return current = (int)(size_t)context - 1, CUDA_SUCCESS; }
CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) { return (void)stream, cuCtxGetCurrent(context); }
CUresult cuModuleLoadData(CUmodule* module, const void* image) {
    *module = (CUmodule)null_module(image);
    return *module ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}
CUresult cuModuleUnload(CUmodule module) { return (void)module, CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
    *function = (CUfunction)null_function(module, name);
    return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
CUresult cuModuleGetGlobal_v2(CUdeviceptr* at, size_t* size, CUmodule module, const char* name) {
    (void)at, (void)size, (void)module, (void)name;
    return CUDA_ERROR_NOT_FOUND;
}
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute which, CUfunction function) {
    (void)function;
    *value = which == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : which == CU_FUNC_ATTRIBUTE_NUM_REGS ? 32 : 0;
    return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute which, int value) { return (void)function, (void)which, (void)value, CUDA_SUCCESS; }
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int threads, size_t shared) {
    (void)function, (void)threads, (void)shared;
    return *blocks = 8, CUDA_SUCCESS;
}
CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction function, CUoccupancyB2DSize shared_of, size_t shared, int limit) {
    (void)function, (void)shared_of, (void)shared, (void)limit;
    return *grid = 216, *block = 256, CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
                        unsigned int bz, unsigned int shared, CUstream stream, void** parameters, void** extra) {
    const unsigned int sizes[7] = {gx, gy, gz, bx, by, bz, shared};
    if (extra) return CUDA_ERROR_NOT_SUPPORTED;
    return (CUresult)null_launch(function, sizes, stream, parameters);
}
CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* number, CUgraph* graph,
                                   const CUgraphNode** nodes, size_t* count) {
    static _Thread_local CUgraphNode last_node;
    last_node = (CUgraphNode)null_work();
    *status = null_is_capturing(stream) ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    *number = 1, *graph = NULL, *nodes = &last_node, *count = 1;
    return CUDA_SUCCESS;
}
