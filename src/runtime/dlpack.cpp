#include <tenon/dlpack.h>

namespace tenon {
namespace {

constexpr int32_t cuda_device = 2, cuda_managed = 13;
constexpr uint8_t signed_code = 0, unsigned_code = 1, float_code = 2, brain_code = 4, bool_code = 6;

std::string text_of(const int64_t* sizes, int32_t rank) {
  std::string text = "[";
  for (int32_t axis = 0; axis < rank; ++axis) text += (axis ? "," : "") + std::to_string(sizes[axis]);
  return text + "]";
}

bool is_dense(const DlpackView& tensor) {
  if (!tensor.strides) return true;
  int64_t stride = 1;
  for (int32_t axis = tensor.rank; axis-- > 0;) {
    if (tensor.sizes[axis] != 1 && tensor.strides[axis] != stride) return false;
    stride *= tensor.sizes[axis];
  }
  return true;
}

bool has_sizes(const DlpackView& tensor, const std::vector<int64_t>& wanted) {
  if (static_cast<size_t>(tensor.rank) != wanted.size()) return false;
  for (size_t axis = 0; axis < wanted.size(); ++axis)
    if (wanted[axis] >= 0 && wanted[axis] != tensor.sizes[axis]) return false;
  return true;
}

}  // namespace

std::optional<DlpackType> dlpack_type(DType type) {
  switch (type) {
    case DType::f64: return DlpackType{float_code, 64};
    case DType::f32: return DlpackType{float_code, 32};
    case DType::f16: return DlpackType{float_code, 16};
    case DType::bf16: return DlpackType{brain_code, 16};
    case DType::i64: return DlpackType{signed_code, 64};
    case DType::i32: return DlpackType{signed_code, 32};
    case DType::i16: return DlpackType{signed_code, 16};
    case DType::i8: return DlpackType{signed_code, 8};
    case DType::u64: return DlpackType{unsigned_code, 64};
    case DType::u32: return DlpackType{unsigned_code, 32};
    case DType::u16: return DlpackType{unsigned_code, 16};
    case DType::u8: return DlpackType{unsigned_code, 8};
    case DType::boolean: return DlpackType{bool_code, 8};
    default: return std::nullopt;
  }
}

uint64_t device_address(const DlpackView& tensor, const TensorInfo& info) {
  const auto refuse = [&](const std::string& why, const char* hint) {
    throw Error(Code::usage, "the tensor cannot stand for \"" + info.name + "\"", {.why = why, .hint = hint});
  };
  if (tensor.device_type != cuda_device && tensor.device_type != cuda_managed)
    refuse("it is not on a CUDA device", "copy it there, or call run()");
  const auto type = dlpack_type(info.dtype);
  if (!type || type->code != tensor.code || type->bits != tensor.bits || tensor.lanes != 1)
    refuse("its elements are no " + std::string(name(info.dtype)), "convert it");
  if (!has_sizes(tensor, info.shape))
    refuse("its sizes are " + text_of(tensor.sizes, tensor.rank) + ", not " +
               text_of(info.shape.data(), static_cast<int32_t>(info.shape.size())),
           "reshape it, or make a session for its sizes");
  if (!is_dense(tensor)) refuse("it is not dense", "make it contiguous");
  return reinterpret_cast<uint64_t>(tensor.data) + tensor.byte_offset;
}

}  // namespace tenon
