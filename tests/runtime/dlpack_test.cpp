// Tensors in the form of DLPack as operands of a run on a GPU: what is taken, and why the others are not.
#include <gtest/gtest.h>
#include <tenon/dlpack.h>

#include "support/net.h"

namespace tenon {
namespace {

using test::error_of;

/// The members of DLTensor, as DLPack's header has them.
struct DlTensor {
  void* data;
  struct {
    int32_t device_type, device_id;
  } device;
  int32_t ndim;
  struct {
    uint8_t code, bits;
    uint16_t lanes;
  } dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};

struct Dlpack : ::testing::Test {
  int64_t sizes[3] = {2, 3, 5}, strides[3] = {15, 5, 1};
  TensorInfo info{"x", DType::f32, {-1, 3, 5}};
  DlTensor tensor{reinterpret_cast<void*>(uintptr_t{4096}), {2, 0}, 3, {2, 32, 1}, sizes, strides, 64};

  std::string refusal() const {
    return error_of([&] { device_address(tensor, info); });
  }
};

TEST_F(Dlpack, DenseTensorsOfTheRightTypeAndSizesAreTaken) {
  EXPECT_EQ(device_address(tensor, info), 4160u);
  tensor.strides = nullptr;
  tensor.device.device_type = 13;
  EXPECT_EQ(device_address(tensor, info), 4160u);
  // Strides along axes of one element say nothing.
  sizes[0] = 1, strides[0] = 7, tensor.strides = strides;
  EXPECT_EQ(device_address(tensor, info), 4160u);
}

TEST_F(Dlpack, OthersAreRefusedByWhatIsWrong) {
  tensor.device.device_type = 1;
  EXPECT_NE(refusal().find("not on a CUDA device"), std::string::npos);
  tensor.device.device_type = 2, tensor.dtype.bits = 16;
  EXPECT_NE(refusal().find("no f32"), std::string::npos);
  tensor.dtype = {0, 32, 1};
  EXPECT_NE(refusal().find("no f32"), std::string::npos);
  tensor.dtype = {2, 32, 4};
  EXPECT_NE(refusal().find("no f32"), std::string::npos);
  tensor.dtype = {2, 32, 1}, sizes[1] = 4;
  EXPECT_NE(refusal().find("[2,4,5], not [-1,3,5]"), std::string::npos) << refusal();
  sizes[1] = 3, tensor.ndim = 2;
  EXPECT_NE(refusal().find("[2,3], not"), std::string::npos);
  tensor.ndim = 3, strides[1] = 6;
  EXPECT_NE(refusal().find("not dense"), std::string::npos);
}

TEST(DlpackTypes, EveryOneOfTheirsIsKnown) {
  EXPECT_EQ(dlpack_type(DType::bf16)->code, 4);
  EXPECT_EQ(dlpack_type(DType::boolean)->code, 6);
  EXPECT_EQ(dlpack_type(DType::u8)->bits, 8);
  EXPECT_FALSE(dlpack_type(DType::sequence));
}

}  // namespace
}  // namespace tenon
