#pragma once
#include <tenon/buffer.h>

#include <string>

namespace tenon {

/// What an open file holds: a regular file is mapped whole, whatever its position, anything else is read to its end.
/// The descriptor stays open. `name` is used in messages. Throws Error(io), and Error(resource) where it is more than
/// the limit of memory.
Buffer bytes_of_descriptor(int descriptor, const std::string& name);

}  // namespace tenon
