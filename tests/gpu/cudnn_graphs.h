// Graphs of elementwise operations, products of matrices and reductions of rows, as cudnn_graph.h documents them: each operation
// computes a tensor of four dimensions from others, in double precision, rounded to its type. Virtual ones are never in memory.
enum { OF_POINTWISE = 13, MATMUL = 18, OF_MATMUL, REDUCTION = 21, OF_REDUCTION, OF_RESHAPE = 31 };
enum { T_BOOLEAN = 2, T_POINTWISE_MODE = 14, T_REDUCTION = 18, IS_VIRTUAL = 907, IS_BY_VALUE };
enum { POINTWISE_MODE = 0, POINTWISE_TYPE, POINTWISE_AXIS = 9, POINTWISE_HOW = 750, POINTWISE_X, POINTWISE_B, POINTWISE_Y, POINTWISE_T = 758 };
enum { MATMUL_TYPE = 1500, MATMUL_A = 1520, MATMUL_B, MATMUL_C, MATMUL_HOW, REDUCTION_OPERATOR = 1600, REDUCTION_TYPE };
enum { REDUCTION_X = 1610, REDUCTION_Y, REDUCTION_HOW, RESHAPE_X = 2200, RESHAPE_Y };
enum { ADD = 0, MUL = 1, DIV = 6, SUB = 9, EXP = 13, LOG = 15, NOT_LESS = 303, INDEX = 501, SELECT = 601, SUM = 0, MAX = 3, R_32I = 4, R_BOOLEAN = 11 };

