// SPDX-License-Identifier: Apache-2.0
#include "cubin.h"

#include <elf.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace tenon::ptx_emulator {
namespace {

/// Tags of the lists in .nv.info.
constexpr int most_threads_tag = 0x05, stack_tag = 0x11, registers_tag = 0x2f, cluster_tag = 0x3d;
constexpr int sized_value = 4;
/// Of each block, for the system, beyond what a block may have; listed from compute capability 9.0 on.
constexpr int reserved_shared_bytes = 1024;

struct Elf {
  explicit Elf(const char* bytes) : base(bytes), header(reinterpret_cast<const Elf64_Ehdr*>(bytes)) {
    sections = reinterpret_cast<const Elf64_Shdr*>(base + header->e_shoff);
    for (int at = 0; at < header->e_shnum; ++at)
      if (sections[at].sh_type == SHT_SYMTAB) {
        symbols = reinterpret_cast<const Elf64_Sym*>(base + sections[at].sh_offset);
        symbol_count = sections[at].sh_size / sizeof(Elf64_Sym);
        symbol_names = base + sections[sections[at].sh_link].sh_offset;
      }
  }
  std::string name(const Elf64_Shdr& section) const {
    return base + sections[header->e_shstrndx].sh_offset + section.sh_name;
  }
  std::string symbol_name(uint32_t at) const { return symbol_names + symbols[at].st_name; }

  const char* base;
  const Elf64_Ehdr* header;
  const Elf64_Shdr* sections;
  const Elf64_Sym* symbols = nullptr;
  const char* symbol_names = nullptr;
  size_t symbol_count = 0;
};

/// Calls `with` the tag and its numbers for each entry: a byte of form, one of tag, two of size or value.
template <class With>
void for_entries(const Elf& elf, const Elf64_Shdr& section, const With& with) {
  const char* at = elf.base + section.sh_offset;
  const char* end = at + section.sh_size;
  while (at + 4 <= end) {
    const auto form = static_cast<uint8_t>(at[0]), tag = static_cast<uint8_t>(at[1]);
    uint16_t size = 0;
    std::memcpy(&size, at + 2, sizeof size);
    at += 4;
    if (form != sized_value) continue;
    std::vector<uint32_t> numbers(size / 4);
    if (!numbers.empty()) std::memcpy(numbers.data(), at, numbers.size() * 4);
    at += size;
    with(tag, numbers);
  }
}

std::unique_ptr<Image> read_elf(const char* bytes) {
  const Elf elf(bytes);
  auto image = std::make_unique<Image>();
  const bool late = elf.header->e_ident[EI_ABIVERSION] >= 8;
  image->capability = static_cast<int>(elf.header->e_flags >> (late ? 8 : 0) & 0xff);
  const std::string text = ".text.", info = ".nv.info", shared = ".nv.shared.";
  for (int at = 0; at < elf.header->e_shnum; ++at)
    if (const std::string name = elf.name(elf.sections[at]); name.rfind(text, 0) == 0)
      image->kernels[name.substr(text.size())];
  for (int at = 0; at < elf.header->e_shnum; ++at) {
    const Elf64_Shdr& section = elf.sections[at];
    const std::string name = elf.name(section);
    if (name == info)
      for_entries(elf, section, [&](int tag, const std::vector<uint32_t>& numbers) {
        const auto kernel = image->kernels.find(elf.symbol_name(numbers.at(0)));
        if (kernel == image->kernels.end()) return;
        if (tag == registers_tag) kernel->second.registers = static_cast<int>(numbers.at(1));
        if (tag == stack_tag) kernel->second.stack_bytes = static_cast<int>(numbers.at(1));
      });
    else if (name.rfind(info + ".", 0) == 0)
      for_entries(elf, section, [&](int tag, const std::vector<uint32_t>& numbers) {
        const auto kernel = image->kernels.find(name.substr(info.size() + 1));
        if (kernel == image->kernels.end()) return;
        const auto product = [&] { return static_cast<int>(numbers.at(0) * numbers.at(1) * numbers.at(2)); };
        if (tag == most_threads_tag) kernel->second.most_threads = product();
        if (tag == cluster_tag) kernel->second.cluster = product();
      });
    else if (name.rfind(shared, 0) == 0)
      if (const auto kernel = image->kernels.find(name.substr(shared.size())); kernel != image->kernels.end())
        kernel->second.static_shared_bytes =
            static_cast<int>(section.sh_size) - (image->capability >= 90 ? reserved_shared_bytes : 0);
  }
  for (size_t at = 0; at < elf.symbol_count; ++at) {
    const Elf64_Sym& symbol = elf.symbols[at];
    if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_shndx >= elf.header->e_shnum) continue;
    const Elf64_Shdr& section = elf.sections[symbol.st_shndx];
    if (section.sh_type != SHT_PROGBITS) continue;
    const char* from = elf.base + section.sh_offset + symbol.st_value;
    image->constants[elf.symbol_name(static_cast<uint32_t>(at))].assign(from, from + symbol.st_size);
  }
  return image;
}

std::unique_ptr<Image> read_ptx(const char* text) {
  auto image = std::make_unique<Image>();
  image->is_ptx = true;
  image->program = parse_ptx(text);
  image->capability = image->program.capability;
  for (const Variable& one : image->program.variables)
    if (one.space == "global" || one.space == "const") image->constants[one.name] = one.values;
  for (auto& [name, function] : image->program.entries) {
    Kernel& kernel = image->kernels[name];
    kernel.name = name, kernel.function = &function, kernel.image = image.get();
    kernel.most_threads = function.most_threads;
  }
  return image;
}

}  // namespace

std::unique_ptr<Image> read_image(const void* bytes) {
  const char* text = static_cast<const char*>(bytes);
  if (std::memcmp(text, ELFMAG, SELFMAG) == 0) return read_elf(text);
  return std::strstr(text, ".version") ? read_ptx(text) : nullptr;
}

}  // namespace tenon::ptx_emulator
