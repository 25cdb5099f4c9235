// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/elementwise/map.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tenon::cuda {

void Map::add(const Operand& operand, const std::string& type) {
  Dims own = dims;
  const size_t missing = dims.rank() - operand.dims.rank();
  for (size_t axis = 0; axis < dims.rank(); ++axis) {
    const bool repeats = axis < missing || (operand.dims[axis - missing] == 1 && dims[axis] != 1);
    own[axis] = repeats ? 0 : operand.strides[axis - missing];
  }
  strides.push_back(own);
  types.push_back(type);
  sizes.push_back(static_cast<int>(size_of(operand.dtype)));
  aligned.push_back(operand.aligned);
}

bool Map::simplify() {
  Dims kept;
  std::vector<Dims> kept_strides(strides.size());
  for (size_t axis = 0; axis < dims.rank(); ++axis) {
    if (dims[axis] == 1) continue;
    const size_t last = kept.rank();
    bool joins = last > 0;
    for (size_t k = 0; joins && k < strides.size(); ++k)
      joins = kept_strides[k][last - 1] == strides[k][axis] * dims[axis];
    if (joins) {
      kept[last - 1] *= dims[axis];
      for (size_t k = 0; k < strides.size(); ++k) kept_strides[k][last - 1] = strides[k][axis];
    } else {
      kept.push_back(dims[axis]);
      for (size_t k = 0; k < strides.size(); ++k) kept_strides[k].push_back(strides[k][axis]);
    }
  }
  if (kept.rank() == 0) {
    kept.push_back(1);
    for (Dims& list : kept_strides) list.push_back(0);
  }
  dims = kept;
  strides = kept_strides;
  if (dims.rank() > most_map_axes || strides.size() > most_map_operands + 1) return false;

  // A vector is 16 bytes of the widest type; each operand is contiguous or one value along the last axis.
  const int widest = *std::max_element(sizes.begin(), sizes.end());
  for (vector = 16 / widest; vector > 1; vector /= 2) {
    bool fits = dims.back() % vector == 0;
    for (size_t k = 0; fits && k < strides.size(); ++k) {
      const bool result = k + 1 == strides.size();
      const int64_t inner = strides[k].back();
      if (inner == 0 && !result) continue;
      fits = inner == 1 && aligned[k];
      for (size_t axis = 0; fits && axis + 1 < dims.rank(); ++axis) fits = strides[k][axis] % vector == 0;
    }
    if (fits) break;
  }
  return dims.elements() / vector < int64_t{1} << 31;
}

Map copy_map(const Dims& dims, const Dims& from, const Dims& to, int size) {
  const char* type = size == 1 ? "u8" : size == 2 ? "u16" : size == 4 ? "u32" : "u64";
  Map map;
  map.dims = dims;
  map.strides = {from, to};
  map.types = {type, type};
  map.sizes = {size, size};
  return map;
}

bool Map::is_small() const {
  constexpr double most = 2147483647;
  for (const Dims& list : strides) {
    double reach = 0;
    for (size_t axis = 0; axis < dims.rank(); ++axis)
      reach += std::abs(static_cast<double>(list[axis])) * static_cast<double>(dims[axis]);
    if (reach > most) return false;
  }
  return true;
}

int Map::each() const {
  constexpr int64_t many = int64_t{1} << 20;  // vectors that leave every GPU full of threads if each has four
  constexpr int on_the_way = 16;              // bytes of an operand that a thread loads before it stores
  const int widest = *std::max_element(sizes.begin(), sizes.end()) * vector;
  return dims.elements() / vector < many ? 1 : std::clamp(on_the_way / widest, 1, 4);
}

