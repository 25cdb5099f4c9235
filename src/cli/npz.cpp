// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <tenon/error.h>
#include <zlib.h>

#include <optional>
#include <vector>

#include "base/counted.h"
#include "cli/npy.h"

/// .npz is a zip archive of .npy files, stored or deflated (PKWARE APPNOTE 4.3).
namespace tenon::cli {

namespace {
constexpr uint32_t end_signature = 0x06054b50, central_signature = 0x02014b50, local_signature = 0x04034b50;
constexpr uint64_t stored = 0, deflated = 8;
constexpr size_t end_bytes = 22, central_bytes = 46, local_bytes = 30, longest_comment = 65535;

class Archive {
 public:
  Archive(std::span<const uint8_t> bytes, const std::string& name) : bytes_(bytes), name_(name) {}
  uint64_t field(size_t at, size_t width) const {
    if (at > bytes_.size() || width > bytes_.size() - at) fail("it is cut off");
    uint64_t value = 0;
    for (size_t byte = 0; byte < width; ++byte) value |= uint64_t{bytes_[at + byte]} << (8 * byte);
    return value;
  }
  std::span<const uint8_t> slice(uint64_t at, uint64_t size) const {
    if (at > bytes_.size() || size > bytes_.size() - at) fail("an entry lies outside of it");
    return bytes_.subspan(at, size);
  }
  size_t end_record() const {
    const size_t lowest = bytes_.size() > end_bytes + longest_comment ? bytes_.size() - end_bytes - longest_comment : 0;
    for (size_t at = bytes_.size() < end_bytes ? 0 : bytes_.size() - end_bytes + 1; at-- > lowest;)
      if (field(at, 4) == end_signature) return at;
    fail("it has no directory");
  }
  /// `size` is what the directory says; the data must give just as much.
  std::vector<uint8_t> inflated(std::span<const uint8_t> packed, uint64_t size) const {
    constexpr uint64_t largest_ratio = 1100;  // no deflated data grows by more
    if (size > (packed.size() + 1) * largest_ratio) fail("an entry tells a size that it cannot have");
    std::vector<uint8_t> bytes(size);
    z_stream stream{};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw Error(Code::resource, "not enough memory", {.where = name_});
    stream.next_in = const_cast<Bytef*>(packed.data());
    stream.avail_in = static_cast<uInt>(packed.size());
    stream.next_out = bytes.data();
    stream.avail_out = static_cast<uInt>(bytes.size());
    const int status = inflate(&stream, Z_FINISH);
    const bool whole = status == Z_STREAM_END && stream.total_out == size;
    inflateEnd(&stream);
    if (!whole) fail("an entry's compressed data is damaged");
    return bytes;
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw Error(Code::io, "not a readable .npz archive", {.where = name_, .why = why});
  }

 private:
  std::span<const uint8_t> bytes_;
  const std::string& name_;
};
}  // namespace

Tensor parse_npz(std::span<const uint8_t> bytes, const std::string& key, const std::string& name) {
  const Archive archive(bytes, name);
  const size_t end = archive.end_record();
  const uint64_t entries = archive.field(end + 10, 2);
  if (key.empty() && entries != 1)
    throw Error(Code::usage, "the archive holds " + counted(entries, "array"),
                {.where = name, .hint = "name one, as in input=file.npz:key"});
  uint64_t at = archive.field(end + 16, 4);
  std::string keys;
  for (uint64_t entry = 0; entry < entries; ++entry) {
    if (archive.field(at, 4) != central_signature) archive.fail("its directory is broken");
    const uint64_t name_size = archive.field(at + 28, 2);
    const auto name_bytes = archive.slice(at + central_bytes, name_size);
    std::string entry_key(name_bytes.begin(), name_bytes.end());
    if (entry_key.ends_with(".npy")) entry_key.resize(entry_key.size() - 4);
    if (key.empty() || entry_key == key) {
      const uint64_t method = archive.field(at + 10, 2);
      if (method != stored && method != deflated)
        throw Error(Code::unsupported, fmt::format("the archive is compressed by method {}", method),
                    {.where = name, .hint = "save it with numpy.savez or numpy.savez_compressed"});
      const uint64_t local = archive.field(at + 42, 4);
      if (archive.field(local, 4) != local_signature) archive.fail("an entry is broken");
      const uint64_t data = local + local_bytes + archive.field(local + 26, 2) + archive.field(local + 28, 2);
      const auto packed = archive.slice(data, archive.field(at + 20, 4));
      const std::string entry_name = name + ":" + entry_key;
      if (method == stored) return parse_npy(packed, entry_name);
      return parse_npy(archive.inflated(packed, archive.field(at + 24, 4)), entry_name);
    }
    keys += (keys.empty() ? "" : ", ") + entry_key;
    at += central_bytes + name_size + archive.field(at + 30, 2) + archive.field(at + 32, 2);
  }
  throw Error(Code::usage, fmt::format("the archive has no array \"{}\"", key),
              {.where = name, .hint = "it has " + keys});
}

}  // namespace tenon::cli
