// SPDX-License-Identifier: Apache-2.0
// Lanes, warps and memory of the emulated GPU: who runs when, what they tell each other, what they may touch.
#include <gtest/gtest.h>

#include <cstring>

#include "try.h"

namespace tenon::tests {
namespace {

Numbers counted(size_t count, uint64_t step = 1, uint64_t first = 0) {
  Numbers numbers;
  for (size_t at = 0; at < count; ++at) numbers.push_back(first + at * step);
  return numbers;
}

void expect(const std::string& body, const Numbers& a, const std::function<uint64_t(size_t)>& of,
            const Numbers& b = {}) {
  const Numbers got = results_of(body, a, b);
  for (size_t at = 0; at < a.size(); ++at) ASSERT_EQ(got[at], of(at)) << body << " of thread " << at;
}

void expect_fault(const std::string& body, const std::string& words, unsigned threads = 32) {
  const std::string fault = fault_of(body, threads);
  EXPECT_NE(fault.find(words), std::string::npos) << body << " says: " << fault;
}

constexpr const char* shared_address = R"(mov.u32 %w20, room; shl.b32 %w21, %t, 2; add.u32 %w22, %w20, %w21;)";

TEST(Warps, LoopsOfDifferentLengths) {
  expect(R"(mov.u64 %d, 0;
    again: setp.eq.u32 %p0, %wa, 0; @%p0 bra done;
    cvt.u64.u32 %x0, %wa; add.u64 %d, %d, %x0; sub.u32 %wa, %wa, 1; bra again;
    done:)",
         counted(70), [](size_t at) { return at * (at + 1) / 2; });
}

TEST(Warps, BothSidesOfABranchAndATable) {
  expect(R"(and.b32 %w0, %t, 3; setp.eq.u32 %p0, %w0, 2; mov.u32 %wd, 5; @!%p0 mov.u32 %wd, 7; @%p0 bra there;
    add.u32 %wd, %wd, 100; bra.uni join; there: add.u32 %wd, %wd, 1000; join: add.u32 %wd, %wd, 1;)",
         counted(40), [](size_t at) { return at % 4 == 2 ? 1006 : 108; });
  expect(R"(and.b32 %w0, %t, 3; table: .branchtargets one, two, one, three; brx.idx %w0, table;
    one: mov.u32 %wd, 1; bra join; two: mov.u32 %wd, 2; bra join; three: mov.u32 %wd, 3; join:)",
         counted(64), [](size_t at) {
           return std::array{1, 2, 1, 3}[at % 4];
         });
  expect_fault("table: .branchtargets one; brx.idx %t, table; one:", "label 1 of 1");
}

TEST(Warps, LanesThatMeetAgainGoOnTogether) {
  expect(
      "and.b32 %w0, %t, 1; setp.eq.u32 %p0, %w0, 0; @%p0 bra even; mov.u32 %w1, 1; bra join; even: mov.u32 %w1, 2; "
      "join: activemask.b32 %wd;",
      counted(32), [](size_t) { return 0xffffffff; });
}

TEST(Warps, LanesThatHaveEnded) {
  expect(R"(mov.u64 %x0, 9; st.global.u64 [%out+24], %x0; setp.gt.u32 %p0, %t, 4; @%p0 ret; activemask.b32 %wd;)",
         counted(32), [](size_t at) { return at > 4 ? 9 : 31; });
}

TEST(Warps, Shuffles) {
  const Numbers a = counted(32, 3, 100);
  expect("shfl.sync.bfly.b32 %wd, %wa, 5, 31, -1;", a, [](size_t at) { return 100 + 3 * (at ^ 5); });
  expect("shfl.sync.idx.b32 %wd, %wa, 3, 0x1c1f, -1;", a, [](size_t at) { return 100 + 3 * ((at & 28) | 3); });
  expect("shfl.sync.up.b32 %wd|%p0, %wa, 2, 0, -1; @!%p0 mov.u32 %wd, 1;", a,
         [](size_t at) { return at < 2 ? 1 : 100 + 3 * (at - 2); });
  expect("shfl.sync.down.b32 %wd|%p0, %wa, 4, 0x181f, -1; @!%p0 mov.u32 %wd, 1;", a,
         [](size_t at) { return at % 8 < 4 ? 100 + 3 * (at + 4) : 1; });
}

