// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

/// Which memory is the pages of a file, so that it can be given back and is read again where it is touched again.
namespace tenon {

/// `data` is the whole of a file that is mapped to be read; forget_pages() before it is unmapped. Thread-safe.
void note_pages(const void* data, size_t bytes);
void forget_pages(const void* data) noexcept;

/// Whether that memory is a file's, which other processes may write to. Thread-safe.
bool is_of_file(const void* data, size_t bytes) noexcept;

/// Gives pages of files back to the system; other memory stays as it is. Their bytes stay where they are: whoever
/// touches them reads them from the file again. For what is read once, as weights that are then packed. Thread-safe.
void release_pages(const void* data, size_t bytes) noexcept;

}  // namespace tenon
