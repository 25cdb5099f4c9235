// SPDX-License-Identifier: Apache-2.0
#include "cli/formats.h"

#include <gtest/gtest.h>

namespace tenon::cli {
namespace {

using Json = nlohmann::ordered_json;

Json one(const std::string& image, int64_t class_id, const std::string& label) {
  return {{"image", image},
          {"detections", {{{"class", class_id}, {"label", label}, {"score", 0.5}, {"box", {1.5, 2, 11.5, 22}}}}}};
}

TEST(Formats, CocoNumbersImagesAndCategories) {
  std::vector<std::string> labels(80, "x");
  labels.front() = "person", labels.back() = "toothbrush";
  // The first and last class, and those beside the first gap.
  const Json list = {one("a/000000000139.jpg", 0, ""), one("b.jpg", 10, ""), one("c.jpg", 11, ""),
                     one("d.jpg", 79, "")};
  const Json coco = as_coco(list, labels);
  ASSERT_EQ(coco.size(), 4u);
  EXPECT_EQ(coco[0].dump(), R"({"image_id":139,"category_id":1,"bbox":[1.5,2.0,10.0,20.0],"score":0.5})");
  EXPECT_EQ(coco[1]["image_id"], 2);
  EXPECT_EQ(coco[1]["category_id"], 11);
  EXPECT_EQ(coco[2]["category_id"], 13);
  EXPECT_EQ(coco[3]["category_id"], 90);
  EXPECT_EQ(as_coco(list, {"a"})[3]["category_id"], 80);
  EXPECT_EQ(as_coco(list, {"__background__", "a"})[3]["category_id"], 79);
}

TEST(Formats, CsvQuotesNames) {
  Json list = {one("a, \"b\".jpg", 3, "cat"), one("clip.mp4", 3, "cat")};
  list[1]["frame"] = 7;
  EXPECT_EQ(as_csv(list),
            "image,frame,class,label,score,x1,y1,x2,y2\n"
            "\"a, \"\"b\"\".jpg\",,3,cat,0.500000,1.50,2.00,11.50,22.00\n"
            "clip.mp4,7,3,cat,0.500000,1.50,2.00,11.50,22.00\n");
}

}  // namespace
}  // namespace tenon::cli
