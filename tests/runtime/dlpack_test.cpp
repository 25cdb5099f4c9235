// SPDX-License-Identifier: Apache-2.0
// Tensors in the form of DLPack, both ways: what is taken, what is refused, and who frees them.
#include <gtest/gtest.h>
#include <tenon/dlpack.h>

#include <cstring>
#include <limits>

#include "support/net.h"

namespace tenon {
namespace {

using test::error_of;

/// As DLPack's own header has it.
struct DLTensor {
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
  std::vector<float> elements = std::vector<float>(64);
  int64_t sizes[3] = {2, 3, 5}, strides[3] = {15, 5, 1};
  DLTensor theirs{elements.data(), {1, 0}, 3, {2, 32, 1}, sizes, strides, 64};

  Dlpack() {
    for (size_t at = 0; at < elements.size(); ++at) elements[at] = static_cast<float>(at);
  }
  std::string refusal() {
    return error_of([&] { dlpack::from(&theirs); });
  }
};

TEST_F(Dlpack, ViewsReferToTheSameElements) {
  const Tensor tensor = dlpack::from(&theirs);
  EXPECT_EQ(tensor.dims(), (Dims{2, 3, 5}));
  EXPECT_EQ(tensor.data<float>(), elements.data() + 16);
  EXPECT_TRUE(tensor.is_dense());
  theirs.strides = nullptr;
  EXPECT_TRUE(dlpack::from(&theirs).is_dense());
  // Strides along axes of one element say nothing.
  sizes[0] = 1, strides[0] = 7, theirs.strides = strides;
  EXPECT_TRUE(dlpack::from(&theirs).is_dense());
}

TEST_F(Dlpack, StridesAreKeptAndCopiesAreDense) {
  strides[0] = 1, strides[1] = 2, strides[2] = 6;
  const Tensor tensor = dlpack::from(&theirs);
  EXPECT_FALSE(tensor.is_dense());
  EXPECT_EQ(tensor.strides(), (Dims{1, 2, 6}));
  const Tensor dense = tensor.copy();
  ASSERT_TRUE(dense.is_dense());
  size_t at = 0;
  for (int64_t a = 0; a < 2; ++a)
    for (int64_t b = 0; b < 3; ++b)
      for (int64_t c = 0; c < 5; ++c)
        EXPECT_EQ(dense.data<float>()[at++], elements[static_cast<size_t>(16 + a + 2 * b + 6 * c)]);
}

TEST_F(Dlpack, DevicesAreNamed) {
  theirs.device = {2, 3};
  EXPECT_EQ(dlpack::from(&theirs).device(), Device("cuda:3"));
  EXPECT_EQ(error_of([&] { dlpack::from(&theirs).copy(); }),
            "usage: the elements of a tensor lie on cuda:3, they are needed in the memory of the process");
  theirs.device.device_type = 13;
  EXPECT_EQ(dlpack::from(&theirs).device(), Device("cuda:3"));
  theirs.device.device_type = 3;
  EXPECT_TRUE(dlpack::from(&theirs).on_cpu());
}

TEST_F(Dlpack, OthersAreRefusedByWhatIsWrong) {
  theirs.device.device_type = 10;
  EXPECT_NE(refusal().find("a device of type 10"), std::string::npos);
  theirs.device.device_type = 1, theirs.dtype.lanes = 4;
  EXPECT_NE(refusal().find("32 bits and 4 lanes"), std::string::npos);
  theirs.dtype = {5, 64, 1};
  EXPECT_NE(refusal().find("code 5"), std::string::npos);
  theirs.dtype = {2, 32, 1}, theirs.ndim = 9;
  EXPECT_NE(refusal().find("9 axes"), std::string::npos);
  theirs.ndim = 3, sizes[1] = -3;
  EXPECT_NE(refusal().find("a negative size"), std::string::npos);
  sizes[1] = std::numeric_limits<int64_t>::max();
  EXPECT_NE(refusal().find("resource"), std::string::npos);
}

template <class Form>
struct Owned {
  Form form{};
  int freed = 0;
  explicit Owned(const DLTensor& tensor) {
    static_assert(sizeof form.tensor == sizeof tensor);
    std::memcpy(&form.tensor, &tensor, sizeof tensor);
    form.context = this;
    form.deleter = [](Form* self) { ++static_cast<Owned*>(self->context)->freed; };
  }
};

TEST_F(Dlpack, OwnedTensorsAreFreedOnceWithTheLastCopy) {
  Owned<dlpack::Managed> plain(theirs);
  Owned<dlpack::ManagedVersioned> versioned(theirs);
  versioned.form.major = 1, versioned.form.minor = 9;
  {
    Tensor a = dlpack::from(&plain.form), b = a, c = dlpack::from(&versioned.form);
    a = Tensor();
    EXPECT_EQ(plain.freed, 0);
    EXPECT_EQ(c.data<float>()[0], 16);
  }
  EXPECT_EQ(plain.freed, 1);
  EXPECT_EQ(versioned.freed, 1);
}

TEST_F(Dlpack, RefusedTensorsAreFreedToo) {
  Owned<dlpack::ManagedVersioned> newer(theirs);
  newer.form.major = 2;
  EXPECT_NE(error_of([&] { dlpack::from(&newer.form); }).find("its version is 2"), std::string::npos);
  EXPECT_EQ(newer.freed, 1);
}

TEST_F(Dlpack, WhatIsGivenComesBackWithTheSameElements) {
  const Tensor mine = test::random_tensor({3, 4}, 1);
  dlpack::ManagedVersioned* given = dlpack::give_versioned(mine);
  EXPECT_EQ(given->major, 1u);
  EXPECT_EQ(given->tensor.strides[0], 4);
  const Tensor back = dlpack::take(given), other = dlpack::take(dlpack::give(mine));
  EXPECT_EQ(back.data(), mine.data());
  EXPECT_EQ(other.data(), mine.data());
  EXPECT_EQ(back.dims(), mine.dims());
  EXPECT_NE(error_of([] { dlpack::give(Tensor(DType::string, {1})); }).find("no tensors of string"), std::string::npos);
}

TEST_F(Dlpack, GivenTensorsOutliveOurs) {
  dlpack::Managed* given = dlpack::give(test::random_tensor({3, 4}, 1));
  EXPECT_EQ(static_cast<float*>(given->tensor.data)[11], test::random_tensor({3, 4}, 1).data<float>()[11]);
  given->deleter(given);
}

TEST_F(Dlpack, RunsTakeStridedInputs) {
  const test::Folder folder;
  Session session = test::build_net(folder, test::small_net(1)).session();
  const Tensor planar = test::random_tensor({1, 3, 8, 8}, 7);
  Tensor interleaved(DType::f32, {1, 8, 8, 3});
  for (int64_t channel = 0; channel < 3; ++channel)
    for (int64_t at = 0; at < 64; ++at)
      interleaved.data<float>()[at * 3 + channel] = planar.data<float>()[channel * 64 + at];
  const Tensor strided = Tensor::view(DType::f32, {1, 3, 8, 8}, {192, 1, 24, 3}, interleaved.data());
  EXPECT_TRUE(test::bytes_of(session.run({{"x", strided}})[0]) == test::bytes_of(session.run({{"x", planar}})[0]));
}

TEST(DlpackTypes, EveryOneOfTheirsIsKnown) {
  EXPECT_EQ(dlpack::type_of(DType::bf16)->code, 4);
  EXPECT_EQ(dlpack::type_of(DType::boolean)->code, 6);
  EXPECT_EQ(dlpack::type_of(DType::u8)->bits, 8);
  EXPECT_EQ(dlpack::type_of(DType::f8e4m3fn)->code, 10);
  EXPECT_FALSE(dlpack::type_of(DType::sequence));
}

}  // namespace
}  // namespace tenon
