// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cuda/vendor/blas.h"
#include "backends/cuda/convolution/convolution.h"

#include <tenon/error.h>

namespace tenon::cuda::conv_blas {
namespace {

using namespace blas_constants;

constexpr int most_choices = 3;
constexpr size_t most_workspace = size_t{32} << 20;

bool has(const Problem& problem, size_t at) { return at < problem.inputs.size() && problem.inputs[at]; }

/// What the library's epilogue does for an activation; 0 where it has none for it.
int epilogue_of(const Problem& problem, DType type) {
  switch (conv_epilogue(problem).activation) {
    case expr::Id::Identity: return epilogue_none;
    // In f32 its form makes 0 of what is no number.
    case expr::Id::Relu: return is_16_bit(type) ? epilogue_relu : 0;
    case expr::Id::GeluTanh: return epilogue_gelu;
    // Its form by tanh lies within what 16 bits round.
    case expr::Id::Gelu: return is_16_bit(type) ? epilogue_gelu : 0;
    default: return 0;
  }
}

bool is_matrix(const ConvShape& s, const int64_t (&strides)[4]) { return strides[3] == 1 && is_pitched(s, strides); }

Reason refuses(const Problem& problem, const Properties&) {
  if (!problem.vendor) return Reason::vendors;
  ConvShape s{};
  if (const Reason reason = conv_shape(problem, s)) return reason;
  if (s.kernel_h * s.kernel_w != 1 || s.stride_h != 1 || s.stride_w != 1 || s.pad_top || s.pad_left || s.groups != 1 ||
      s.in_h != s.out_h || s.in_w != s.out_w)
    return Reason::pointwise;
  if (s.x_type != s.y_type) return {Reason::element_type, "the result", "the input's type"};
  if (!is_matrix(s, s.x) || !is_matrix(s, s.y)) return {Reason::gaps, "pixels"};
  if (conv_epilogue(problem).residual == ops::Residual::after) return Reason::residual;
  if (has(problem, 3) && !is_matrix(s, s.residual)) return {Reason::gaps, "pixels"};
  if (!problem.inputs[0].aligned || !problem.outputs[0].aligned || (has(problem, 3) && !problem.inputs[3].aligned))
    return {Reason::unaligned, "operand"};
  const int64_t chunk = 16 / static_cast<int64_t>(size_of(s.x_type));
  if (s.in_c % chunk || s.out_c % chunk || s.x[2] % chunk || s.y[2] % chunk || s.residual[2] % chunk)
    return {Reason::not_multiple, "rows", "16 bytes"};
  if (!epilogue_of(problem, s.y_type)) return {Reason::activation, "one that the vendor's library has"};
  // Last, as the library is large.
  return blas().why.empty() ? Reason() : Reason(Reason::library, "cuBLASLt");
}

std::vector<Tactic> tactics(const Problem&, const Properties&) {
  std::vector<Tactic> list;
  for (int at = 0; at < most_choices; ++at) list.push_back({"cublas " + std::to_string(at + 1), {}, {at}});
  return list;
}

/// Descriptors of a product and its matrices, by columns: the result's columns are pixels.
struct Described {
  BlasProduct product = nullptr;
  BlasMatrix weights = nullptr, pixels = nullptr, other = nullptr, result = nullptr;
  ~Described() {
    for (BlasMatrix matrix : {weights, pixels, other, result})
      if (matrix) blas().MatrixLayoutDestroy(matrix);
    if (product) blas().MatmulDescDestroy(product);
  }
};

class BlasStep : public Step {
 public:
  BlasStep(const Problem& problem, Device& device, const Tactic& tactic)
      : handle_(blas_handle(device.properties().index)), residual_(has(problem, 3)) {
    ConvShape s{};
    conv_shape(problem, s);
    const int type = s.x_type == DType::f16 ? f16 : s.x_type == DType::bf16 ? bf16 : f32;
    const bool bias = has(problem, 2);
    pack(problem, s, bias);
    const Blas& b = blas();
    check_blas(b.MatmulDescCreate(&described_.product, problem.tf32 ? compute_tf32 : compute_f32, f32),
               "cublasLtMatmulDescCreate");
    const auto set = [&](int attribute, const auto& value) {
      check_blas(b.MatmulDescSetAttribute(described_.product, attribute, &value, sizeof value),
                 "cublasLtMatmulDescSetAttribute");
    };
    const int activation = epilogue_of(problem, s.y_type);
    set(trans_a, transposed);
    set(epilogue, bias ? (activation & ~epilogue_none) | epilogue_bias : activation);
    if (bias) set(bias_pointer, bias_);
    const auto matrix = [&](BlasMatrix& to, int64_t rows, int64_t columns, int64_t pitch) {
      check_blas(b.MatrixLayoutCreate(&to, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), pitch),
                 "cublasLtMatrixLayoutCreate");
    };
    matrix(described_.weights, s.in_c, s.out_c, s.in_c);
    matrix(described_.pixels, s.in_c, s.pixels(), s.x[2]);
    matrix(described_.other, s.out_c, s.pixels(), residual_ ? s.residual[2] : s.y[2]);
    matrix(described_.result, s.out_c, s.pixels(), s.y[2]);
    choose(tactic.numbers[0]);
  }
  size_t workspace_bytes() const override { return choice_.workspace_bytes; }
  bool reads(size_t input) const override { return input == 0 || input == 3; }
  bool leaves_breadcrumbs() const override { return false; }
  void enqueue(const Launch& at) const override {
    const float one = 1, beta = residual_ ? 1 : 0;
    check_blas(blas().Matmul(handle_, described_.product, &one, packed_.address(), described_.weights, at.inputs[0],
                             described_.pixels, &beta, residual_ ? at.inputs[3] : at.outputs[0], described_.other,
                             at.outputs[0], described_.result, choice_.algorithm, at.workspace, choice_.workspace_bytes,
                             at.stream),
               "cublasLtMatmul");
  }

