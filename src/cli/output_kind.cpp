// SPDX-License-Identifier: Apache-2.0
#include "cli/output_kind.h"

#include <algorithm>
#include <cmath>

#include "metrics/outputs.h"
#include "metrics/peaks.h"
#include "metrics/reading.h"
#include "ops/floats.h"

namespace tenon::cli {
namespace {

constexpr float likely = 0.5f;  // of what is between 0 and 1

bool is_float(const Tensor& tensor) { return tensor.dtype() == DType::f32; }
bool is_whole(const Tensor& tensor) { return tensor.dtype() == DType::i64 || tensor.dtype() == DType::i32; }

/// Whether numbers along an axis are the parts of 1 at all positions.
bool are_shares(const Tensor& output, int64_t classes, int64_t inner) {
  constexpr double near = 1e-2;
  const std::span<const float> all = output.values<float>();
  const auto outer = static_cast<int64_t>(all.size()) / (classes * inner);
  for (int64_t out = 0; out < outer; ++out)
    for (int64_t in = 0; in < inner; ++in) {
      double sum = 0;
      for (int64_t one = 0; one < classes; ++one) {
        const float share = all[static_cast<size_t>((out * classes + one) * inner + in)];
        if (share < 0) return false;
        sum += share;
      }
      if (std::fabs(sum - 1) > near) return false;
    }
  return true;
}

/// Whether one class is far more likely than all others at most positions, and unlikely ones have logits below 0. Heat
/// maps, features, coordinates and colours are not so.
bool decide(const Tensor& output, int64_t classes, int64_t inner) {
  constexpr double least_likely = 0.5, least_below = 0.02;
  const std::span<const float> all = output.values<float>();
  const auto outer = static_cast<int64_t>(all.size()) / (classes * inner);
  double likely = 0, below = 0;
  for (int64_t out = 0; out < outer; ++out)
    for (int64_t in = 0; in < inner; ++in) {
      const auto at = [&](int64_t one) { return all[static_cast<size_t>((out * classes + one) * inner + in)]; };
      float most = at(0);
      for (int64_t one = 1; one < classes; ++one) most = std::max(most, at(one));
      double sum = 0;
      for (int64_t one = 0; one < classes; ++one) sum += std::exp(double{at(one)} - most), below += at(one) < 0;
      likely += 1 / sum;
    }
  return likely >= least_likely * static_cast<double>(outer * inner) && below >= least_below * std::ssize(all);
}

/// Where a map of classes would have them.
size_t axis_of(const Dims& dims) {
  if (dims.rank() == 3) return 2;
  return dims[3] < dims[1] && dims[3] < dims[2] ? 3 : 1;
}
int64_t inner_of(const Dims& dims) { return axis_of(dims) == 1 ? dims[2] * dims[3] : 1; }

/// Scores of classes at several positions: of a map with four axes, of a sequence with three.
bool has_classes(const Tensor& output, size_t rank, int64_t most) {
  constexpr int64_t fewest_logits = 4;  // two or three may be a flow, a direction or a colour
  const Dims& dims = output.dims();
  if (!is_float(output) || dims.rank() != rank || output.elements() == 0) return false;
  const int64_t classes = dims[axis_of(dims)];
  if (classes < 2 || classes > most || output.elements() / dims[0] / classes < 2) return false;
  return are_shares(output, classes, inner_of(dims)) ||
         (classes >= fewest_logits && decide(output, classes, inner_of(dims)));
}

bool is_class_map(const Tensor& output) {
  constexpr int64_t most = 512;
  return has_classes(output, 4, most);
}

bool is_sequence(const Tensor& output) {
  constexpr int64_t most = 50000, most_steps = 4096;  // characters of a script, or pieces of words; edits are counted
  return has_classes(output, 3, most) && output.dims()[1] <= most_steps;
}

/// Classes themselves, at one position or many.
bool holds_classes(const Tensor& output) { return is_whole(output) && output.dims().rank() >= 1; }

bool is_vocabulary(const Tensor& output) {
  constexpr int64_t fewest = 2000;  // hidden states are narrower
  const Dims& dims = output.dims();
  return is_float(output) && dims.rank() == 3 && dims[2] >= fewest;
}

/// Heat maps as planes; none where the sizes are no such.
std::vector<metrics::Plane> planes_of(const Tensor& output, int64_t row) {
  constexpr int64_t fewest_points = 3, shortest_side = 8;
  const Dims& dims = output.dims();
  if (!is_float(output) || dims.rank() != 4 || output.elements() == 0) return {};
  const bool is_last = axis_of(dims) == 3;
  const int64_t points = dims[is_last ? 3 : 1], rows = dims[is_last ? 1 : 2], columns = dims[is_last ? 2 : 3];
  if (points < fewest_points || rows < shortest_side || columns < shortest_side) return {};
  std::vector<metrics::Plane> planes;
  for (int64_t at = 0; at < points; ++at)
    planes.push_back(
        {row_of(output, row).data() + (is_last ? at : at * rows * columns), rows, columns, is_last ? points : 1});
  return planes;
}

/// Whether most planes have one spot that stands out, as each key point does where it is in the image.
bool is_point_map(const Tensor& output) {
  constexpr double high = 0.3, fewest_high = 0.5, fewest_alone = 0.75;
  const std::vector<metrics::Plane> planes = planes_of(output, 0);
  std::vector<metrics::Peak> peaks;
  double most = 0;
  for (const metrics::Plane& plane : planes) {
    peaks.push_back(metrics::Peak::of(plane));
    most = std::max(most, peaks.back().height);
  }
  double found = 0, alone = 0;
  for (size_t at = 0; at < peaks.size(); ++at)
    if (most > 0 && peaks[at].height >= high * most) ++found, alone += metrics::stands_alone(planes[at], peaks[at]);
  const auto all = static_cast<double>(planes.size());
  return found > 0 && found >= fewest_high * all && alone >= fewest_alone * found;
}

/// Whether an output is one plane a sample of numbers between 0 and 1, nearly all of which are near either, or most
/// where edges are soft: a spot of a heat map has six times as many between as near its top. With three axes steps and
/// classes look the same.
bool is_mask(const Tensor& output) {
  constexpr int64_t shortest_side = 8;
  constexpr float low = 0.2f, high = 0.8f, slack = 1e-3f, sure = 0.05f;
  constexpr double fewest_high = 1e-4, few_between = 0.1, between_by_high = 3, most_between = 0.4, fewest_sure = 0.6;
  const Dims& dims = output.dims();
  if (!is_float(output) || dims.rank() != 4 || output.elements() == 0) return false;
  if ((dims[1] != 1 && dims[3] != 1) || dims[2] < shortest_side || dims[1] * dims[3] < shortest_side) return false;
  double above = 0, between = 0, surely = 0;
  for (const float x : output.values<float>()) {
    if (!(x >= -slack && x <= 1 + slack)) return false;
    above += x > high, between += x >= low && x <= high, surely += x < sure || x > 1 - sure;
  }
  const auto all = static_cast<double>(output.elements());
  if (above < fewest_high * all || between > between_by_high * above) return false;
  return between <= few_between * all || (between <= most_between * all && surely >= fewest_sure * all);
}

/// Whether an output is images of three channels, from 0 or -1 to 1 or from 0 to 255, about: logits reach further.
bool is_image(const Tensor& output) {
  constexpr int64_t shortest_side = 16;
  constexpr float of_one = 1.5f, below_bytes = -100, bytes = 100, above_bytes = 400;
  const Dims& dims = output.dims();
  if (!is_float(output) || dims.rank() != 4 || output.elements() == 0) return false;
  const bool is_last = dims[3] == 3;
  if (!is_last && dims[1] != 3) return false;
  if (dims[is_last ? 1 : 2] < shortest_side || dims[is_last ? 2 : 3] < shortest_side) return false;
  const auto [low, high] = std::ranges::minmax(output.values<float>());
  return (low >= -of_one && high <= of_one) || (low >= below_bytes && high >= bytes && high <= above_bytes);
}

/// Key points that stay where they are, each as it rises above the rest of its plane.
double points_kept(const Tensor& exact, const Tensor& other, int64_t row) {
  const std::vector<metrics::Plane> before = planes_of(exact, row), after = planes_of(other, row);
  double kept = 0, all = 0;
  for (size_t at = 0; at < before.size(); ++at) {
    const metrics::Peak one = metrics::Peak::of(before[at]);
    kept += one.height * metrics::nearness(one, metrics::Peak::of(after[at]), before[at]), all += one.height;
  }
  return all > 0 ? kept / all : 1;
}

/// What is left of an output's variance after the squared error.
double signal_kept(std::span<const float> wanted, std::span<const float> got) {
  double sum = 0, squares = 0, wrong = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double x = wanted[i], off = x - got[i];
    sum += x, squares += x * x, wrong += off * off;
  }
  const double variance = squares - sum * sum / static_cast<double>(wanted.size());
  const double scale = variance > 1e-9 * squares ? variance : squares;
  if (scale > 0) return wrong < scale ? 1 - wrong / scale : 0;  // nothing where it is no number
  return wrong == 0;
}

template <class T>
double share_equal(const Tensor& exact, const Tensor& other, int64_t row) {
  const int64_t count = exact.elements() / exact.dims()[0];
  const T *a = exact.data<T>() + row * count, *b = other.data<T>() + row * count;
  int64_t same = 0;
  for (int64_t at = 0; at < count; ++at) same += a[at] == b[at];
  return static_cast<double>(same) / static_cast<double>(count);
}

double map_kept(const Tensor& exact, const Tensor& other, int64_t row) {
  if (exact.dtype() == DType::i64) return share_equal<int64_t>(exact, other, row);
  if (exact.dtype() == DType::i32) return share_equal<int32_t>(exact, other, row);
  const Dims& dims = exact.dims();
  const int64_t classes = dims[axis_of(dims)], inner = inner_of(dims);
  const int64_t same = metrics::same_best(row_of(exact, row), row_of(other, row), classes, inner);
  return static_cast<double>(same * classes) / static_cast<double>(exact.elements() / dims[0]);
}

double tokens_kept(const Tensor& exact, const Tensor& other, int64_t row, metrics::Shift& divergence) {
  const std::span<const float> wanted = row_of(exact, row), got = row_of(other, row);
  const int64_t words = exact.dims()[2], positions = exact.dims()[1];
  for (int64_t at = 0; at < positions; ++at) {
    const auto begin = static_cast<size_t>(at * words), size = static_cast<size_t>(words);
    divergence.add(metrics::divergence(wanted.subspan(begin, size), got.subspan(begin, size)));
  }
  return static_cast<double>(metrics::same_best(wanted, got, words, 1)) / static_cast<double>(positions);
}

/// A sequence's classes that are left by as few edits as make it of the other, and how many there were. Blanks are none
/// of the text, which is what counts, and where there are any, edits count by how sure the exact engine is of its own.
void add_sequence(const Tensor& exact, const Tensor& other, int64_t row, Kept& sum) {
  const int64_t classes = exact.dims()[2], blank = metrics::blank_of(row_of(exact, row), classes);
  std::vector<int64_t> wanted = metrics::best_in_turn(row_of(exact, row), classes);
  std::vector<int64_t> got = metrics::best_in_turn(row_of(other, row), classes);
  std::erase(wanted, blank), std::erase(got, blank);
  const auto length = static_cast<double>(std::max(std::ssize(wanted), std::ssize(got)));
  double lost = 0;
  if (blank < 0) {
    lost = static_cast<double>(metrics::edits(wanted, got));
  } else {
    const metrics::Reading own(row_of(exact, row), classes, blank), others(row_of(other, row), classes, blank);
    lost = own.lost(wanted, got);
    const auto sample = static_cast<size_t>(sum.share.images());
    for (const auto& [before, after] : own.margins(others)) sum.characters.add(sample, before, after);
  }
  sum.share.add(length - lost, length);
}

Tensor by_sample(const Tensor& output, int64_t batch) {
  const Dims& dims = output.dims();
  if (batch < 1 || dims.rank() == 0 || dims[0] == batch || output.elements() == 0) return output;
  std::vector<int64_t> sizes(dims.begin(), dims.end());
  if (dims.rank() > 1 && dims[1] == batch) {
    std::swap(sizes[0], sizes[1]);
    if (batch == 1) return output.reshaped(Dims(sizes));
    if (!is_float(output)) return output;
    Tensor moved(output.dtype(), Dims(sizes));
    const int64_t length = output.elements() / dims[0] / dims[1];
    for (int64_t time = 0; time < dims[0]; ++time)
      for (int64_t sample = 0; sample < batch; ++sample)
        std::copy_n(output.data<float>() + (time * batch + sample) * length, length,
                    moved.data<float>() + (sample * dims[0] + time) * length);
    return moved;
  }
  if (batch > 1 || dims.rank() == Dims::max_rank) return output;
  sizes.insert(sizes.begin(), 1);
  return output.reshaped(Dims(sizes));
}

/// Numbers of 16 and 64 bits as those of 32, by which all are judged.
Tensor in_f32(const Tensor& output) {
  if (output.dtype() != DType::f64) return ops::as_f32(output);
  Tensor result(DType::f32, output.dims());
  std::transform(output.data<double>(), output.data<double>() + output.elements(), result.data<float>(),
                 [](double number) { return static_cast<float>(number); });
  return result;
}

}  // namespace

