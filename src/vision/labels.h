// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tenon::vision {

/// Class names by id from a model's "names" entry, Python text such as {0: 'person', 1: 'bicycle'} or ['person',
/// 'bicycle']. Ids without a name get "". Throws Error(invalid_model) where the text cannot be read.
std::vector<std::string> labels_from_metadata(std::string_view text);

/// One name a line; blank lines at the end do not count. Throws Error(io).
std::vector<std::string> labels_from_file(const std::string& path);

/// The name of a class, or its number where it has none.
std::string label(const std::vector<std::string>& labels, int class_id);

}  // namespace tenon::vision