 private:
  /// Weights by channel of the result, and behind them the bias.
  void pack(const Problem& problem, const ConvShape& s, bool bias) {
    std::vector<float> weights = conv_weights(problem, s);
    const std::vector<float> list = conv_bias(problem, s);
    const size_t element = size_of(s.x_type), begin = (weights.size() * element + 255) / 256 * 256;
    std::vector<std::byte> bytes(begin + (bias ? list.size() * element : 0));
    const auto store = [&](const std::vector<float>& from, size_t to) {
      for (size_t at = 0; at < from.size(); ++at) {
        const uint16_t narrow = bits16_of(from[at], s.x_type);
        const void* number = element == 2 ? static_cast<const void*>(&narrow) : &from[at];
        std::copy_n(static_cast<const std::byte*>(number), element,
                    bytes.begin() + static_cast<int64_t>(to + at * element));
      }
    };
    store(weights, 0);
    if (bias) store(list, begin);
    packed_ = Buffer::kept(bytes.size());
    packed_.upload(bytes.data(), bytes.size());
    bias_ = packed_.address() + begin;
  }
  /// The library's guess of this place, or its last; Error(unsupported) where it has none.
  void choose(int place) {
    const Blas& b = blas();
    BlasWish wish = nullptr;
    check_blas(b.MatmulPreferenceCreate(&wish), "cublasLtMatmulPreferenceCreate");
    const uint32_t alignment = 16;
    b.MatmulPreferenceSetAttribute(wish, wish_workspace, &most_workspace, sizeof most_workspace);
    for (int operand = 1; operand < 4; ++operand)
      b.MatmulPreferenceSetAttribute(wish, wish_alignment_a + operand, &alignment, sizeof alignment);
    BlasChoice choices[most_choices] = {};
    int count = 0;
    const int result =
        b.MatmulAlgoGetHeuristic(handle_, described_.product, described_.weights, described_.pixels, described_.other,
                                 described_.result, wish, most_choices, choices, &count);
    b.MatmulPreferenceDestroy(wish);
    if (result != 0 || count == 0 || choices[0].state != 0)
      throw Error(Code::unsupported, "cuBLASLt has no algorithm for a product");
    choice_ = choices[std::min(place, count - 1)];
    if (choice_.state != 0) choice_ = choices[0];
  }

  BlasHandle handle_;
  bool residual_;
  Described described_;
  Buffer packed_;
  Address bias_ = 0;
  BlasChoice choice_{};
};

const KernelRegistrar registered({"Conv", "Gemm", "MatMul"}, {"", "cublas", -1, refuses, tactics, make_step<BlasStep>});

}  // namespace
}  // namespace tenon::cuda::conv_blas