std::span<const float> row_of(const Tensor& output, int64_t row) {
  const auto count = static_cast<size_t>(output.elements() / output.dims()[0]);
  return output.values<float>().subspan(static_cast<size_t>(row) * count, count);
}

std::vector<Tensor> by_sample(const std::vector<Tensor>& outputs, int64_t batch) {
  std::vector<Tensor> all;
  for (const Tensor& output : outputs) all.push_back(by_sample(in_f32(output), batch));
  return all;
}

bool is_embedding(const Tensor& output) {
  constexpr int64_t fewest = 32;
  constexpr double near = 1e-3;
  const Dims& dims = output.dims();
  if (!is_float(output) || dims.rank() < 2 || dims[0] == 0) return false;
  const int64_t size = output.elements() / dims[0];
  if (size < fewest || std::count(dims.begin() + 1, dims.end(), size) != 1) return false;
  if (are_shares(output, size, 1)) return false;  // where one class is nearly certain, its vector has the length 1, too
  for (int64_t row = 0; row < dims[0]; ++row) {
    double squares = 0;
    for (const float x : row_of(output, row)) squares += double{x} * x;
    if (std::fabs(std::sqrt(squares) - 1) > near) return false;
  }
  return true;
}

int64_t classes_in(const std::vector<Tensor>& outputs, int64_t batch) {
  if (outputs.empty() || outputs[0].dtype() != DType::f32) return 0;
  const Dims& dims = outputs[0].dims();
  if (dims.rank() < 2 || dims[0] != batch) return 0;
  int64_t classes = 1;
  for (size_t axis = 1; axis < dims.rank(); ++axis) {
    if (dims[axis] != 1 && classes != 1) return 0;
    classes *= dims[axis];
  }
  return classes > 1 ? classes : 0;
}

