// SPDX-License-Identifier: Apache-2.0
#include <tenon/error.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/hash.h"
#include "base/pages.h"
#include "engine/engine.h"
#include "engine/format.h"
#include "engine/save.h"
#include "engine/steps.h"

namespace tenon {
namespace {

using nlohmann::json;

std::string plan_text(const plan::Plan& plan) {
  json records = json::object();
  for (const auto& [key, record] : plan.records) {
    json entry = json::array({record.kernel, record.microseconds});
    for (const plan::Candidate& candidate : record.candidates) {
      entry.push_back(candidate.kernel);
      entry.push_back(candidate.microseconds);
    }
    records[engine::json_text(key)] = std::move(entry);
  }
  json shapes = json::object();
  for (const auto& [name, sizes] : plan.shapes) shapes[engine::json_text(name)] = sizes;
  return json{{"shapes", shapes},
              {"threads", plan.threads},
              {"strict", plan.goal.strict},
              {"vendor", plan.goal.vendor},
              {"isa", plan.goal.isa},
              {"device", plan.device.str()},
              {"precision", name(plan.goal.precision)},
              {"bf16", plan.goal.rounds_to_bf16},
              {"records", records}}
      .dump();
}

/// What `why` tells of the build.
std::string why_text(const plan::Plan& plan) {
  json sources = json::array();
  for (const plan::Source& source : plan.sources) {
    json entry = json::array({engine::json_text(source.name), engine::json_text(source.op)});
    if (!source.fate.empty()) entry.push_back(engine::json_text(source.fate));
    if (!source.into.empty()) entry.push_back(engine::json_text(source.into));
    sources.push_back(std::move(entry));
  }
  json told{{"sources", std::move(sources)}};
  if (!plan.evidence.empty()) told["evidence"] = plan::json_of(plan.evidence);
  return told.dump(-1, ' ', false, json::error_handler_t::replace);
}

/// Where the bytes of an engine go, in order.
using Sink = std::function<void(std::span<const std::byte>)>;

/// An engine as the parts of its file. Constants stay where they are until they are written.
class Parts {
 public:
  explicit Parts(const plan::Plan& plan) {
    const std::string graph = ir::print(plan.graph, &pool_);
    const std::string table = pool_text();
    texts_ = {plan_text(plan), graph, table, "", engine::json_of_steps(plan).dump(), why_text(plan)};
    std::memcpy(header_.magic, engine::magic, sizeof header_.magic);
    header_.version = engine::version;
    header_.sections = count;
    uint64_t offset = engine::aligned(sizeof header_ + sizeof sections_);
    for (size_t at = 0; at < count; ++at) {
      engine::Section& section = sections_[at];
      std::strncpy(section.name, names[at], sizeof section.name - 1);
      section.offset = offset;
      section.bytes = at == data ? data_bytes_ : texts_[at].size();
      offset += engine::aligned(section.bytes);
      Hasher hasher;
      write_section(at, [&](std::span<const std::byte> bytes) { hasher.add(bytes); });
      section.hash = hasher.value();
    }
    header_.file_bytes = offset;
    Hasher hasher;
    write_head([&](std::span<const std::byte> bytes) { hasher.add(bytes); });
    header_.hash = hasher.value();
  }

  uint64_t bytes() const { return header_.file_bytes; }

  void write(const Sink& sink) const {
    write_head(sink);
    for (size_t at = 0; at < count; ++at) write_section(at, sink);
  }

 private:
  static constexpr const char* names[] = {"plan", "graph", "pool", "data", "steps", "why"};
  static constexpr size_t count = std::size(names), data = 3;

  static void pad(uint64_t bytes, const Sink& sink) {
    constexpr std::byte zeros[engine::alignment] = {};
    sink({zeros, engine::aligned(bytes) - bytes});
  }
  template <class T>
  static std::span<const std::byte> bytes_of(const T& of) {
    return std::as_bytes(std::span(&of, 1));
  }

  /// The table of the constants that the graph's text refers to.
  std::string pool_text() {
    json table = json::array();
    for (const Tensor& tensor : pool_) {
      json entry{{"dtype", name(tensor.dtype())},
                 {"dims", std::vector<int64_t>(tensor.dims().begin(), tensor.dims().end())}};
      if (tensor.dtype() == DType::string) {
        for (const std::string& text : tensor.strings()) entry["strings"].push_back(engine::json_text(text));
      } else {
        const auto [place, is_new] = places_.try_emplace({tensor.data(), tensor.bytes()}, engine::aligned(data_bytes_));
        entry["offset"] = place->second;
        if (is_new) data_bytes_ = place->second + tensor.bytes();
      }
      table.push_back(std::move(entry));
    }
    return table.dump();
  }

  void write_head(const Sink& sink) const {
    sink(bytes_of(header_));
    sink(bytes_of(sections_));
    pad(sizeof header_ + sizeof sections_, sink);
  }

  void write_section(size_t at, const Sink& sink) const {
    if (at != data) {
      sink(std::as_bytes(std::span(texts_[at])));
      return pad(texts_[at].size(), sink);
    }
    uint64_t end = 0;
    for (const Tensor& tensor : pool_) {
      // What lies before is there already, under another shape.
      if (tensor.dtype() == DType::string || places_.at({tensor.data(), tensor.bytes()}) < end) continue;
      end += engine::aligned(tensor.bytes());
      sink({tensor.data<std::byte>(), tensor.bytes()});
      release_pages(tensor.data(), tensor.bytes());
      pad(tensor.bytes(), sink);
    }
  }

  std::vector<Tensor> pool_;
  std::map<std::pair<const void*, size_t>, uint64_t> places_;  // in the data, of memory that several tensors may share
  uint64_t data_bytes_ = 0;
  std::array<std::string, count> texts_;  // of the sections but the data's
  engine::Header header_{};
  engine::Section sections_[count]{};
};

}  // namespace

Buffer Engine::serialize() const {
  return of_whole(impl_->files, [&] {
    const Parts parts(impl_->plan);
    Tensor file(DType::u8, {static_cast<int64_t>(parts.bytes())});
    auto* at = file.data<std::byte>();
    const Buffer whole{at, parts.bytes(), std::make_shared<Tensor>(std::move(file))};
    parts.write([&](std::span<const std::byte> bytes) { at = std::copy(bytes.begin(), bytes.end(), at); });
    return whole;
  });
}

int64_t save(const Engine& engine, const std::string& path) {
  NewFile file(path);
  const uint64_t bytes = of_whole(EngineAccess::of(engine).files, [&] {
    if (file.temporary() == path) {
      // What a pipe has taken cannot be read back.
      const Buffer whole = engine.serialize();
      Engine::load(whole);
      file.write(whole.bytes());
      return static_cast<uint64_t>(whole.size());
    }
    const Parts parts(plan_of(engine));
    parts.write([&](std::span<const std::byte> part) { file.write(part); });
    Engine::load(file.temporary());
    return parts.bytes();
  });
  file.commit();
  return static_cast<int64_t>(bytes);
}

void Engine::save(const std::string& path) const { tenon::save(*this, path); }

}  // namespace tenon
