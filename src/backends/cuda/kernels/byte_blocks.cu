// A picture of any strides as bytes with channels last, BLOCK x BLOCK pixels as the channels of one: channel
// (row * BLOCK + column) * C + c, padded to CH (a multiple of 16), with the padding that a convolution wants around it.
// ELEMENT: float, which is quantised, or u8. What lies outside of the picture is the zero point.
struct Params {
  const ELEMENT* x;
  u8* y;
  i64 xs[4];  // strides: image, row, pixel, channel
  int in_h, in_w, out_h, out_w, pad_top, pad_left, count, zero;
  float scale, inverse;
};

__device__ __forceinline__ u32 byte_of(u8 x, const Params&) { return x; }
// Multiplying by the inverse is exact enough but near halves, which are divided.
__device__ __forceinline__ u32 byte_of(float x, const Params& p) {
  const float t = x * p.inverse, r = __fadd_rn(fmaxf(t, -1000.f), 12582912.f);
  int q = __float_as_int(r) - 0x4b400000 + p.zero;
  if (!(fabsf(t - (r - 12582912.f)) <= 0.4999f))
    q = x != x ? p.zero : __float2int_rn(fminf(fmaxf(__fdiv_rn(x, p.scale), -1e6f), 1e6f)) + p.zero;
  return min(max(q, 0), 255);
}

extern "C" __global__ void __launch_bounds__(256) byte_blocks(const __grid_constant__ Params p) {
  wait_for_previous();
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= p.count) return;
  const int w = i % p.out_w - p.pad_left, row = i / p.out_w, h = row % p.out_h - p.pad_top, n = row / p.out_h;
#pragma unroll
  for (int chunk = 0; chunk < CH / 16; ++chunk) {
    u32 packed[4] = {};
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      const int channel = chunk * 16 + k, c = channel % C, place = channel / C;
      if (place >= BLOCK * BLOCK) continue;
      const int y = h * BLOCK + place / BLOCK, x = w * BLOCK + place % BLOCK;
      u32 byte = p.zero;
      if ((u32)y < (u32)p.in_h && (u32)x < (u32)p.in_w)
        byte = byte_of(p.x[n * p.xs[0] + y * p.xs[1] + x * p.xs[2] + c * p.xs[3]], p);
      packed[k / 4] |= byte << (8 * (k % 4));
    }
    *(uint4*)(p.y + (i64)i * CH + chunk * 16) = make_uint4(packed[0], packed[1], packed[2], packed[3]);
  }
}
