// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>

#include "base/file.h"

namespace tenon {

/// What an open file holds: of a regular file all of it, whatever its position; anything else is read to its end. The
/// descriptor stays open. `name` is used in messages. Throws Error(io), and Error(resource) where it is more than the
/// limit of memory.
std::shared_ptr<const MappedFile> open_file(int descriptor, const std::string& name);

}  // namespace tenon