namespace {

/// The kernel's parameters and types of vectors.
std::string declarations(const Map& map) {
  const std::string axes = std::to_string(most_map_axes), most = std::to_string(most_map_operands + 1);
  std::string text = "struct Params { u64 operand[" + most + "]; i64 strides[" + most + "][" + axes + "]; u32 dims[" +
                     axes + "], factor[" + axes + "], shift[" + axes + "]; u32 count; };\n";
  for (size_t k = 0; k < map.strides.size(); ++k)
    text += "struct __align__(" + std::to_string(map.sizes[k] * map.vector) + ") V" + std::to_string(k) + " { " +
            map.types[k] + " e[" + std::to_string(map.vector) + "]; };\n";
  return text;
}

/// Offsets of vector i in each operand.
std::string offsets(const Map& map) {
  const std::string offset = map.is_small() ? "int" : "i64";
  std::string text;
  for (size_t axis = map.dims.rank(); axis-- > 0;) {
    const std::string a = std::to_string(axis);
    text += axis ? "    at = rest; rest = ((u64)__umulhi(at, p.factor[" + a + "]) + at) >> p.shift[" + a +
                       "]; at -= rest * p.dims[" + a + "];\n"
                 : "    at = rest;\n";
    for (size_t k = 0; k < map.strides.size(); ++k) {
      const std::string n = std::to_string(k);
      text += "    o" + n + " += at * (" + offset + ")p.strides[" + n + "][" + a + "];\n";
    }
  }
  return text;
}

/// Results of a vector, as "out".
std::string results(const Map& map) {
  const size_t operands = map.strides.size() - 1;
  std::string text = "    V" + std::to_string(operands) + " out;\n#pragma unroll\n    for (int e = 0; e < " +
                     std::to_string(map.vector) + "; ++e) {\n";
  for (size_t k = 0; k < operands; ++k) {
    const std::string n = std::to_string(k);
    const std::string element = "in" + n + "[k]" + (map.is_whole(k) ? ".e[e]" : "");
    text += map.body.empty() ? "      out.e[e] = " + element + ";\n"
            : map.plain      ? "      const " + map.types[k] + " v" + n + " = " + element + ";\n"
                             : "      const float v" + n + " = f32_of(" + element + ");\n";
  }
  const std::string& type = map.types[operands];
  if (!map.body.empty() && map.plain) text += "      " + type + " r;\n" + map.body + "      out.e[e] = r;\n";
  else if (!map.body.empty()) text += "      float r;\n" + map.body + "      out.e[e] = of_f32<" + type + ">(r);\n";
  return text + "    }\n";
}

}  // namespace

Source Map::source() const {
  const size_t operands = strides.size() - 1;
  const std::string result = std::to_string(operands), offset = is_small() ? "int" : "i64";
  const auto read = [&](size_t k) { return is_whole(k) ? "V" + std::to_string(k) : types[k]; };
  std::string text = declarations(*this) + "constexpr int EACH = " + std::to_string(each()) + ";\n" +
                     "extern \"C\" __global__ void __launch_bounds__(256) map(const Breadcrumb breadcrumb, const "
                     "__grid_constant__ Params p) {\n  wait_for_previous(breadcrumb);\n"
                     "  const u32 first = blockIdx.x * (256 * EACH) + threadIdx.x;\n  if (first >= p.count) return;\n";
  text += "  " + offset + " to[EACH];\n";
  for (size_t k = 0; k < operands; ++k) text += "  " + read(k) + " in" + std::to_string(k) + "[EACH];\n";
  text +=
      "#pragma unroll\n  for (int k = 0; k < EACH; ++k) {\n"
      "    u32 rest = min(first + 256 * k, p.count - 1), at;\n";
  for (size_t k = 0; k <= operands; ++k) text += "    " + offset + " o" + std::to_string(k) + " = 0;\n";
  text += offsets(*this);
  for (size_t k = 0; k < operands; ++k) {
    const std::string n = std::to_string(k);
    text +=
        "    in" + n + "[k] = *(const " + read(k) + "*)((const " + types[k] + "*)p.operand[" + n + "] + o" + n + ");\n";
  }
  text += "    to[k] = o" + result +
          ";\n  }\n#pragma unroll\n  for (int k = 0; k < EACH; ++k) {\n"
          "    if (first + 256 * k >= p.count) return;\n" +
          results(*this) + "    *(V" + result + "*)((" + types[operands] + "*)p.operand[" + result +
          "] + to[k]) = out;\n  }\n}\n";
  return {"map.cu", {}, text};
}

