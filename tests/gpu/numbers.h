// Numbers in memory, of the types that NVIDIA's libraries know; the fakes that include this name the types.
static double load(const char* at, int type, int64_t k, int tf32) {
    if (type == R_64F) return ((const double*)at)[k];
    if (type == R_16F) return (double)((const _Float16*)at)[k];
    uint32_t bits = type == R_32F ? ((const uint32_t*)at)[k] : (uint32_t)((const uint16_t*)at)[k] << 16;
    if (tf32 && (bits & 0x7F800000) != 0x7F800000) bits = (bits + 0x1000) & ~0x1FFFu; // ten bits of the mantissa
    float x;
    memcpy(&x, &bits, 4);
    return x;
}
static void store(char* at, int type, int64_t k, double x) {
    const float single = (float)x;
    if (type == R_64F) ((double*)at)[k] = x;
    else if (type == R_32F) ((float*)at)[k] = single;
    else if (type == R_16F) ((_Float16*)at)[k] = (_Float16)single;
    else {
        uint32_t bits;
        memcpy(&bits, &single, 4);
        bits = single != single ? (bits & 0x80000000u) | 0x7FC00000u : bits + 0x7FFF + (bits >> 16 & 1);
        ((uint16_t*)at)[k] = (uint16_t)(bits >> 16);
    }
}
