// SPDX-License-Identifier: Apache-2.0
#include "vision/preprocess.h"

#include <gtest/gtest.h>
#include <tenon/error.h>

#include "noise.h"
#include "vision/resize.h"

namespace tenon::vision {
namespace {

struct ResizeCase {
  int width, height, to_width, to_height;
  uint32_t cv_linear, antialias, nearest;
};
struct FitCase {
  int width, height;
  const char* spec;
  uint32_t sum;
};
#include "golden.inc"

TEST(Resize, EqualsOpenCvAndPillowBitForBit) {
  for (const ResizeCase& c : resize_cases) {
    SCOPED_TRACE(testing::Message() << c.width << "x" << c.height << " to " << c.to_width << "x" << c.to_height);
    const Image image = noise(c.width, c.height);
    EXPECT_EQ(crc32(resize(image, c.to_width, c.to_height, Interpolation::cv_linear).pixels), c.cv_linear)
        << "cv_linear";
    EXPECT_EQ(crc32(resize(image, c.to_width, c.to_height, Interpolation::antialias).pixels), c.antialias)
        << "antialias";
    EXPECT_EQ(crc32(resize(image, c.to_width, c.to_height, Interpolation::nearest).pixels), c.nearest) << "nearest";
  }
}

TEST(Preprocess, PlacesImagesAsTheTrainersDo) {
  for (const FitCase& c : fit_cases) {
    SCOPED_TRACE(testing::Message() << c.width << "x" << c.height << " " << c.spec);
    EXPECT_EQ(crc32(fit(noise(c.width, c.height), parse_spec(c.spec)).pixels), c.sum);
  }
}

TEST(Preprocess, ScalesEveryPixelOfEveryLayoutAndColourOrder) {
  const Image image = noise(50, 30);
  for (const char* text : {"yolo=64x48", "yolox=64x48", "imagenet=16x24",
                           "resize=20x10,layout=nhwc,mean=1:2:3,std=4:5:6,scale=0.5,colour=bgr"}) {
    const Spec spec = parse_spec(text);
    const Image placed = fit(image, spec);
    const Tensor tensor = preprocess({&image, 1}, spec);
    for (int y = 0; y < spec.height; ++y)
      for (int x = 0; x < spec.width; ++x)
        for (int channel = 0; channel < 3; ++channel) {
          const int source = spec.colour == Colour::rgb ? channel : 2 - channel;
          const auto c = static_cast<size_t>(channel);
          const double expected =
              (placed.row(y)[x * 3 + source] * static_cast<double>(spec.scale) - spec.mean[c]) / spec.std[c];
          const int at = spec.layout == Layout::nchw ? (channel * spec.height + y) * spec.width + x
                                                     : (y * spec.width + x) * 3 + channel;
          ASSERT_NEAR(tensor.data<float>()[at], expected, 1e-6 * (1 + std::abs(expected))) << text;
        }
  }
}

TEST(Preprocess, TransformLeadsBackToTheSource) {
  std::vector<Transform> transforms;
  const Image image(1920, 1080);
  preprocess({&image, 1}, parse_spec("yolo=640x640"), &transforms);
  EXPECT_DOUBLE_EQ(transforms[0].source_x(320), 960);
  EXPECT_DOUBLE_EQ(transforms[0].source_y(140), 0);
  EXPECT_DOUBLE_EQ(transforms[0].source_y(500), 1080);
  preprocess({&image, 1}, parse_spec("imagenet=224x224"), &transforms);
  EXPECT_NEAR(transforms[0].source_x(112), 960, 5);
  EXPECT_NEAR(transforms[0].source_y(112), 540, 1e-9);
}

TEST(Spec, TextComesBackAsTheSameValue) {
  for (const char* text : {"yolo", "yolox", "imagenet", "yolox,size=416x416",
                           "resize=300x200,colour=bgr,scale=1,mean=104:117:123,layout=nhwc",
                           "letterbox=640,scale=1/127,std=0.1:0.2:0.3,pad=0,scaleup=no,interpolation=nearest",
                           "center_crop=299x299,short=342"})
    EXPECT_EQ(parse_spec(parse_spec(text).str()), parse_spec(text)) << text << " printed as " << parse_spec(text).str();
  EXPECT_EQ(parse_spec("yolo=640x480").str(),
            "letterbox=640x480,colour=rgb,scale=1/255,pad=114,interpolation=cv_linear,layout=nchw");
}

TEST(Spec, RefusesWhatItCannotRead) {
  for (const char* text :
       {"", "yolo,", "fast", "letterbox=0x4", "letterbox=axb", "letterbox=99999x1", "pad=256", "std=0", "std=1:0:1",
        "mean=1:2", "scale=1/0", "scale=nan", "colour=cmyk", "short=-1", "layout", "size=640x640x3"})
    EXPECT_THROW(parse_spec(text), Error) << text;
}

TEST(Spec, IsToldByTheMetadata) {
  EXPECT_EQ(told_spec({}), "");
  EXPECT_EQ(told_spec({{"task", "detect"}}), "");
  EXPECT_EQ(told_spec({{"author", "Ultralytics"}, {"task", "segment"}}), "yolo");
  EXPECT_EQ(told_spec({{"author", "Ultralytics"}, {"task", "obb"}, {spec_key, "yolox"}}), "yolox");
  EXPECT_EQ(told_spec({{"author", "Ultralytics"}, {"task", "classify"}}), "");
  // torchvision's Resize(96) and CenterCrop(96), then numbers from 0 to 1.
  const Spec spec = parse_spec(told_spec({{"author", "Ultralytics"}, {"task", "classify"}, {"imgsz", "[96, 128]"}}));
  EXPECT_EQ(spec.fit, Fit::center_crop);
  EXPECT_EQ(spec.short_side, 96);
  EXPECT_EQ(spec.mean[0], 0);
  EXPECT_EQ(spec.std[0], 1);
}

TEST(Spec, TakesSizeAndLayoutFromTheModel) {
  Spec spec = resolve(parse_spec("yolo"), Dims{1, 3, 480, 640});
  EXPECT_EQ(spec.width, 640);
  EXPECT_EQ(spec.height, 480);
  spec = resolve(parse_spec("yolo=320x320"), Dims{-1, -1, -1, 3});
  EXPECT_EQ(spec.layout, Layout::nhwc);
  EXPECT_EQ(spec.width, 320);
  EXPECT_THROW(resolve(parse_spec("yolo=320x320"), Dims{1, 3, 640, 640}), Error);
  EXPECT_EQ(resolve(parse_spec("yolo"), Dims{1, 1, 28, 28}).width, 28);
  EXPECT_THROW(resolve(parse_spec("yolo"), Dims{1, 2, 28, 28}), Error);
  EXPECT_THROW(resolve(parse_spec("yolo"), Dims{1, 10}), Error);
  const Image image(4, 4);
  EXPECT_THROW(preprocess({&image, 1}, parse_spec("yolo")), Error);
}

}  // namespace
}  // namespace tenon::vision