#ifdef NVIDIA_HEADER
SAME(POINTWISE, CUDNN_BACKEND_POINTWISE_DESCRIPTOR); SAME(OF_POINTWISE, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR); SAME(MATMUL, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
SAME(OF_MATMUL, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR); SAME(REDUCTION, CUDNN_BACKEND_REDUCTION_DESCRIPTOR); SAME(OF_REDUCTION, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
SAME(OF_RESHAPE, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR); SAME(T_BOOLEAN, CUDNN_TYPE_BOOLEAN); SAME(T_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE); SAME(T_REDUCTION, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE);
SAME(IS_VIRTUAL, CUDNN_ATTR_TENSOR_IS_VIRTUAL); SAME(IS_BY_VALUE, CUDNN_ATTR_TENSOR_IS_BY_VALUE); SAME(POINTWISE_MODE, CUDNN_ATTR_POINTWISE_MODE); SAME(POINTWISE_TYPE, CUDNN_ATTR_POINTWISE_MATH_PREC);
SAME(POINTWISE_AXIS, CUDNN_ATTR_POINTWISE_AXIS); SAME(POINTWISE_HOW, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR); SAME(POINTWISE_X, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
SAME(POINTWISE_B, CUDNN_ATTR_OPERATION_POINTWISE_BDESC); SAME(POINTWISE_Y, CUDNN_ATTR_OPERATION_POINTWISE_YDESC); SAME(POINTWISE_T, CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
SAME(MATMUL_TYPE, CUDNN_ATTR_MATMUL_COMP_TYPE); SAME(MATMUL_A, CUDNN_ATTR_OPERATION_MATMUL_ADESC); SAME(MATMUL_B, CUDNN_ATTR_OPERATION_MATMUL_BDESC); SAME(MATMUL_C, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
SAME(MATMUL_HOW, CUDNN_ATTR_OPERATION_MATMUL_DESC); SAME(REDUCTION_OPERATOR, CUDNN_ATTR_REDUCTION_OPERATOR); SAME(REDUCTION_TYPE, CUDNN_ATTR_REDUCTION_COMP_TYPE);
SAME(REDUCTION_X, CUDNN_ATTR_OPERATION_REDUCTION_XDESC); SAME(REDUCTION_Y, CUDNN_ATTR_OPERATION_REDUCTION_YDESC); SAME(REDUCTION_HOW, CUDNN_ATTR_OPERATION_REDUCTION_DESC);
SAME(RESHAPE_X, CUDNN_ATTR_OPERATION_RESHAPE_XDESC); SAME(RESHAPE_Y, CUDNN_ATTR_OPERATION_RESHAPE_YDESC); SAME(ADD, CUDNN_POINTWISE_ADD); SAME(MUL, CUDNN_POINTWISE_MUL); SAME(DIV, CUDNN_POINTWISE_DIV);
SAME(SUB, CUDNN_POINTWISE_SUB); SAME(EXP, CUDNN_POINTWISE_EXP); SAME(LOG, CUDNN_POINTWISE_LOG); SAME(NOT_LESS, CUDNN_POINTWISE_CMP_GE); SAME(INDEX, CUDNN_POINTWISE_GEN_INDEX); SAME(SELECT, CUDNN_POINTWISE_BINARY_SELECT);
SAME(SUM, CUDNN_REDUCE_TENSOR_ADD); SAME(MAX, CUDNN_REDUCE_TENSOR_MAX); SAME(R_32I, CUDNN_DATA_INT32); SAME(R_BOOLEAN, CUDNN_DATA_BOOLEAN);
#else

static int is_node(int kind) { return kind == OF_POINTWISE || kind == OF_MATMUL || kind == OF_REDUCTION || kind == OF_RESHAPE; }

// Where an operation takes the tensor of an attribute, or null. A product's are x and b, and its result y.
static tensor* place_in(node* of, int attribute) {
    switch (attribute) {
        case POINTWISE_X: case MATMUL_A: case REDUCTION_X: case RESHAPE_X: return &of->x;
        case POINTWISE_B: case MATMUL_B: return &of->b;
        case POINTWISE_T: return &of->t;
        case POINTWISE_Y: case MATMUL_C: case REDUCTION_Y: case RESHAPE_Y: return &of->y;
        default: return NULL;
    }
}

static int fits_into(const tensor* part, const tensor* whole) {
    for (int d = 0; d < 4; d++)
        if (part->size[d] != 1 && part->size[d] != whole->size[d]) return 0;
    return 1;
}

static const char* wrong_node(const node* of) {
    const tensor *x = &of->x, *b = &of->b, *t = &of->t, *y = &of->y;
    if (x->dims != 4 || y->dims != 4) return "four dimensions";
    if (of->kind == OF_MATMUL) {
        if (x->size[0] != y->size[0] || b->size[0] != y->size[0] || x->size[1] != y->size[1] || b->size[1] != y->size[1]) return "stacks of matrices";
        if (x->size[3] != b->size[2] || x->size[2] != y->size[2] || b->size[3] != y->size[3]) return "matrices that do not fit";
    } else if (of->kind == OF_REDUCTION) {
        if ((of->mode != SUM && of->mode != MAX) || y->size[3] != 1 || y->size[2] != x->size[2]) return "a reduction of rows";
    } else if (of->kind == OF_RESHAPE) {
        if (x->size[2] != y->size[3] || x->size[3] != y->size[2] || x->step[2] != y->step[3] || x->step[3] != y->step[2]) return "a view";
    } else {
        const int two = of->mode != EXP && of->mode != LOG && of->mode != INDEX;
        if ((b->id != 0) != two || (t->id != 0) != (of->mode == SELECT)) return "operands";
        if (!fits_into(x, y) || (two && !fits_into(b, y)) || (t->id && !fits_into(t, y))) return "sizes";
        if ((y->type == R_BOOLEAN) != (of->mode == NOT_LESS) || (y->type == R_32I) != (of->mode == INDEX)) return "a type";
    }
    return NULL;
}

// Memory of a graph's tensors, whose rows engines read 16 bytes at a time; each virtual tensor is computed before it is used.
static const char* wrong_graph(const node* nodes, int count) {
    for (int k = 0; k < count; k++) {
        const tensor* parts[] = {&nodes[k].x, &nodes[k].b, &nodes[k].t, &nodes[k].y};
        for (int p = 0; p < 4; p++) {
            const tensor* t = parts[p];
            int made = p == 3 || !t->id || !t->is_virtual;
            for (int before = 0; before < k; before++) made |= nodes[before].y.id == t->id;
            if (!made) return "a virtual tensor that no operation before computes";
            if (!t->id || t->is_virtual || t->by_value || t->type == R_32F) continue;
            if (t->step[3] != 1 && t->step[2] != 1) return "rows with gaps";
            for (int d = 0; d < 4; d++)
                if (t->size[d] > 1 && t->step[d] != 1 && t->step[d] % 8) return "rows that begin between 16 bytes";
        }
    }
    return NULL;
}

typedef struct { int64_t id; double* at; } value;
static int64_t count_of(const tensor* t) { return t->size[0] * t->size[1] * t->size[2] * t->size[3]; }
static int64_t offset_of(const tensor* t, int64_t k) {
    const int64_t i3 = k % t->size[3], i2 = k / t->size[3] % t->size[2], i1 = k / (t->size[3] * t->size[2]) % t->size[1];
    return i3 * t->step[3] + i2 * t->step[2] + i1 * t->step[1] + k / (t->size[3] * t->size[2] * t->size[1]) * t->step[0];
}
// The place of an element of `whole` in `part`, whose sizes of 1 are repeated.
static int64_t repeated(const tensor* part, const tensor* whole, int64_t k) {
    int64_t place = 0, stride = 1;
    for (int d = 3; d >= 0; d--) {
        if (part->size[d] > 1) place += k % whole->size[d] * stride;
        stride *= part->size[d], k /= whole->size[d];
    }
    return place;
}
static double rounded(double x, int type) {
    if (type == R_32I || type == R_BOOLEAN) return x;
    char bytes[8];
    store(bytes, type, 0, x);
    return load(bytes, type, 0, 0);
}

static double* value_of(const job* of, value* values, const tensor* t) {
    int k = 0;
    for (; values[k].at; k++)
        if (values[k].id == t->id) return values[k].at;
    values[k] = (value){t->id, malloc((size_t)count_of(t) * sizeof(double))};
    for (int c = 0; t->by_value && c < MOST_CONSTANTS; c++)
        if (of->constants[c].id == t->id) values[k].at[0] = of->constants[c].value;
    for (int n = 0; !t->is_virtual && !t->by_value && n < PLACES; n++)
        for (int64_t i = 0; of->ids[n] == t->id && i < count_of(t); i++) values[k].at[i] = load(of->memory[n].at, t->type, offset_of(t, i), 0);
    return values[k].at;
}

static double pointwise(const node* of, int64_t k, double x, double b, double t) {
    switch (of->mode) {
        case ADD: return x + b;
        case MUL: return x * b;
        case DIV: return x / b;
        case SUB: return x - b;
        case EXP: return exp(x);
        case LOG: return log(x);
        case NOT_LESS: return x >= b;
        case INDEX: return (double)(of->axis == 3 ? k % of->y.size[3] : k / of->y.size[3] % of->y.size[2]);
        default: return t != 0 ? x : b;
    }
}

static void compute(const node* of, double* y, const double* x, const double* b, const double* t) {
    const int64_t rows = of->y.size[2], columns = of->y.size[3], length = of->x.size[3];
    for (int64_t k = 0; k < count_of(&of->y); k++) {
        const int64_t matrix = k / (rows * columns), row = k / columns % rows, column = k % columns;
        double sum = of->kind == OF_REDUCTION && of->mode == MAX ? -INFINITY : 0;
        if (of->kind == OF_RESHAPE) sum = x[(matrix * columns + column) * rows + row];
        else if (of->kind == OF_POINTWISE)
            sum = pointwise(of, k, x[repeated(&of->x, &of->y, k)], b ? b[repeated(&of->b, &of->y, k)] : 0, t ? t[repeated(&of->t, &of->y, k)] : 0);
        else for (int64_t c = 0; c < length; c++) {
            const double left = x[(matrix * rows + row) * length + c];
            if (of->kind == OF_MATMUL) sum += left * b[(matrix * length + c) * columns + column];
            else sum = of->mode == MAX ? fmax(sum, left) : sum + left;
        }
        y[k] = rounded(sum, of->y.type);
    }
}

static void run_graph(const job* of, int forbidden) {
    value values[4 * MOST_NODES + 1] = {{0}};
    for (int k = 0; k < of->count; k++) {
        const node* each = &of->nodes[k];
        const double *x = value_of(of, values, &each->x), *b = each->b.id ? value_of(of, values, &each->b) : NULL, *t = each->t.id ? value_of(of, values, &each->t) : NULL;
        double* y = value_of(of, values, &each->y);
        compute(each, y, x, b, t);
        for (int n = 0; !each->y.is_virtual && n < PLACES; n++)
            for (int64_t i = 0; of->ids[n] == each->y.id && i < count_of(&each->y); i++)
                store((char*)of->memory[n].at, each->y.type, offset_of(&each->y, i), forbidden ? NAN : y[i]);
    }
    for (int k = 0; values[k].at; k++) free(values[k].at);
}
#endif
