// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "cases.h"

namespace tenon::errors {

using namespace test;

namespace {

std::string entry(const char* key, const std::string& value) { return field(13, field(1, key) + field(2, value)); }

/// A model whose 16 bytes of weights lie elsewhere.
std::string outside(const std::string& location, const std::string& more = "") {
  return model(
      input("x", {1, 4}) +
      field(5, field(1, 4) + field(2, f32) + field(8, "w") + entry("location", location) + more + field(14, 1)) +
      node("a", "Add", {"x", "w"}, {"y"}) + output("y"));
}

/// folder/model/m.onnx, with folder/model/data.bin beside it and folder/secret.bin above.
Case external(
    const std::string& name, const std::string& bytes,
    std::function<void(const Folder&)> prepare = [](const Folder&) {}, std::vector<std::string> more = {}) {
  std::vector<std::string> words{"build", "model/m.onnx",   "-o", "m.tenon", "-q", "--budget",
                                 "0",     "--timing-cache", "-"};
  words.insert(words.end(), more.begin(), more.end());
  const auto all = [bytes, prepare](const Folder& folder) {
    std::filesystem::create_directory(folder / "model");
    folder.write("model/data.bin", std::string(64, '\0'));
    folder.write("secret.bin", std::string(64, '\0'));
    folder.write("model/m.onnx", bytes);
    prepare(folder);
  };
  return {name, all, words};
}

void link_to(const Folder& folder, const char* target, const char* name) {
  ::symlink(target, (folder / name).c_str()) == 0 ? void() : ::_exit(1);
}

/// As the Hugging Face cache lies: snapshots/1/m.onnx and its data are links into blobs/.
void hub(const Folder& folder) {
  std::filesystem::create_directories(folder / "blobs");
  std::filesystem::rename(folder / "model/m.onnx", folder / "blobs/1111");
  std::filesystem::rename(folder / "model/data.bin", folder / "blobs/2222");
  link_to(folder, "../blobs/1111", "model/m.onnx");
}

}  // namespace

std::vector<Case> external_cases() {
  return {
      external("4.external.inside", outside("data.bin")),
      external("4.external.parent", outside("../secret.bin")),
      external("4.external.parent_in_the_middle", outside("sub/../../secret.bin")),
      external("4.external.absolute", outside("/etc/passwd")),
      external("4.external.empty", outside("")),
      external("4.external.zero_byte", outside(std::string("data.bin\0x", 10))),
      external("4.external.missing", outside("gone.bin")),
      external("4.external.link", outside("link.bin"),
               [](const Folder& folder) { link_to(folder, "../secret.bin", "model/link.bin"); }),
      external("4.external.link_inside", outside("link.bin"),
               [](const Folder& folder) { link_to(folder, "data.bin", "model/link.bin"); }),
      external("4.external.linked_folder", outside("sub/secret.bin"),
               [](const Folder& folder) { link_to(folder, "..", "model/sub"); }),
      external("4.external.hard_link", outside("hard.bin"),
               [](const Folder& folder) {
                 std::filesystem::create_hard_link(folder / "secret.bin", folder / "model/hard.bin");
               }),
      external("4.external.pipe", outside("pipe"),
               [](const Folder& folder) { ::mkfifo((folder / "model/pipe").c_str(), 0600); }),
      external("4.external.folder", outside("sub"),
               [](const Folder& folder) { std::filesystem::create_directory(folder / "model/sub"); }),
      external("4.external.ends_early", outside("data.bin", entry("offset", "56"))),
      external("4.external.offset_overflows", outside("data.bin", entry("offset", "9223372036854775807"))),
      external("4.external.offset_too_long", outside("data.bin", entry("offset", "92233720368547758070"))),
      external("4.external.offset_negative", outside("data.bin", entry("offset", "-4"))),
      external("4.external.length_differs", outside("data.bin", entry("length", "20"))),
      external("4.external.hub", outside("data.bin"),
               [](const Folder& folder) {
                 hub(folder);
                 link_to(folder, "../blobs/2222", "model/data.bin");
               }),
      external("4.external.hub_link_elsewhere", outside("data.bin"),
               [](const Folder& folder) {
                 hub(folder);
                 link_to(folder, "../secret.bin", "model/data.bin");
               }),
      external("4.external.hub_parent", outside("../blobs/2222"), hub),
      external("4.external.root_allows", outside("../secret.bin"), [](const Folder&) {}, {"--external-root", "."}),
      external("4.external.root_allows_absolute_only_inside", outside("/etc/passwd"), [](const Folder&) {},
               {"--external-root", "."}),
  };
}

}  // namespace tenon::errors