/// Lanes that come late are waited for, as on a GPU; those that have ended are not.
TEST(Warps, MembersWaitForEachOther) {
  expect(R"(setp.ge.u32 %p0, %t, 7; @%p0 bra late;
    there: shfl.sync.bfly.b32 %wd, %wa, 31, 31, -1; setp.lt.u32 %p2, %t, 20; @%p2 bra on; add.u32 %wd, %wd, 100; bra on;
    late: bra there;
    on: add.u32 %wd, %wd, 1;)",
         counted(32), [](size_t at) { return 32 - at + (at < 20 ? 0 : 100); });
  expect(R"(mov.u32 %w0, 0; setp.ge.u32 %p0, %t, 16; @%p0 bra second;
    first: vote.sync.ballot.b32 %wd, %p0, 0xffff; bra join; second: vote.sync.ballot.b32 %wd, %p0, 0xffff0000; join:)",
         counted(32), [](size_t at) { return at < 16 ? 0 : 0xffff0000; });
  expect("setp.gt.u32 %p0, %t, 15; @%p0 ret; shfl.sync.bfly.b32 %wd, %wa, 3, 31, -1;", counted(32, 1, 1),
         [](size_t at) { return at > 15 ? 0 : (at ^ 3) + 1; });
  expect_fault("setp.eq.u32 %p0, %t, 0; @%p0 shfl.sync.bfly.b32 %wd, %wa, 1, 31, -1; again: bar.sync 1, 64;",
               "waits for others that never come");
}

TEST(Warps, Votes) {
  const std::string less = "setp.lt.u32 %p0, %t, 9; ";
  const auto constant = [](uint64_t x) { return [x](size_t) { return x; }; };
  expect(less + "vote.sync.ballot.b32 %wd, %p0, -1;", counted(32), constant(0x1ff));
  expect(less + "vote.sync.ballot.b32 %wd, !%p0, -1;", counted(32), constant(0xfffffe00));
  expect(less + "vote.sync.any.pred %p1, %p0, -1; selp.u32 %wd, 1, 0, %p1;", counted(32), constant(1));
  expect(less + "vote.sync.all.pred %p1, %p0, -1; selp.u32 %wd, 1, 0, %p1;", counted(32), constant(0));
  expect("and.b32 %w0, %t, 7; match.any.sync.b32 %wd, %w0, -1;", counted(32),
         [](size_t at) { return 0x01010101u << at % 8; });
  expect("redux.sync.max.s32 %wd, %wa, -1;", counted(32, 5), constant(31 * 5));
  expect("redux.sync.add.s32 %wd, %wa, -1;", counted(32), constant(31 * 16));
}

TEST(Warps, Barriers) {
  // What another warp writes before the barrier is there after it, and not before.
  const std::string write = std::string(shared_address) + "st.shared.u32 [%w22], %wa; ";
  const std::string read =
      "xor.b32 %w1, %t, 96; shl.b32 %w1, %w1, 2; add.u32 %w1, %w1, %w20; ld.shared.u32 %wd, [%w1];";
  expect(write + "bar.sync 0; " + read, counted(128, 7), [](size_t at) { return (at ^ 96) * 7; });
  EXPECT_NE(results_of(write + read, counted(128, 7))[0], 96u * 7);
  // Two of four warps by themselves.
  expect(write +
             "setp.ge.u32 %p0, %t, 64; @%p0 bra others; bar.sync 1, 64; bra join; others: bar.sync 2, 64; join: "
             "xor.b32 %w1, %t, 32; shl.b32 %w1, %w1, 2; add.u32 %w1, %w1, %w20; ld.shared.u32 %wd, [%w1];",
         counted(128, 7), [](size_t at) { return (at ^ 32) * 7; });
  // Warps that have ended are not waited for; one that ends nowhere is.
  expect("mov.u32 %wd, 4; st.global.u64 [%out+24], 4; setp.ge.u32 %p0, %t, 64; @%p0 ret; bar.sync 0;", counted(128),
         [](size_t) { return 4; });
  expect_fault("setp.lt.u32 %p0, %t, 32; @%p0 bra end; bar.sync 1, 64; end:", "never come, at a barrier", 64);
  expect_fault("setp.lt.u32 %p0, %t, 8; @%p0 bra other; bar.sync 0; bra end; other: bar.sync 0; end:",
               "came to barrier 0 at different places");
  expect_fault("bar.sync 0, 33;", "33 threads, which are no whole warps");
}

