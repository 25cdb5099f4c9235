// SPDX-License-Identifier: Apache-2.0
// Frames decoded ahead are those of the file, in order; faults come in their place; leaving early ends the thread.
#include <gtest/gtest.h>
#include <tenon/error.h>

#include "cli/frames.h"
#include "support/net.h"

namespace tenon {
namespace {

const char* const clip = TENON_SOURCE_DIR "/samples/line.mp4";

TEST(Frames, AreThoseOfTheFileInOrder) {
  if (!vision::video_available()) GTEST_SKIP() << "built without video";
  vision::VideoReader reader(clip);
  cli::Frames frames(clip);
  vision::Image expected, frame;
  int count = 0;
  for (; reader.next(expected); ++count) {
    ASSERT_TRUE(frames.next(frame)) << count;
    ASSERT_EQ(frame.width, expected.width);
    ASSERT_TRUE(frame.pixels == expected.pixels) << count;
  }
  EXPECT_GT(count, 100);
  EXPECT_FALSE(frames.next(frame));
  EXPECT_FALSE(frames.next(frame));
  EXPECT_EQ(frames.fault(), "");
}

TEST(Frames, MayBeLeftAtAnyTime) {
  if (!vision::video_available()) GTEST_SKIP() << "built without video";
  for (const int read : {0, 1, 3}) {
    cli::Frames frames(clip);
    vision::Image frame;
    for (int at = 0; at < read; ++at) EXPECT_TRUE(frames.next(frame));
  }
}

TEST(Frames, AFileThatIsNoVideoIsRefused) {
  if (!vision::video_available()) GTEST_SKIP() << "built without video";
  const test::Folder folder;
  folder.write("no.mp4", "this is no video");
  EXPECT_NE(test::error_of([&] { cli::Frames frames(folder / "no.mp4"); }), "none");
}

}  // namespace
}  // namespace tenon
