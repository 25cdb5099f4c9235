// SPDX-License-Identifier: Apache-2.0
#include "cli/inputs.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/arrays.h"
#include "cli/print.h"

namespace tenon::cli {
namespace {

std::string list(const std::vector<TensorInfo>& infos) {
  std::string text;
  for (const TensorInfo& info : infos)
    text += fmt::format("{}{} {} {}", text.empty() ? "" : ", ", printable(info.name), name(info.dtype),
                        shape_text(info.shape));
  return text;
}

void put(std::map<std::string, Tensor>& inputs, const TensorInfo& info, const std::string& path,
         const std::string& word) {
  if (inputs.count(info.name))
    throw Error(Code::usage, "input \"" + printable(info.name) + "\" is given twice",
                {.where = "--input " + word, .hint = "give each input once"});
  inputs[info.name] = cast_to_input(read_array(path, info.dtype), info.dtype, path);
}

}  // namespace

void add_inputs(Flags& flags, std::vector<std::string>& words, const char* says) {
  flags.add("-i,--input", words, says).value("NAME=FILE").reads_array().one_each();
}

std::map<std::string, Tensor> read_inputs(const std::vector<std::string>& words, const std::vector<TensorInfo>& infos) {
  std::map<std::string, Tensor> inputs;
  for (const std::string& word : words) {
    auto named = infos.end();
    size_t equals = word.find('=');
    for (; equals != std::string::npos && named == infos.end();
         equals = named == infos.end() ? word.find('=', equals + 1) : equals)
      named = std::find_if(infos.begin(), infos.end(),
                           [&](const TensorInfo& info) { return info.name == word.substr(0, equals); });
    if (named == infos.end() && infos.size() == 1 && word.find('=') == std::string::npos) {
      put(inputs, infos[0], word, word);
      continue;
    }
    if (named == infos.end())
      throw Error(Code::usage, "the model has no input of this name",
                  {.where = "--input " + word, .hint = "write NAME=FILE; its inputs are " + list(infos)});
    put(inputs, *named, word.substr(named->name.size() + 1), word);
  }
  return inputs;
}

void want_all(const std::map<std::string, Tensor>& inputs, const std::vector<TensorInfo>& infos) {
  for (const TensorInfo& info : infos)
    if (!inputs.count(info.name))
      throw Error(Code::usage, "input \"" + printable(info.name) + "\" is missing",
                  {.hint = "give --input NAME=FILE for each of " + list(infos)});
}

}  // namespace tenon::cli