TEST(Memory, LoadsAndStores) {
  const Numbers a = some_numbers(5, 64), b = some_numbers(6, 64);
  expect("ld.global.s8 %wd, [%out+1];", a,
         [&](size_t at) { return static_cast<uint32_t>(static_cast<int8_t>(a[at] >> 8)); });
  expect("ld.global.u16 %wd, [%out+6];", a, [&](size_t at) { return a[at] >> 48; });
  expect("add.u64 %x0, %out, 12; ld.global.s32 %d, [%x0+-8];", a,
         [&](size_t at) { return static_cast<uint64_t>(int64_t{static_cast<int32_t>(a[at] >> 32)}); });
  expect(
      "ld.global.v4.u32 {%w0, %w1, %w2, %w3}, [%out]; xor.b32 %wd, %w1, %w2;", a,
      [&](size_t at) { return static_cast<uint32_t>((a[at] >> 32) ^ b[at]); }, b);
  expect(
      "st.global.v2.u32 [%out+24], {%wb, 7}; ld.global.u64 %d, [%out+24];", a,
      [&](size_t at) { return static_cast<uint32_t>(b[at]) | uint64_t{7} << 32; }, b);
  expect("st.global.u64 [%out+24], 0; st.global.u8 [%out+25], %ha; ld.global.u64 %d, [%out+24];", a,
         [&](size_t at) { return (a[at] & 255) << 8; });
}

TEST(Memory, OfItsOwnAndGeneric) {
  expect(
      ".local .align 8 .b8 mine[64]; mov.u64 %x0, mine; cvta.local.u64 %x1, %x0; st.u64 [%x1+8], %a; "
      "ld.local.u64 %d, [%x0+8];",
      counted(64, 11), [](size_t at) { return at * 11; });
  expect(std::string(shared_address) +
             "cvt.u64.u32 %x0, %w22; cvta.shared.u64 %x1, %x0; st.u32 [%x1], %wa; "
             "ld.shared.u32 %wd, [%w22];",
         counted(64, 11), [](size_t at) { return at * 11; });
  expect_fault(".local .align 8 .b8 mine[64]; mov.u64 %x0, mine; ld.local.u64 %d, [%x0+64];",
               "of local memory, which has 64");
}

