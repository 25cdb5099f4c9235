// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tenon.hpp>

#include <map>
#include <string>
#include <vector>

#include "cli/flags.h"

namespace tenon::cli {

/// Adds --input, whose words go to `words`.
void add_inputs(Flags& flags, std::vector<std::string>& words, const char* says);
/// The arrays of words NAME=FILE, or FILE where the model has one input, by the names of inputs. Throws Error.
std::map<std::string, Tensor> read_inputs(const std::vector<std::string>& words, const std::vector<TensorInfo>& infos);
/// Throws Error(usage) for the first input that is not there.
void want_all(const std::map<std::string, Tensor>& inputs, const std::vector<TensorInfo>& infos);

}  // namespace tenon::cli
