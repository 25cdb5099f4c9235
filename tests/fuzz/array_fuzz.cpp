// SPDX-License-Identifier: Apache-2.0
#include "cli/npy.h"
#include "onnx/import.h"
#include "support/proto.h"
#include "target.h"
#include "tenon/error.h"

/// Arrays from files: .npy, .npz, and the tensors and sequences of ONNX test data.
namespace tenon::fuzz {
namespace {

std::string text(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

std::string number(uint64_t value, int width) {
  std::string bytes;
  for (int at = 0; at < width; ++at) bytes += static_cast<char>(value >> (8 * at));
  return bytes;
}

/// A zip archive of one stored entry.
std::string zipped(const std::string& name, const std::string& data) {
  const std::string common = number(20, 2) + number(0, 2) + number(0, 2) + number(0, 4) + number(0, 4) +
                             number(data.size(), 4) + number(data.size(), 4) + number(name.size(), 2) + number(0, 2);
  const std::string local = number(0x04034b50, 4) + common + name + data;
  const std::string central = number(0x02014b50, 4) + number(20, 2) + common + number(0, 2) + number(0, 2) +
                              number(0, 2) + number(0, 4) + number(0, 4) + name;
  return local + central + number(0x06054b50, 4) + number(0, 4) + number(1, 2) + number(1, 2) +
         number(central.size(), 4) + number(local.size(), 4) + number(0, 2);
}

/// The same bytes for each reader; an Error of one does not hide the next.
template <class Read>
void attempt(const Read& read) {
  try {
    read();
  } catch (const Error&) {
  }
}

}  // namespace

std::vector<std::string> seeds() {
  const std::string npy = text(cli::npy_bytes(Tensor(DType::f32, {2, 3}), "x"));
  const std::string proto = test::field(1, 2) + test::field(2, 1) + test::field(9, std::string(8, 'a'));
  return {npy, text(cli::npy_bytes(Tensor(DType::boolean, {}), "x")), zipped("x.npy", npy), proto,
          test::field(3, proto) + test::field(2, 1)};
}

void eat(std::span<const uint8_t> bytes) {
  attempt([&] { cli::parse_npy(bytes, "x"); });
  attempt([&] { cli::parse_npz(bytes, "", "x"); });
  attempt([&] { cli::parse_npz(bytes, "x", "x"); });
  attempt([&] { onnx::read_value(std::as_bytes(bytes), "x", false); });
  attempt([&] { onnx::read_value(std::as_bytes(bytes), "x", true); });
}

}  // namespace tenon::fuzz