TEST(Memory, WhatIsNotItsOwnIsAFault) {
  expect_fault("ld.global.u32 %wd, [%out+1000];", "700: kernel tried, block (0, 0, 0), thread 1: 4 bytes at ");
  expect_fault("ld.global.u32 %wd, [%out+1000];", "at \"ld.global.u32 %wd, [%out+1000];\"");
  expect_fault("st.global.u64 [%out+28], %a;", "716: kernel tried, block (0, 0, 0), thread 0: 8 bytes at ");
  expect_fault("mov.u64 %x0, 64; st.global.u32 [%x0], %wa;", "nothing is before it");
  // The last byte of the list, and the first behind it.
  EXPECT_EQ(fault_of("ld.global.u8 %wd, [%out+31];"), "");
  expect_fault("ld.global.u8 %wd, [%out+32];", "thread 31: 1 bytes at");
  EXPECT_EQ(fault_of(std::string(shared_address) + "ld.shared.u32 %wd, [%w20+4092];"), "");
  expect_fault(std::string(shared_address) + "ld.shared.u32 %wd, [%w20+4096];", "of shared memory, which has 4096");
  expect_fault(std::string(shared_address) + "ld.shared.v2.u32 {%wd, %w0}, [%w20+4];", "716");
  expect_fault(
      "mov.u32 %w0, 0; again: ld.global.u8 %wd, [%out]; add.u64 %out, %out, 32; add.u32 %w0, %w0, 1; "
      "setp.lt.u32 %p0, %w0, 2; @%p0 bra again;",
      "thread 31: 1 bytes at");
  expect_fault(
      "mov.u32 %w0, 0; again: ld.global.u32 %wd, [%out]; add.u64 %out, %out, 2; add.u32 %w0, %w0, 1; "
      "setp.lt.u32 %p0, %w0, 2; @%p0 bra again;",
      "4 bytes at");
  // Lanes that do not take part may have any address.
  EXPECT_EQ(fault_of("setp.ne.u32 %p0, %t, 40; @!%p0 ld.global.u32 %wd, [%out+100000];"), "");
}

TEST(Memory, SharedMemoryIsNoNumberBeforeItIsWritten) {
  expect(std::string(shared_address) + "ld.shared.u32 %wd, [%w22];", counted(32), [](size_t) { return 0xffffffff; });
}

TEST(Memory, SharedMemoryThatIsAskedForStandsBehindTheRest) {
  std::string text =
      program_of("mov.u32 %w0, more; ld.shared.u32 %w1, [room]; st.shared.u32 [%w0+1020], 5; cvt.u64.u32 %d, %w0;");
  text.insert(text.find(".visible"), ".extern .shared .align 128 .b8 more[];\n");
  std::vector<uint8_t> memory(32);
  EXPECT_EQ(launch(text, memory, 1, 1, 1024), "");
  EXPECT_EQ(memory[24] | memory[25] << 8, 4096);
  EXPECT_NE(launch(text, memory, 1, 1, 1020).find("of shared memory, which has 5116"), std::string::npos);
}

TEST(Memory, Atomics) {
  const std::string zero = "mov.u32 %w20, room; st.shared.u32 [%w20], 10; bar.sync 0; ";
  expect(zero + "atom.shared.add.u32 %wd, [%w20], 3;", counted(32), [](size_t at) { return 10 + 3 * at; });
  expect(zero + "atom.shared.max.s32 %w0, [%w20], %wa; bar.sync 0; ld.shared.u32 %wd, [%w20];", counted(64),
         [](size_t) { return 63; });
  expect(zero + "atom.shared.cas.b32 %wd, [%w20], 10, 77;", counted(32), [](size_t at) { return at == 0 ? 10 : 77; });
  expect(zero + "atom.shared.inc.u32 %wd, [%w20], 12;", counted(4), [](size_t at) {
    return std::array{10, 11, 12, 0}[at];
  });
  expect(zero + "red.shared.or.b32 [%w20], %wa; bar.sync 0; ld.shared.u32 %wd, [%w20];", counted(32),
         [](size_t) { return 31; });
}

