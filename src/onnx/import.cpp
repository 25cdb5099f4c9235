// SPDX-License-Identifier: Apache-2.0
#include "onnx/import.h"

#include "base/file.h"
#include "base/pages.h"
#include "onnx/convert.h"
#include "onnx/importer.h"
#include "onnx/sniff.h"
#include "ops/op.h"
#include "tenon/error.h"

namespace tenon::onnx {
namespace {

constexpr int64_t newest_opset = 25;

void refuse_missing(const Job& job) {
  if (job.missing.empty()) return;
  std::string list;
  for (const auto& [op, missing] : job.missing) {
    list += (list.empty() ? "" : "; ") + op + " x" + std::to_string(missing.count) + " (";
    for (size_t at = 0; at < missing.nodes.size(); ++at) list += (at ? ", '" : "'") + missing.nodes[at] + "'";
    list += missing.count > missing.nodes.size() ? ", ...)" : ")";
    for (const std::string& reason : missing.reasons) list += ", " + reason;
  }
  throw Error(Code::unsupported, "the model uses operators that are not supported",
              {.where = job.source.file, .why = list});
}

ModelProto parse(Bytes bytes, const std::string& name) {
  try {
    ModelProto model = parse_model(bytes, name);
    if (model.has_graph) return model;
  } catch (const Error&) {
    if (looks_like(bytes).empty()) throw;
  }
  const std::string kind = looks_like(bytes);
  throw Error(Code::invalid_model, "not an ONNX file",
              {.where = name, .why = kind.empty() ? "it holds no graph" : "it looks like " + kind});
}

void refuse_internal(const Opsets& opsets, const Job& job) {
  if (opsets.count(ir::OpId::internal_domain))
    job.fail("the model imports an opset of the domain '" + std::string(ir::OpId::internal_domain) + "'",
             "it is reserved for Tenon itself");
}

/// Functions can neither add ops of ours nor override those of the standard.
void refuse_domain(const FunctionProto& function, const Job& job) {
  refuse_internal(function.opsets, job);
  const std::string name = "function '" + std::string(function.name) + "'";
  for (const std::string_view text : {function.domain, function.name})
    if (text.find(':') != std::string_view::npos)
      job.fail("a function has an invalid name",
               name + ": there is a ':' in it or its domain '" + std::string(function.domain) + "'");
  if (function.domain == ir::OpId::internal_domain)
    job.fail("a function has a domain that is reserved for Tenon itself", name);
  const ir::OpId op(function.domain, function.name);
  if (function.domain.empty() && (attributes_of(op) || find_conversion(op)))
    job.fail("a function overrides an operator of the standard", name);
}

/// Inference begins anew when sizes of inputs are chosen.
void forget_types(ir::Graph& graph) {
  for (ir::Value& value : graph.values) {
    if (value.producer == ir::no_node) continue;
    value.dtype = DType::undefined;
    value.shape.reset();
    value.content.reset();
  }
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

ir::Graph graph_of(Bytes bytes, std::shared_ptr<ExternalData> external, const std::string& name,
                   std::shared_ptr<const void> keep, const ImportOptions& options) {
  const ModelProto model = parse(bytes, name);
  Job job;
  job.source = {name, std::move(keep), std::move(external)};
  job.options = options;
  if (!job.options.knows) job.options.knows = [](const ir::OpId& op) { return ops::find(op) != nullptr; };
  job.opsets = model.opsets;
  const auto opset = model.opsets.find("");
  if (opset != model.opsets.end() && opset->second < 1)
    job.fail("the opset does not exist", "opset " + std::to_string(opset->second));
  if (opset != model.opsets.end() && opset->second > newest_opset)
    throw Error(
        Code::unsupported, "the model's opset is too new",
        {.where = name,
         .why = "opset " + std::to_string(opset->second) + ", the newest known is " + std::to_string(newest_opset),
         .hint = "convert it with onnx.version_converter"});
  refuse_internal(model.opsets, job);
  for (const FunctionProto& function : model.functions) {
    refuse_domain(function, job);
    const std::string key =
        std::string(function.domain) + ":" + std::string(function.name) + ":" + std::string(function.overload);
    if (!job.functions.emplace(key, &function).second)
      job.fail("a function is given twice", "function '" + std::string(function.name) + "'");
  }
  ir::Graph graph;
  job.main = &graph;
  Scope scope{job, graph, job.opsets, "", nullptr, {}, {}, {}};
  import_inputs(model.graph, scope, true);
  refuse_unfolding(model.graph, job);
  import_body(model.graph, scope);
  refuse_missing(job);
  forget_types(graph);
  if (options.nodes) *options.nodes = std::move(job.listed);
  for (const auto& [key, value] : model.metadata) graph.metadata[std::string(key)] = std::string(value);
  return graph;
}

/// The same, of files that nobody wrote to meanwhile. `file`: that the bytes are of; null: `keep` holds them.
ir::Graph import(Bytes bytes, const std::shared_ptr<ExternalData>& external, const std::string& name,
                 const std::shared_ptr<const MappedFile>& file, std::shared_ptr<const void> keep,
                 const ImportOptions& options) {
  const auto files = [&] {
    Files all = external->files();
    if (file) all.push_back(file);
    return all;
  };
  try {
    ir::Graph graph = graph_of(bytes, external, name, file ? file : std::move(keep), options);
    check(files());
    // Where the system maps a file in large pages, a few bytes that were read hold much.
    for (const auto& one : files()) release_pages(one->bytes().data(), one->bytes().size());
    if (options.files)
      for (const auto& one : files()) options.files->push_back(one);
    return graph;
  } catch (const Error&) {
    check(files());
    throw;
  }
}

}  // namespace

ir::Graph import_bytes(std::span<const std::byte> bytes, const std::string& folder, const std::string& name,
                       std::shared_ptr<const void> keep, const ImportOptions& options) {
  return import(bytes, std::make_shared<ExternalData>(folder), name, nullptr, std::move(keep), options);
}

ir::Graph import_file(const std::string& path, const ImportOptions& options) {
  const auto file = MappedFile::open(path);
  const auto external = std::make_shared<ExternalData>(folder_of(path), path, options.external_root);
  return import(file->bytes(), external, path, file, nullptr, options);
}

}  // namespace tenon::onnx
