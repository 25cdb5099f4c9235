// A picture of any strides as bytes with channels last, BLOCK x BLOCK pixels as the channels of one: channel
// (row * BLOCK + column) * C + c, padded to CH (a multiple of 16). ELEMENT: float, which is quantised, or u8. What lies
// outside of the picture is the zero point.
struct Params {
  const ELEMENT* x;
  u8* y;
  i64 xs[4];  // strides: image, row, pixel, channel
  int in_h, in_w, out_h, out_w, count, zero;
  float scale;
};

__device__ __forceinline__ u32 byte_of(u8 x, const Params&) { return x; }
__device__ __forceinline__ u32 byte_of(float x, const Params& p) {
  const int q = __float2int_rn(fminf(fmaxf(__fdiv_rn(x, p.scale), -1e6f), 1e6f)) + p.zero;
  return x != x ? p.zero : min(max(q, 0), 255);
}

extern "C" __global__ void __launch_bounds__(256) byte_blocks(const __grid_constant__ Params p) {
  wait_for_previous();
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= p.count) return;
  const int w = i % p.out_w, row = i / p.out_w, h = row % p.out_h, n = row / p.out_h;
#pragma unroll
  for (int chunk = 0; chunk < CH / 16; ++chunk) {
    u32 packed[4] = {};
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      const int channel = chunk * 16 + k, c = channel % C, place = channel / C;
      if (place >= BLOCK * BLOCK) continue;
      const int y = h * BLOCK + place / BLOCK, x = w * BLOCK + place % BLOCK;
      u32 byte = p.zero;
      if (y < p.in_h && x < p.in_w) byte = byte_of(p.x[n * p.xs[0] + y * p.xs[1] + x * p.xs[2] + c * p.xs[3]], p);
      packed[k / 4] |= byte << (8 * (k % 4));
    }
    *(uint4*)(p.y + (i64)i * CH + chunk * 16) = make_uint4(packed[0], packed[1], packed[2], packed[3]);
  }
}