OutputKind kind_of(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
  if (outputs.empty()) return OutputKind::signal;
  if (std::none_of(inputs.begin(), inputs.end(), is_float) && is_vocabulary(outputs[0])) return OutputKind::tokens;
  if (outputs.size() == 1 && is_embedding(outputs[0])) return OutputKind::embedding;
  if (std::all_of(outputs.begin(), outputs.end(), is_point_map)) return OutputKind::points;
  if (std::all_of(outputs.begin(), outputs.end(), is_mask)) return OutputKind::mask;
  const bool floats = std::any_of(inputs.begin(), inputs.end(), is_float);
  if (floats && outputs.size() == 1 && is_sequence(outputs[0])) return OutputKind::sequence;
  const bool maps = std::all_of(outputs.begin(), outputs.end(),
                                [](const Tensor& one) { return holds_classes(one) || is_class_map(one); });
  if (maps) return OutputKind::class_map;
  const bool images = std::all_of(outputs.begin(), outputs.end(), is_image);
  return floats && images ? OutputKind::image : OutputKind::signal;
}

const char* metric_of(OutputKind kind) {
  switch (kind) {
    case OutputKind::image: return "share of fp32's signal in the images";
    case OutputKind::mask: return "IoU with fp32's masks";
    case OutputKind::class_map: return "share of positions with fp32's class";
    case OutputKind::sequence: return "share of fp32's sequences of classes";
    case OutputKind::labels: return "F1 of fp32's labels";
    case OutputKind::embedding: return "cosine with fp32's embedding";
    case OutputKind::points: return "nearness to fp32's key points";
    case OutputKind::coordinates: return "nearness to fp32's coordinates";
    case OutputKind::tokens: return "share of fp32's most likely tokens";
    case OutputKind::decisions: return "expected agreement with fp32's decisions";
    case OutputKind::amounts: return "nearness to fp32's numbers";
    case OutputKind::scored: return "share of fp32's signal where it scores";
    case OutputKind::signal: break;
  }
  return "share of fp32's signal in the outputs";
}

