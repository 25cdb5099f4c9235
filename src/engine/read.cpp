#include <tenon/error.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/checked.h"
#include "base/file.h"
#include "base/hash.h"
#include "engine/engine.h"
#include "engine/format.h"
#include "ops/op.h"
#include "ops/verify.h"

namespace tenon {
namespace {

using nlohmann::json;

uint64_t aligned(uint64_t bytes) { return (bytes + engine::alignment - 1) / engine::alignment * engine::alignment; }

[[noreturn]] void corrupt(const std::string& path, const std::string& why) {
  throw Error(Code::bad_engine, "the engine is damaged",
              {.where = path, .why = why, .hint = "copy it again, or build it from its model"});
}

std::map<std::string, std::span<const std::byte>> sections_of(std::span<const std::byte> file,
                                                              const std::string& path) {
  engine::Header header;
  if (file.size() < sizeof header) corrupt(path, "it ends inside the header");
  std::memcpy(&header, file.data(), sizeof header);
  if (std::memcmp(header.magic, engine::magic, sizeof header.magic) != 0)
    corrupt(path, "it does not begin as an engine does");
  if (header.version > engine::version)
    throw Error(Code::bad_engine, "the engine was written by a newer Tenon",
                {.where = path,
                 .why = "its format is " + std::to_string(header.version) + ", this Tenon reads " +
                        std::to_string(engine::version),
                 .hint = "update Tenon, or build the engine from its model"});
  if (header.version > 0 && header.version < engine::version)
    throw Error(Code::bad_engine, "the engine was written by an older Tenon",
                {.where = path,
                 .why = "its format is " + std::to_string(header.version) + ", this Tenon reads " +
                        std::to_string(engine::version),
                 .hint = "build it again from its model"});
  if (header.file_bytes != file.size())
    corrupt(path,
            "it has " + std::to_string(file.size()) + " bytes and should have " + std::to_string(header.file_bytes));
  if (header.version != engine::version || header.sections > engine::max_sections)
    corrupt(path, "the header makes no sense");
  const uint64_t head = aligned(sizeof header + header.sections * sizeof(engine::Section));
  if (head > file.size()) corrupt(path, "it ends inside the table of sections");
  std::vector<std::byte> copy(file.begin(), file.begin() + static_cast<ptrdiff_t>(head));
  std::memset(copy.data() + offsetof(engine::Header, hash), 0, sizeof header.hash);
  if (hash64(copy) != header.hash) corrupt(path, "the header's hash does not match");
  std::map<std::string, std::span<const std::byte>> sections;
  uint64_t expected = head;
  for (uint32_t at = 0; at < header.sections; ++at) {
    engine::Section section;
    std::memcpy(&section, file.data() + sizeof header + at * sizeof section, sizeof section);
    section.name[sizeof section.name - 1] = 0;
    if (section.offset != expected || section.bytes > file.size() ||
        aligned(section.bytes) > file.size() - section.offset)
      corrupt(path, "section \"" + std::string(section.name) + "\" lies outside the file");
    expected += aligned(section.bytes);
    if (hash64(file.subspan(section.offset, aligned(section.bytes))) != section.hash)
      corrupt(path, "the hash of section \"" + std::string(section.name) + "\" does not match");
    sections[section.name] = file.subspan(section.offset, section.bytes);
  }
  if (expected != file.size()) corrupt(path, "bytes follow the last section");
  for (const char* name : {"plan", "graph", "pool", "data"})
    if (!sections.count(name)) corrupt(path, std::string("section \"") + name + "\" is missing");
  return sections;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<Tensor> pool_of(const json& table, std::span<const std::byte> data, const std::string& path,
                            const std::shared_ptr<const void>& keep) {
  std::vector<Tensor> pool;
  for (const json& entry : table) {
    const auto type = dtype_named(entry.at("dtype").get<std::string>());
    const auto sizes = entry.at("dims").get<std::vector<int64_t>>();
    if (!type) corrupt(path, "a constant has an unknown type");
    for (int64_t size : sizes)
      if (size < 0) corrupt(path, "a constant has a negative size");
    const Dims dims(sizes);
    if (*type == DType::string) {
      auto strings = entry.value("strings", std::vector<std::string>());
      for (std::string& text : strings) text = engine::json_bytes(text);
      if (static_cast<int64_t>(strings.size()) != dims.elements())
        corrupt(path, "a constant of strings has the wrong count");
      pool.push_back(Tensor::of_strings(dims, std::move(strings)));
      continue;
    }
    const auto offset = entry.at("offset").get<uint64_t>();
    Tensor tensor = Tensor::view(*type, dims, nullptr);
    if (offset % engine::alignment != 0 || offset > data.size() || tensor.bytes() > data.size() - offset)
      corrupt(path, "a constant lies outside its section");
    pool.push_back(Tensor::view(*type, dims, const_cast<std::byte*>(data.data() + offset), keep));
  }
  return pool;
}

/// The graph, checked as one from a model is: files can be made by hand, with hashes that are right.
ir::Graph graph_of(std::string_view text, const std::vector<Tensor>& pool, const std::string& path) {
  try {
    ir::Graph graph = ir::parse(text, pool);
    ir::verify(graph);
    graph.tidy();
    ops::verify(graph);
    ops::infer(graph);
    return graph;
  } catch (const Error& error) {
    if (error.code() == Code::resource) throw;
    std::string why = error.what();
    for (const std::string& more : {error.where(), error.why()})
      if (!more.empty()) why += ", " + more;
    corrupt(path, why);
  } catch (const std::logic_error& error) {
    corrupt(path, error.what());
  }
}

/// [kernel, microseconds, rival, microseconds, …]
plan::Record record_of(const json& entry) {
  plan::Record record{entry.at(0).get<std::string>(), entry.at(1).get<double>()};
  for (size_t at = 2; at + 1 < entry.size(); at += 2)
    record.rivals.push_back({entry.at(at).get<std::string>(), entry.at(at + 1).get<double>()});
  return record;
}

/// [name, op, fate, next node]; the last two where there are any.
plan::Source source_of(const json& entry) {
  const auto text = [&](size_t at) {
    return at < entry.size() ? engine::json_bytes(entry.at(at).get<std::string>()) : std::string();
  };
  return {text(0), text(1), text(2), text(3)};
}

}  // namespace

bool is_engine_file(const std::string& path) {
  char head[sizeof engine::magic] = {};
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;  // opening a pipe would wait for a writer
  std::ifstream file(path, std::ios::binary);
  return file.read(head, sizeof head) && std::memcmp(head, engine::magic, sizeof head) == 0;
}

Engine Engine::load(const std::string& path) {
  const auto file = MappedFile::open(path);
  const auto sections = sections_of(file->bytes(), path);
  auto impl = std::make_shared<Engine::Impl>();
  plan::Plan& plan = impl->plan;
  try {
    const json table = json::parse(text_of(sections.at("pool")));
    plan.graph = graph_of(text_of(sections.at("graph")), pool_of(table, sections.at("data"), path, file), path);
    const json content = json::parse(text_of(sections.at("plan")));
    for (const auto& [name, sizes] : content.at("shapes").items())
      plan.shapes[engine::json_bytes(name)] = sizes.get<std::vector<int64_t>>();
    plan.threads = content.at("threads").get<int>();
    plan.strict = content.at("strict").get<bool>();
    plan.vendor = content.value("vendor", true);
    plan.isa = content.at("isa").get<std::string>();
    plan.device = content.value("device", "cpu");
    plan.precision = content.value("precision", "fp32");
    plan.bf16 = content.value("bf16", plan.precision == "bf16");
    for (const auto& [key, entry] : content.at("records").items())
      plan.records[engine::json_bytes(key)] = record_of(entry);
    if (const auto why = sections.find("why"); why != sections.end()) {
      const json told = json::parse(text_of(why->second));
      for (const json& entry : told.at("sources")) plan.sources.push_back(source_of(entry));
      if (told.contains("evidence")) plan.evidence = plan::evidence_of(told["evidence"]);
    }
    if (plan.threads < 1 || plan.threads > 1024) corrupt(path, "its thread count makes no sense");
  } catch (const json::exception& error) {
    corrupt(path, error.what());
  }
  return Engine(std::move(impl));
}

}  // namespace tenon
