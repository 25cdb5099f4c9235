// SPDX-License-Identifier: Apache-2.0
#include <tenon/error.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/hash.h"
#include "engine/engine.h"
#include "engine/format.h"
#include "engine/steps.h"

namespace tenon {
namespace {

using nlohmann::json;

uint64_t aligned(uint64_t bytes) { return (bytes + engine::alignment - 1) / engine::alignment * engine::alignment; }

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

/// Table and bytes of the constants that the graph's text refers to.
std::string pool_text(const std::vector<Tensor>& pool, std::string& data) {
  json table = json::array();
  for (const Tensor& tensor : pool) {
    json entry{{"dtype", name(tensor.dtype())},
               {"dims", std::vector<int64_t>(tensor.dims().begin(), tensor.dims().end())}};
    if (tensor.dtype() == DType::string) {
      for (const std::string& text : tensor.strings()) entry["strings"].push_back(engine::json_text(text));
    } else {
      data.resize(aligned(data.size()));
      entry["offset"] = data.size();
      data.append(tensor.data<char>(), tensor.bytes());
    }
    table.push_back(std::move(entry));
  }
  return table.dump();
}

}  // namespace

Buffer Engine::serialize() const {
  std::vector<Tensor> pool;
  const std::string graph = ir::print(impl_->plan.graph, &pool);
  std::string data;
  const std::string table = pool_text(pool, data);
  const std::pair<const char*, std::string> contents[] = {{"plan", plan_text(impl_->plan)},
                                                          {"graph", graph},
                                                          {"pool", table},
                                                          {"data", std::move(data)},
                                                          {"steps", engine::json_of_steps(impl_->plan).dump()},
                                                          {"why", why_text(impl_->plan)}};

  constexpr uint32_t count = 6;
  engine::Header header{};
  std::memcpy(header.magic, engine::magic, sizeof header.magic);
  header.version = engine::version;
  header.sections = count;
  engine::Section sections[count]{};
  uint64_t offset = aligned(sizeof header + sizeof sections);
  for (uint32_t at = 0; at < count; ++at) {
    std::strncpy(sections[at].name, contents[at].first, sizeof sections[at].name - 1);
    sections[at].offset = offset;
    sections[at].bytes = contents[at].second.size();
    offset += aligned(sections[at].bytes);
  }
  header.file_bytes = offset;
  Tensor file(DType::u8, {static_cast<int64_t>(offset)});
  auto* const begin = file.data<std::byte>();
  const auto bytes = [&](uint64_t from, uint64_t size) { return std::span<const std::byte>(begin + from, size); };
  for (uint32_t at = 0; at < count; ++at) {
    std::memcpy(begin + sections[at].offset, contents[at].second.data(), sections[at].bytes);
    sections[at].hash = hash64(bytes(sections[at].offset, aligned(sections[at].bytes)));
  }
  std::memcpy(begin, &header, sizeof header);
  std::memcpy(begin + sizeof header, sections, sizeof sections);
  header.hash = hash64(bytes(0, aligned(sizeof header + sizeof sections)));
  std::memcpy(begin, &header, sizeof header);
  return {begin, offset, std::make_shared<Tensor>(std::move(file))};
}

void Engine::save(const std::string& path) const {
  const Buffer bytes = serialize();
  load(bytes);
  write_atomically(path, bytes.bytes());
}

}  // namespace tenon