TEST(Memory, CopiesAreThereWhenTheyHaveBeenWaitedFor) {
  const std::string begin =
      "mov.u32 %w20, room; shl.b32 %w21, %t, 4; add.u32 %w22, %w20, %w21; "
      "cp.async.cg.shared.global [%w22], [%out], 16; cp.async.commit_group; ";
  const std::string read = "ld.shared.u32 %wd, [%w22];";
  expect(begin + "cp.async.wait_group 0; " + read, counted(64, 5), [](size_t at) { return at * 5; });
  expect(begin + read, counted(64, 5), [](size_t) { return 0xffffffff; });
  expect(begin + "cp.async.wait_group 1; " + read, counted(64, 5), [](size_t) { return 0xffffffff; });
  const std::string second = "cp.async.ca.shared.global [%w22+2048], [%out], 4; cp.async.commit_group; ";
  expect(begin + second + "cp.async.wait_group 1; " + read, counted(64, 5), [](size_t at) { return at * 5; });
  expect(begin + second + "cp.async.wait_group 1; ld.shared.u32 %wd, [%w22+2048];", counted(64, 5),
         [](size_t) { return 0xffffffff; });
  // Of fewer bytes the rest is 0; of none, the source may be anywhere.
  expect(
      "mov.u32 %w20, room; shl.b32 %w21, %t, 4; add.u32 %w22, %w20, %w21; mov.u64 %x0, 16; "
      "cp.async.cg.shared.global [%w22], [%x0], 16, 0; cp.async.wait_all; " +
          read,
      counted(32, 5), [](size_t) { return 0; });
  expect_fault("mov.u32 %w20, room; mov.u64 %x0, 16; cp.async.cg.shared.global [%w20], [%x0], 16;", "700");
}

TEST(Memory, RacesAreFoundWhereTheyAreAskedFor) {
  const std::string write = std::string(shared_address) + "st.shared.u32 [%w22], %wa; ";
  const std::string read =
      "xor.b32 %w1, %t, 32; shl.b32 %w1, %w1, 2; add.u32 %w1, %w1, %w20; ld.shared.u32 %wd, [%w1];";
  EXPECT_EQ(fault_of(write + read, 64), "");
  setenv("TENON_PTX_EMULATOR_RACES", "1", 1);
  const std::string raced = fault_of(write + read, 64), ordered = fault_of(write + "bar.sync 0; " + read, 64),
                    after = fault_of(write + "bar.sync 0; " + read + "st.shared.u32 [%w22], %wd;", 64);
  const std::string counted_by_all = fault_of(std::string(shared_address) + "red.shared.add.u32 [%w20], 1;", 64);
  unsetenv("TENON_PTX_EMULATOR_RACES");
  EXPECT_EQ(counted_by_all, "");
  EXPECT_NE(raced.find("was read by warp 0 and is written without a barrier between"), std::string::npos) << raced;
  EXPECT_EQ(ordered, "");
  EXPECT_NE(after.find("was written by warp 1 and is read without a barrier between"), std::string::npos) << after;
}

TEST(Launches, GridsOfBlocks) {
  std::vector<uint8_t> memory(32);
  const std::string text = R"(
.version 8.4
.target sm_89
.address_size 64
.visible .entry tried(.param .u64 numbers)
{
  .reg .b64 %x<4>;
  .reg .b32 %w<8>;
  ld.param.u64 %x0, [numbers];
  mov.u32 %w0, %ctaid.x; mov.u32 %w1, %ntid.x; mov.u32 %w2, %tid.x; mad.lo.s32 %w3, %w0, %w1, %w2;
  cvta.to.global.u64 %x1, %x0;
  red.global.add.u32 [%x1], %w3;
  ret;
})";
  EXPECT_EQ(launch(text, memory, 5, 40), "");
  uint32_t sum = 0;
  std::memcpy(&sum, memory.data(), sizeof sum);
  EXPECT_EQ(sum, 199u * 200 / 2);
}

TEST(Launches, WhatIsNotKnownIsNamed) {
  expect_fault("wgmma.fence.sync.aligned;",
               "715: kernel tried, the emulator does not know \"wgmma.fence.sync.aligned;\"");
  expect_fault("add.cc.u32 %wd, %wa, %wb;", "the emulator does not know");
  expect_fault("trap;", "715: kernel tried, block (0, 0, 0), thread 0: trap");
  expect_fault("bra nowhere;", "there is no label nowhere");
  std::vector<uint8_t> memory(32);
  EXPECT_NE(launch(".version 8.4 .target sm_89 .address_size 64 .visible .entry tried(.param .u64 a) { ret", memory),
            "");
}

}  // namespace
}  // namespace tenon::tests