namespace {

/// Without sizes and addresses.
std::optional<CopyPart> copy_of(const Map& map) {
  if (map.strides.size() != 2 || (!map.body.empty() && !map.converts)) return std::nullopt;
  // One number for several neighbours is no vector that could be read.
  if (map.vector > 1 && map.strides[0].back() != 1) return std::nullopt;
  static const std::vector<std::string> floats{"float", "half", "bf16"};
  const auto code = [](const std::string& type) {
    return static_cast<int>(std::find(floats.begin(), floats.end(), type) - floats.begin());
  };
  CopyPart copy{};
  copy.from_bytes = map.sizes[0], copy.to_bytes = map.sizes[1];
  copy.from_type = code(map.types[0]), copy.to_type = code(map.types[1]);
  if (map.converts && std::max(copy.from_type, copy.to_type) > 2) return std::nullopt;
  if (map.converts) copy.each = map.vector;
  else copy.bytes = map.sizes[0] * map.vector;
  return copy;
}

}  // namespace

MapLaunch::MapLaunch(const Map& map, Device& device)
    : function_(device.function(map.source(), "map")), copy_(copy_of(map)) {
  for (size_t axis = 0; axis < map.dims.rank(); ++axis) {
    const bool last = axis + 1 == map.dims.rank();
    const int64_t size = std::max<int64_t>(1, last ? map.dims[axis] / map.vector : map.dims[axis]);
    params_.dims[axis] = static_cast<unsigned>(size);
    // Division by a constant of all numbers of 32 bits (Granlund and Montgomery 1994).
    const auto shift = static_cast<unsigned>(std::bit_width(static_cast<uint64_t>(size - 1)));
    params_.shift[axis] = shift;
    params_.factor[axis] = static_cast<unsigned>(
        (((uint64_t{1} << shift) - static_cast<uint64_t>(size)) << 32) / static_cast<uint64_t>(size) + 1);
    for (size_t k = 0; k < map.strides.size(); ++k)
      params_.strides[k][axis] = map.strides[k][axis] * (last ? map.vector : 1);
  }
  params_.count = static_cast<unsigned>(map.dims.elements() / map.vector);
  grid_ = {ceil_div(params_.count, 256 * map.each()), 1, 1, 256, 0};
  if (!copy_) return;
  static_assert(most_map_axes == most_copy_axes);
  copy_->axes = static_cast<int>(map.dims.rank()), copy_->count = params_.count;
  for (size_t axis = 0; axis < most_map_axes; ++axis) {
    copy_->dims[axis] = params_.dims[axis];
    copy_->factor[axis] = params_.factor[axis], copy_->shift[axis] = params_.shift[axis];
    for (size_t k = 0; k < 2; ++k) copy_->strides[k][axis] = params_.strides[k][axis];
  }
}

std::optional<CopyPart> MapLaunch::copy(Address from, Address to) const {
  std::optional<CopyPart> copy = copy_;
  if (copy) copy->from = from, copy->to = to;
  return copy;
}

void MapLaunch::enqueue(Device& device, const Launch& at, const std::vector<Address>& addresses) const {
  MapParams params = params_;
  std::copy(addresses.begin(), addresses.end(), params.operand);
  launch(device, function_, grid_, at, params);
}

namespace {

class MapStep : public Step {
 public:
  MapStep(const Map& map, Device& device) : device_(device), operands_(map.strides.size() - 1), launch_(map, device) {}
  bool reads(size_t input) const override { return input < operands_; }
  bool copies(const Launch& at, std::vector<CopyPart>& parts) const override {
    const std::optional<CopyPart> copy = operands_ == 1 ? launch_.copy(at.inputs[0], at.outputs[0]) : std::nullopt;
    if (copy) parts.push_back(*copy);
    return copy.has_value();
  }
  void enqueue(const Launch& at) const override {
    std::vector<Address> addresses(at.inputs, at.inputs + operands_);
    addresses.push_back(at.outputs[0]);
    launch_.enqueue(device_, at, addresses);
  }

 private:
  Device& device_;
  size_t operands_;
  MapLaunch launch_;
};

}  // namespace

std::unique_ptr<Step> make_map_step(const Map& map, Device& device) { return std::make_unique<MapStep>(map, device); }

}  // namespace tenon::cuda