Measure measure_of(OutputKind kind, bool has_jitter) {
  switch (kind) {
    case OutputKind::image: return {1, 0.03, 0.05, 0};
    case OutputKind::mask: return {2, 3, 5, 0.02};
    case OutputKind::class_map: return {1.5, 0.5, 1, 0};
    case OutputKind::sequence: return {1, 0.5, 0.5, 0};
    case OutputKind::labels: return {1.5, 0.75, 4, 0.05};
    case OutputKind::tokens: return {1, 1, 1, 0};
    case OutputKind::embedding:
      return {1.5, has_jitter ? 0.1 : 0.25, 1, 0};  // a second full stop changes a text's by 0.5
    case OutputKind::points: return {1, 0.5, 1, 0};
    case OutputKind::decisions: return {1.5, 0.75, 12, 0};
    case OutputKind::amounts:
    case OutputKind::coordinates: return {1, 1, 1.5, 0};
    case OutputKind::scored: return {1, 0.5, 1.1, 0};
    case OutputKind::signal: break;
  }
  return {1, 0.1, 1.1, 0};
}

void add_kept(OutputKind kind, const std::vector<Tensor>& exact, const std::vector<Tensor>& other, int64_t row,
              Kept& sum) {
  double kept = 0;
  int64_t counted = 0;
  for (size_t at = 0; at < exact.size(); ++at) {
    const Tensor& one = exact[at];
    if (one.dims().rank() == 0 || one.elements() == 0) continue;
    if (row >= one.dims()[0]) continue;
    if (one.dims() != other[at].dims()) {
      ++counted;  // nothing of it is left
      continue;
    }
    if (kind == OutputKind::sequence) return add_sequence(one, other[at], row, sum);
    if (kind == OutputKind::mask || kind == OutputKind::labels) {
      const metrics::Overlap counts = metrics::overlap(row_of(one, row), row_of(other[at], row), likely);
      const bool is_mask = kind == OutputKind::mask;
      kept += static_cast<double>(is_mask ? counts.both : 2 * counts.both);
      counted += is_mask ? counts.either() : counts.first + counts.second;
      if (counts.either() > 0)
        sum.shift.add(static_cast<double>(counts.second - counts.first) / static_cast<double>(counts.either()));
      continue;
    }
    if (kind == OutputKind::class_map) kept += map_kept(one, other[at], row);
    else if (!is_float(one)) continue;
    else if (kind == OutputKind::points) kept += points_kept(one, other[at], row);
    else if (kind == OutputKind::tokens && at > 0) break;  // states of the next run
    else if (kind == OutputKind::tokens) kept += tokens_kept(one, other[at], row, sum.divergence);
    else if (kind == OutputKind::embedding) kept += metrics::cosine(row_of(one, row), row_of(other[at], row));
    else if (kind == OutputKind::coordinates)  // the error itself, not its square
      kept += 1 - std::sqrt(1 - signal_kept(row_of(one, row), row_of(other[at], row)));
    else kept += signal_kept(row_of(one, row), row_of(other[at], row));
    ++counted;
  }
  sum.share.add(kept, static_cast<double>(counted));
}

}  // namespace tenon::cli
