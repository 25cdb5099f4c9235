// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include "cases.h"

namespace tenon::errors {

using namespace test;
using namespace std::string_literals;

namespace {

const std::string relu = model(input("x", {1, 4}) + node("r", "Relu", {"x"}, {"y"}) + output("y"));

/// A graph in an attribute of a node of a graph, and so on.
std::string nested(int levels) {
  std::string body;
  for (int level = 0; level < levels; ++level) body = node("n", "If", {"c"}, {"y"}, graph("then_branch", body));
  return model(body);
}

Case at_path(
    const std::string& name, const std::string& path,
    std::function<void(const Folder&)> prepare = [](const Folder&) {}) {
  return {name, std::move(prepare), {"build", path, "-o", "m.tenon", "-q"}};
}

}  // namespace

std::vector<Case> wire_cases() {
  return {
      building("1.wire.cut", relu.substr(0, relu.size() - 3)),
      building("1.wire.length_too_long", "\x3a\x7f"s),
      building("1.wire.cut_number", "\x08\xff"s),
      building("1.wire.overlong_number", "\x08"s + std::string(12, '\xff')),
      building("1.wire.number_over_64_bits", "\x08"s + std::string(9, '\xff') + "\x7f"),
      building("1.wire.group", field(1, 8) + "\x3b\x3c"s),
      building("1.wire.wrong_type", field(1, 8) + field(7, 5)),
      building("1.wire.field_0", field(1, 8) + "\x00\x01"s),
      building("1.wire.too_deep", nested(40)),
      building("1.wire.broken_floats", model(field(5, field(8, "w") + field(4, "abcde")))),
      building("1.wire.too_many_messages", model([] {
                 std::string nodes;
                 for (int count = 0; count < 5'000'000; ++count) nodes += "\x0a\x00"s;
                 return nodes;
               }())),
      building("1.wire.attribute_without_value",
               model(input("x", {1}) + node("r", "Relu", {"x"}, {"y"}, field(5, field(1, "alpha") + field(20, 4))) +
                     output("y"))),
      // Numbers where integers are stated: they would be left out, and the default be taken.
      building("1.wire.attribute_of_two_types",
               model(input("x", {1, 1, 4, 4}) +
                     node("r", "GlobalLpPool", {"x"}, {"y"},
                          field(5, field(1, "p") + "\x15" + raw<float>({7}) + field(20, 2))) +
                     output("y"))),

      building("2.file.empty", ""),
      building("2.file.zip", "PK\x03\x04 archive.pt"s),
      building("2.file.pickle", "\x80\x02}q\0."s),
      building("2.file.html", "<!DOCTYPE html><html><body>404</body></html>"),
      building("2.file.json", "{\"message\": \"not found\"}"),
      building("2.file.lfs_pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"),
      building("2.file.jpeg", "\xff\xd8\xff\xe0\0\x10JFIF"s),
      building("2.file.gguf", "GGUF\x03\0\0\0"s),
      building("2.file.zeros", std::string(100, '\0')),
      building("2.file.words", "this is not a model"),
      building("2.file.no_graph", field(1, 8) + field(8, field(2, 17))),
      at_path("2.path.missing", "missing.onnx"),
      at_path("2.path.folder", "."),
      at_path("2.path.device", "/dev/zero"),
      at_path("2.path.pipe", "pipe", [](const Folder& folder) { ::mkfifo((folder / "pipe").c_str(), 0600); }),
      {"2.path.output_folder_missing",
       [](const Folder& folder) { folder.write("m.onnx", relu); },
       {"build", "m.onnx", "-o", "none/m.tenon", "-q", "--timing-cache", "-"}},
      {"2.path.output_is_folder",
       [](const Folder& folder) { folder.write("m.onnx", relu); },
       {"build", "m.onnx", "-o", ".", "-q", "--timing-cache", "-"}},
      {"2.path.standard_input_empty", [](const Folder&) {}, {"build", "-", "-o", "m.tenon", "-q"}},
  };
}

}  // namespace tenon::errors
