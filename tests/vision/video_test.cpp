// SPDX-License-Identifier: Apache-2.0
#include "vision/video.h"

#include <gtest/gtest.h>
#include <tenon/error.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "vision/file.h"

namespace tenon::vision {
namespace {

class Video : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder);
    if (!video_available()) GTEST_SKIP() << "built without FFmpeg";
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("tenon_video_" + std::to_string(getpid()));
  const std::string path = (folder / "clip.mp4").string();
};

Image frame_at(int index, int width, int height) {
  Image image(width, height);
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      uint8_t* pixel = image.row(y) + x * 3;
      pixel[0] = static_cast<uint8_t>(40 + index * 15);
      pixel[1] = static_cast<uint8_t>(x * 255 / width);
      pixel[2] = static_cast<uint8_t>(y * 255 / height);
    }
  return image;
}

/// Frames that can be read, and whether the reader found fault.
std::pair<int, bool> frames_of(const std::string& path) {
  VideoReader reader(path);
  Image image;
  int count = 0;
  while (reader.next(image)) ++count;
  return {count, !reader.fault().empty()};
}

TEST_F(Video, ACutVideoIsReadToTheCut) {
  const std::string whole = TENON_SOURCE_DIR "/samples/line.mp4";
  EXPECT_EQ(frames_of(whole), std::pair(180, false));
  const auto bytes = read_file(whole);
  write_atomically(path, std::as_bytes(std::span(bytes)).first(bytes.size() / 2));
  const auto [count, fault] = frames_of(path);
  EXPECT_TRUE(fault);
  EXPECT_GT(count, 50);
  EXPECT_LT(count, 130);
}

TEST_F(Video, WhatIsWrittenIsRead) {
  for (const auto& [width, height] : {std::pair(96, 64), std::pair(97, 63)}) {
    VideoWriter writer(path, width, height, 12.5);
    for (int index = 0; index < 10; ++index) writer.add(frame_at(index, width, height));
    EXPECT_THROW(writer.add(Image(8, 8)), Error);
    writer.finish();
    EXPECT_THROW(writer.add(frame_at(0, width, height)), Error);
    VideoReader reader(path);
    EXPECT_EQ(reader.width(), (width + 1) / 2 * 2);
    EXPECT_EQ(reader.height(), (height + 1) / 2 * 2);
    EXPECT_DOUBLE_EQ(reader.fps(), 12.5);
    EXPECT_EQ(reader.frames(), 10);
    Image image;
    int count = 0;
    for (; reader.next(image); ++count) {
      const Image expected = frame_at(count, width, height);
      double off = 0;
      for (int y = 0; y < height; ++y)
        for (int x = 0; x < width * 3; ++x) off += std::abs(image.row(y)[x] - expected.row(y)[x]);
      EXPECT_LT(off / (width * height * 3), 6) << "frame " << count;
    }
    EXPECT_EQ(count, 10);
    EXPECT_FALSE(reader.next(image));
  }
}

TEST_F(Video, NothingStaysOfAnUnfinishedFile) {
  {
    VideoWriter writer(path, 64, 64, 25);
    writer.add(Image(64, 64));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  EXPECT_THROW(VideoWriter((folder / "missing/clip.mp4").string(), 64, 64, 25), Error);
  EXPECT_THROW(VideoWriter(path, 0, 64, 25), Error);
}

TEST_F(Video, RefusesWhatIsNoVideo) {
  EXPECT_THROW(VideoReader("/nowhere/clip.mp4"), Error);
  std::ofstream(path) << "text";
  EXPECT_THROW(VideoReader{path}, Error);
  {
    VideoWriter writer((folder / "real.mp4").string(), 64, 64, 25);
    writer.add(Image(64, 64));
    writer.finish();
  }
  EXPECT_NO_THROW(VideoReader((folder / "real.mp4").string()));
  std::ofstream(folder / "list.txt") << "ffconcat version 1.0\nfile real.mp4\n";
  EXPECT_THROW(VideoReader((folder / "list.txt").string()), Error) << "a playlist would open other files";
}

TEST_F(Video, EveryTruncationEnds) {
  {
    VideoWriter writer(path, 64, 64, 25);
    for (int index = 0; index < 5; ++index) writer.add(frame_at(index, 64, 64));
    writer.finish();
  }
  const std::vector<uint8_t> bytes = read_file(path);
  for (size_t size = 0; size < bytes.size(); size += bytes.size() / 40 + 1) {
    write_atomically(path, std::as_bytes(std::span(bytes)).first(size));
    try {
      VideoReader reader(path);
      Image image;
      int count = 0;
      while (reader.next(image)) ++count;
      EXPECT_LE(count, 5);
    } catch (const Error&) {
    }
  }
}

TEST(VideoName, KnowsEndings) {
  EXPECT_TRUE(is_video_name("a/b.MP4"));
  EXPECT_FALSE(is_video_name("a/b.jpg"));
  EXPECT_FALSE(is_video_name("mp4"));
}

}  // namespace
}  // namespace tenon::vision
