// SPDX-License-Identifier: Apache-2.0
#include <tenon/error.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/checked.h"
#include "base/counted.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/open_file.h"
#include "base/thread_pool.h"
#include "engine/engine.h"
#include "engine/format.h"
#include "engine/steps.h"
#include "ops/op.h"
#include "ops/verify.h"

namespace tenon {
namespace {

using nlohmann::json;

constexpr const char* in_memory = "an engine in memory";

[[noreturn]] void corrupt(const std::string& path, const std::string& why) {
  throw Error(Code::bad_engine, "the engine is damaged",
              {.where = path, .why = why, .hint = "copy it again, or build it from its model"});
}

/// A part of the file; text that is parsed is a copy that no other process reaches.
struct Section {
  uint64_t offset = 0, bytes = 0;
  std::string text;
};

constexpr const char* tensors = "data";

std::map<std::string, Section> sections_of(const MappedFile& file, const std::string& path) {
  const size_t size = file.bytes().size();
  engine::Header header;
  if (size < sizeof header) corrupt(path, "it ends inside the header");
  file.read(0, std::as_writable_bytes(std::span(&header, 1)));
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
  if (header.file_bytes != size)
    corrupt(path, "it has " + counted(size, "byte") + " and should have " + std::to_string(header.file_bytes));
  if (header.version != engine::version || header.sections > engine::max_sections)
    corrupt(path, "the header makes no sense");
  const uint64_t head = engine::aligned(sizeof header + header.sections * sizeof(engine::Section));
  if (head > size) corrupt(path, "it ends inside the table of sections");
  std::vector<std::byte> copy(head);
  file.read(0, copy);
  std::memset(copy.data() + offsetof(engine::Header, hash), 0, sizeof header.hash);
  if (hash64(copy) != header.hash) corrupt(path, "the header's hash does not match");
  std::map<std::string, Section> sections;
  uint64_t expected = head;
  for (uint32_t at = 0; at < header.sections; ++at) {
    engine::Section section;
    std::memcpy(&section, copy.data() + sizeof header + at * sizeof section, sizeof section);
    section.name[sizeof section.name - 1] = 0;
    if (section.offset != expected || section.bytes > size || engine::aligned(section.bytes) > size - section.offset)
      corrupt(path, "section \"" + std::string(section.name) + "\" lies outside the file");
    expected += engine::aligned(section.bytes);
    const bool parsed = std::string_view(section.name) != tensors;
    std::string text(parsed ? engine::aligned(section.bytes) : 0, '\0');
    file.read(section.offset, std::as_writable_bytes(std::span(text)));
    const uint64_t hash =
        parsed ? hash64(std::as_bytes(std::span(text))) : file.hash(section.offset, engine::aligned(section.bytes));
    if (hash != section.hash) corrupt(path, "the hash of section \"" + std::string(section.name) + "\" does not match");
    text.resize(parsed ? section.bytes : 0);
    sections[section.name] = {section.offset, section.bytes, std::move(text)};
  }
  if (expected != size) corrupt(path, "bytes follow the last section");
  for (const char* name : {"plan", "graph", "pool", "steps", tensors})
    if (!sections.count(name)) corrupt(path, std::string("section \"") + name + "\" is missing");
  return sections;
}

/// Constants that steer what kernels do, as indices and shapes: of a file that others may write to they are copied.
bool steers(const Tensor& tensor) {
  constexpr size_t small = size_t{64} << 10;
  return tensor.bytes() <= small || tensor.dtype() == DType::i32 || tensor.dtype() == DType::i64;
}

std::vector<Tensor> pool_of(const json& table, const Section& section, const std::shared_ptr<const MappedFile>& file) {
  const std::string& path = file->path();
  const auto data = file->bytes().subspan(section.offset, section.bytes);
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
    if (file->is_shared() && steers(tensor)) {
      Tensor copy(*type, dims);
      file->read(section.offset + offset, {copy.data<std::byte>(), copy.bytes()});
      pool.push_back(std::move(copy));
    } else {
      pool.push_back(Tensor::view(*type, dims, const_cast<std::byte*>(data.data() + offset), file));
    }
  }
  return pool;
}

/// An op of another domain than those of ONNX and Tenon is a plugin's.
void want_plugins(const ir::Graph& graph, const std::string& path) {
  for (const ir::Node& node : graph.nodes)
    if (!node.op.domain().empty() && !node.op.is_internal() && !ops::find(node.op))
      throw Error(Code::unsupported, "the engine needs the plugin of an op",
                  {.where = path,
                   .why = "op " + node.op + ", node " + node.label(),
                   .hint = "load the plugin first (--plugin)",
                   .node = node.label()});
}

/// The graph, checked as one from a model is: files can be made by hand, with hashes that are right.
ir::Graph graph_of(std::string_view text, const std::vector<Tensor>& pool, const std::string& path) {
  try {
    ir::Graph graph = ir::parse(text, pool);
    ir::verify(graph);
    graph.tidy();
    want_plugins(graph, path);
    ops::verify(graph);
    for (const ir::ValueId input : graph.inputs)
      if (graph.value(input).dtype == DType::undefined)
        throw Error(Code::invalid_model, "input \"" + graph.value(input).name + "\" has no element type");
    ops::infer(graph);
    return graph;
  } catch (const Error& error) {
    if (error.code() == Code::resource || error.where() == path) throw;
    std::string why = error.what();
    for (const std::string& more : {error.where(), error.why()})
      if (!more.empty()) why += ", " + more;
    corrupt(path, why);
  } catch (const std::logic_error& error) {
    corrupt(path, error.what());
  }
}

/// [kernel, microseconds, candidate, microseconds, …]
plan::Record record_of(const json& entry) {
  plan::Record record{entry.at(0).get<std::string>(), entry.at(1).get<double>()};
  for (size_t at = 2; at + 1 < entry.size(); at += 2)
    record.candidates.push_back({entry.at(at).get<std::string>(), entry.at(at + 1).get<double>()});
  return record;
}

/// [name, op, fate, next node]; the last two where there are any.
plan::Source source_of(const json& entry) {
  const auto text = [&](size_t at) {
    return at < entry.size() ? engine::json_bytes(entry.at(at).get<std::string>()) : std::string();
  };
  return {text(0), text(1), text(2), text(3)};
}

void read_goal(const json& content, plan::Plan& plan, const std::string& path) {
  plan.device = content.value("device", "cpu");
  plan.goal.strict = content.at("strict").get<bool>();
  plan.goal.vendor = content.value("vendor", true);
  plan.goal.isa = content.at("isa").get<std::string>();
  const auto text = content.value("precision", "fp32");
  const std::optional<Precision> precision = precision_named(text);
  if (!precision || precision == Precision::best) corrupt(path, "no precision is called \"" + text + "\"");
  plan.goal.precision = *precision;
  plan.goal.rounds_to_bf16 = content.value("bf16", precision == Precision::bf16);
}

/// The plan in an engine's bytes, which its constants refer to.
plan::Plan read(const std::shared_ptr<const MappedFile>& file) {
  const std::string& path = file->path();
  const auto sections = sections_of(*file, path);
  plan::Plan plan;
  try {
    const json table = json::parse(sections.at("pool").text);
    plan.graph = graph_of(sections.at("graph").text, pool_of(table, sections.at(tensors), file), path);
    const json content = json::parse(sections.at("plan").text);
    for (const auto& [name, sizes] : content.at("shapes").items())
      plan.shapes[engine::json_bytes(name)] = sizes.get<std::vector<int64_t>>();
    plan.threads = content.at("threads").get<int>();
    read_goal(content, plan, path);
    for (const auto& [key, entry] : content.at("records").items())
      plan.records[engine::json_bytes(key)] = record_of(entry);
    try {
      engine::read_steps(json::parse(sections.at("steps").text), plan);
    } catch (const std::logic_error& error) {
      corrupt(path, error.what());
    } catch (const Error& error) {
      corrupt(path, error.what() + (error.why().empty() ? "" : ", " + error.why()));
    }
    if (const auto why = sections.find("why"); why != sections.end()) {
      const json told = json::parse(why->second.text);
      for (const json& entry : told.at("sources")) plan.sources.push_back(source_of(entry));
      if (told.contains("evidence")) plan.evidence = plan::evidence_of(told["evidence"]);
    }
    if (plan.threads < 1 || plan.threads > ThreadPool::most_threads) corrupt(path, "its thread count makes no sense");
  } catch (const json::exception& error) {
    corrupt(path, error.what());
  }
  return plan;
}

/// An engine of the file that `open` gives; `path` is used in messages.
template <class Open>
Engine loaded(const Open& open, const std::string& path, const LoadOptions& options) try {
  const auto budget = Budget::of(options.limits);
  const BudgetScope scope(budget);
  const std::shared_ptr<const MappedFile> file = open();
  const auto impl =
      std::make_shared<EngineAccess::Impl>(EngineAccess::Impl{.plan = of_whole({file}, [&] { return read(file); }),
                                                              .files = {file},
                                                              .logger = options.logger,
                                                              .budget = budget});
  const plan::Plan& plan = impl->plan;
  options.logger.log(Severity::info, path + ": " + memory_text(static_cast<int64_t>(file->bytes().size())) + ", for " +
                                         plan.device.str() + " in " + std::string(name(plan.goal.precision)) + ", " +
                                         counted(plan.graph.nodes.size(), "node"));
  return EngineAccess::make(impl);
} catch (const Error& error) {
  options.logger.log(Severity::error, error.text());
  throw;
}

/// The same of memory, which is copied where it is not aligned.
Engine loaded_bytes(const Buffer& bytes, const std::string& path, const LoadOptions& options) {
  const auto open = [&] {
    const bool aligned = reinterpret_cast<uintptr_t>(bytes.data()) % Buffer::alignment == 0;
    return MappedFile::view(aligned ? bytes : Buffer::copy(bytes.bytes()), path);
  };
  return loaded(open, path, options);
}

}  // namespace

bool is_engine_file(const std::string& path) {
  char head[sizeof engine::magic] = {};
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;  // opening a pipe would wait for a writer
  std::ifstream file(path, std::ios::binary);
  return file.read(head, sizeof head) && std::memcmp(head, engine::magic, sizeof head) == 0;
}

Engine Engine::load(const std::string& path, const LoadOptions& options) {
  return loaded([&] { return MappedFile::open(path); }, path, options);
}

Engine Engine::load(const Buffer& engine, const LoadOptions& options) {
  return loaded_bytes(engine, in_memory, options);
}

Engine Engine::load(std::span<const std::byte> engine, const LoadOptions& options) {
  return loaded([&] { return MappedFile::view(Buffer::copy(engine), in_memory); }, in_memory, options);
}

Engine Engine::load_fd(int descriptor, const LoadOptions& options) {
  const std::string name = "file descriptor " + std::to_string(descriptor);
  return loaded([&] { return open_file(descriptor, name); }, name, options);
}

}  // namespace tenon
