// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

namespace tenon::test {

/// A folder under /tmp that goes with the object.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  void write(const std::string& name, const std::string& bytes) const;

 private:
  std::string path_;
};

std::string read_text(const std::string& path);

struct Outcome {
  int status = -1;  // exit status, or -signal
  std::string out, err;
  long peak_kib = 0;
};

/// Runs the `tenon` command in a folder, with no standard input; killed (-9) after `seconds` of processor time.
Outcome run_tenon(const Folder& folder, const std::vector<std::string>& words, int seconds = 60);

}  // namespace tenon::test
