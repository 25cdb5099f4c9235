// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "code.h"

/// What emulated GPUs read of compiled kernels.
namespace tenon::ptx_emulator {

struct Image;

struct Kernel {
  int registers = 0, stack_bytes = 0, static_shared_bytes = 0;
  int most_threads = 1024, cluster = 1;
  int most_dynamic_bytes = 0;  // as a program has asked; 0: it has not
  // Of PTX alone.
  std::string name;
  Entry* function = nullptr;
  Image* image = nullptr;
  std::unique_ptr<Code> code;  // made when it runs first
};

struct Image {
  bool is_ptx = false;
  int capability = 0;  // compiled for
  std::map<std::string, Kernel> kernels;
  std::map<std::string, std::vector<char>> constants;  // arrays with values
  Program program;                                     // of PTX
};

/// Machine code as NVRTC 13 writes it: ELF with NVIDIA's sections, whose numbers are those that cuobjdump shows. Or
/// PTX; throws std::runtime_error where that is not understood. nullptr for anything else.
std::unique_ptr<Image> read_image(const void* bytes);

}  // namespace tenon::ptx_emulator
