// SPDX-License-Identifier: Apache-2.0
#include "vision/decode.h"

#include <gtest/gtest.h>
#include <tenon/error.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "noise.h"
#include "vision/exif.h"
#include "vision/file.h"

namespace tenon::vision {
namespace {

struct ImageCase {
  const char* name;
  int width, height;
  uint32_t sum;
};
#include "data/images.inc"

const std::string folder = TENON_VISION_TEST_DATA "/";

std::string reason(const std::vector<uint8_t>& bytes) {
  try {
    decode_image(bytes, "some.file");
  } catch (const Error& error) {
    EXPECT_EQ(error.where(), "some.file");
    return error.why();
  }
  return "decoded";
}

class Folder {
 public:
  Folder() : path_(std::filesystem::path(testing::TempDir()) / ("tenon_vision_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  size_t files() const { return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path_), {})); }

 private:
  std::filesystem::path path_;
};

TEST(Decode, EqualsOpenCv) {
  for (const ImageCase& c : image_cases) {
    const Image image = decode_image(folder + c.name);
    EXPECT_EQ(image.width, c.width) << c.name;
    EXPECT_EQ(image.height, c.height) << c.name;
    EXPECT_EQ(crc32(image.pixels), c.sum) << c.name;
  }
}

TEST(Decode, EveryTruncationIsRefusedOrWhole) {
  for (const ImageCase& c : image_cases) {
    const std::vector<uint8_t> bytes = read_file(folder + c.name);
    for (size_t size = 0; size < bytes.size(); ++size) {
      const std::vector<uint8_t> part(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
      try {
        EXPECT_EQ(crc32(decode_image(part, c.name).pixels), c.sum) << c.name << " cut at " << size;
      } catch (const Error&) {
      }
    }
    EXPECT_NE(reason({bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(bytes.size() / 2)}), "decoded") << c.name;
  }
}

TEST(Decode, BrokenBytesNeverCrash) {
  for (const ImageCase& c : image_cases) {
    std::vector<uint8_t> bytes = read_file(folder + c.name);
    uint32_t state = 1;
    for (int round = 0; round < 300; ++round) {
      std::vector<uint8_t> broken = bytes;
      for (int change = 0; change < 3; ++change) {
        state = state * 1664525u + 1013904223u;
        uint8_t& target = broken[(state >> 8) % broken.size()];
        // The high bytes of sizes stay as they are: large images are legal and slow.
        if (&target - broken.data() > 24) target = static_cast<uint8_t>(state >> 24);
      }
      try {
        const Image image = decode_image(broken, c.name);
        EXPECT_EQ(image.pixels.size(), static_cast<size_t>(image.width) * static_cast<size_t>(image.height) * 3);
      } catch (const Error&) {
      }
    }
  }
}

TEST(Decode, SaysWhatIsWrong) {
  EXPECT_EQ(reason({}), "the file is empty");
  EXPECT_EQ(reason({'G', 'I', 'F', '8'}), "it begins like none of JPEG, PNG, BMP, TIFF and WebP");
  EXPECT_THROW(decode_image(std::string("/nowhere/at/all.jpg")), Error);
  EXPECT_THROW(decode_image(folder), Error);
  std::vector<uint8_t> huge = read_file(folder + "rgb.png");
  huge[17] = huge[21] = 0x7F;
  EXPECT_NE(reason(huge), "decoded");
}

std::vector<uint8_t> changed(const std::string& name, size_t at, std::initializer_list<uint8_t> bytes) {
  std::vector<uint8_t> file = read_file(folder + name);
  std::copy(bytes.begin(), bytes.end(), file.begin() + static_cast<ptrdiff_t>(at));
  return file;
}

TEST(Decode, SaysWhatIsWrongWithABmp) {
  EXPECT_EQ(reason(changed("rgb.bmp", 28, {7})), "7 bits a pixel");
  EXPECT_EQ(reason(changed("rgb.bmp", 30, {5})), "its pixels are packed in an unknown way (5)");
  EXPECT_EQ(reason(changed("rgb.bmp", 18, {0, 0})), "it has no pixels");
  EXPECT_EQ(reason(changed("rgb.bmp", 18, {0, 0, 0, 0x7F})), "2130706432x21 pixels");
  EXPECT_EQ(reason(changed("rgb.bmp", 10, {0, 0, 0, 0x7F})), "the file ends in the middle");
  EXPECT_EQ(reason(changed("masks.bmp", 54, {0x05, 0, 0, 0})), "its masks have gaps");
  EXPECT_EQ(reason(changed("runs8.bmp", 118, {255})), "a run leaves the image");
}

TEST(Decode, SaysWhatIsWrongWithATiff) {
  // Its directory lies at the end: the entry of a tag is found by its number and type.
  const auto with = [](const std::string& name, uint8_t tag, std::initializer_list<uint8_t> value) {
    const std::vector<uint8_t> file = read_file(folder + name);
    const uint8_t entry[] = {tag, 1, 4, 0};
    const auto found = std::search(file.begin(), file.end(), entry, entry + 4);
    return changed(name, static_cast<size_t>(found - file.begin()) + 8, value);
  };
  EXPECT_EQ(reason(with("tiles.tif", 3, {7, 0})), "compression 7");
  EXPECT_EQ(reason(with("tiles.tif", 6, {8, 0})), "its colours are of an unknown kind (8)");
  EXPECT_EQ(reason(with("tiles.tif", 0, {0, 0, 0, 0x7F})), "2130706432x21 pixels");
  EXPECT_EQ(reason(with("tiles.tif", 0, {0, 0, 0})), "it has no pixels");
  EXPECT_EQ(reason(with("tiles.tif", 0x42, {1})), "tiles or strips are missing");
}

TEST(Decode, AnAnimatedWebpIsNoImage) {
  std::vector<uint8_t> file = {'R', 'I', 'F', 'F', 22, 0, 0, 0, 'W', 'E', 'B', 'P', 'V', 'P', '8', 'X', 10, 0, 0, 0};
  file.insert(file.end(), {2, 0, 0, 0, 9, 0, 0, 9, 0, 0});
  EXPECT_EQ(reason(file), "it is an animation");
}

TEST(Exif, BrokenBlocksMeanUpright) {
  const std::vector<uint8_t> good = {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, 6, 0, 0, 0};
  EXPECT_EQ(exif_orientation(good), 6);
  for (size_t size = 0; size < good.size(); ++size) EXPECT_EQ(exif_orientation(std::span(good).first(size)), 1) << size;
  std::vector<uint8_t> far = good;
  far[4] = far[5] = far[6] = far[7] = 0xFF;
  EXPECT_EQ(exif_orientation(far), 1);
  std::vector<uint8_t> wild = good;
  wild[18] = 9;
  EXPECT_EQ(exif_orientation(wild), 1);
}

TEST(Encode, RoundTripsAndLeavesOneFile) {
  const Folder temporary;
  Image image(33, 17);
  for (int y = 0; y < image.height; ++y)
    for (int x = 0; x < image.width; ++x)
      for (int channel = 0; channel < 3; ++channel)
        image.row(y)[x * 3 + channel] = static_cast<uint8_t>(x * 4 + y * 3 + channel * 20);
  encode_image(image, temporary / "a.png");
  EXPECT_EQ(decode_image(temporary / "a.png").pixels, image.pixels);
  encode_image(image, temporary / "a.jpg");
  const Image read = decode_image(temporary / "a.jpg");
  ASSERT_EQ(read.pixels.size(), image.pixels.size());
  for (size_t at = 0; at < read.pixels.size(); ++at) EXPECT_NEAR(read.pixels[at], image.pixels[at], 12);
  EXPECT_EQ(temporary.files(), 2u);
  EXPECT_THROW(encode_image(image, temporary / "a.webp"), Error);
  EXPECT_THROW(encode_png(image, temporary / "missing/a.png"), Error);
  EXPECT_THROW(encode_png(Image(), temporary / "b.png"), Error);
}

}  // namespace
}  // namespace tenon::vision
