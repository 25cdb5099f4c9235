// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <bit>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

/// Small kernels, written by hand, on the emulated GPU.
namespace tenon::tests {

/// Numbers by lane, or by thread.
using Numbers = std::vector<uint64_t>;

/// What a program says that is given to the driver and launched: blocks of threads, with an address in device memory of
/// these bytes, which it may change. "" or the driver's words.
std::string launch(const std::string& program, std::vector<uint8_t>& memory, unsigned blocks = 1, unsigned threads = 32,
                   unsigned shared_bytes = 0);

/// A program of one kernel: `body` has %tid in %t, and in %a, %b and %c of 64 bits, %wa, %wb, %wc of 32 and %ha, %hb,
/// %hc of 16 the thread's three numbers. It leaves its result in %d, %wd or %hd, which come out as 64 bits; where it
/// names several, in the shortest. Further: %x0… of 64 bits, %w0… of 32, %h0… of 16 and %p0… predicates, 32 of each;
/// "room", 4096 bytes of shared memory; %out, the address of the thread's numbers and its result.
std::string program_of(const std::string& body);

/// The results of a body for each thread's numbers; one warp for each 32, all in one block. Adds a failure where the
/// launch fails.
Numbers results_of(const std::string& body, const Numbers& a, const Numbers& b = {}, const Numbers& c = {});

/// "" or the driver's words.
std::string fault_of(const std::string& body, unsigned threads = 32);

/// The float of the low 32 bits.
inline float f32(uint64_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits)); }

/// Numbers of 64 random bits, and among them those at the edges of 8, 16, 32 and 64 bits.
Numbers some_numbers(unsigned seed, size_t count = 256);
/// The same for bits of f32: also of all sizes and no numbers.
Numbers some_floats(unsigned seed, size_t count = 256);

}  // namespace tenon::tests
