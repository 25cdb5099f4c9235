// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "explain/floor.h"
#include "explain/report.h"
#include "support/command.h"

namespace tenon::explain {
namespace {

/// Three steps: a convolution with a close candidate, a transpose, and an op without a kernel of its own.
Report report() {
  Report report{"cpu", Precision::fp32, "avx2", 2, true};
  Row conv{"stem", {"stem", "act"}, "Conv", "1x8x8x3 -> 1x8x8x4", "fp32", "direct", 600, 500, 2};
  conv.switched = 400;
  conv.precision = Precision::fp32;
  conv.candidates = {{"winograd4", 550},
                     {"ref", unknown},
                     {"depthwise", unknown, {backends::Reason::group, "one input and one output channel"}}};
  Row move{"turn", {"turn"}, "Transpose", "1x8x8x4 -> 1x4x8x8", "fp32", "transpose", 100, unknown, 1};
  move.candidates = {{"ref", unknown}};
  Row plain{"odd\n", {"odd\n"}, "Det", "4x8x8 -> 4", "fp32", "ref", 300};
  plain.precision = move.precision = Precision::fp32;
  report.rows = {conv, move, plain};
  report.microseconds = 1000;
  report.nodes = {{"c", "Constant", {}, "a constant; next is stem"},
                  {"stem", "Conv", {0}, ""},
                  {"act", "Relu", {0}, ""},
                  {"turn", "Transpose", {1}, ""},
                  {"odd\n", "Det", {2}, ""}};
  find(report);
  return report;
}

TEST(ExplainText, ReadsAsTheGoldenFile) {
  EXPECT_EQ(text(report()), test::read_text(TENON_SOURCE_DIR "/tests/explain/report.golden"));
}

TEST(ExplainText, JsonOfARefusalHasItsCodeAndValues) {
  Report one = report();
  one.rows[0].candidates = {{"direct", unknown, {backends::Reason::too_many, 4, "channels"}},
                            {"stem", unknown, backends::Reason::empty}};
  const auto candidates = json(one)["steps"][0]["candidates"];
  EXPECT_EQ(candidates[0].dump(), R"({"kernel":"direct","refused":"more than 4 channels","code":"too_many",)"
                                  R"("values":[4,"channels"]})");
  EXPECT_EQ(candidates[1].dump(), R"({"kernel":"stem","refused":"nothing to do","code":"empty","values":[]})");
}

/// 1 GB/s from memory and 10 from caches of 1 MB, 1 G multiply-adds/s, and 1 us a step.
backends::Limits slow_machine() { return {1000, 10000, 1e6, 1000, 1}; }

TEST(ExplainText, ListsStepsFarFromTheFloor) {
  Report one = report();
  one.rows[0].work = {1e5, 2e5, 4};  // 200 us of products: three times that is not far
  one.rows[1].work = {1e5, 0, 4};    // 10 us of bytes from caches: nine times that is
  one.rows[2].work = {};             // not known
  set_floors(one, slow_machine());
  EXPECT_EQ(one.far, std::vector<size_t>{1});
  EXPECT_DOUBLE_EQ(one.rows[0].floor.microseconds, 201);
  EXPECT_TRUE(one.rows[0].floor.by_products);
  EXPECT_DOUBLE_EQ(one.rows[1].floor.microseconds, 11);
  one.rows[0].work.products = 1e5;
  set_floors(one, slow_machine());
  EXPECT_EQ(one.far, (std::vector<size_t>{0, 1}));
  const std::string says = text(one);
  EXPECT_NE(says.find("far from the floor (4 times it and 3 % of the network): 2\n"
                      "   this machine: 1.0 GB/s from memory, 10.0 from caches, 1.0 G multiply-adds/s, 1.00 us a step\n"
                      "   600.0 us, 5.9 times the 101.0 us of its products: stem [direct] 1x8x8x3 -> 1x8x8x4\n"
                      "      refused: depthwise: each group must have one input and one output channel\n"
                      "   100.0 us, 9.1 times the 11.0 us of its bytes: turn [transpose] 1x8x8x4 -> 1x4x8x8\n"),
            std::string::npos)
      << says;
  const auto far = json(one)["far_from_the_floor"];
  ASSERT_EQ(far.size(), 2u);
  EXPECT_EQ(far[0]["name"], "stem");
  EXPECT_EQ(far[0]["refused"][0]["code"], "group");
  EXPECT_DOUBLE_EQ(far[1]["floor_us"].get<double>(), 11);
  one.rows[1].microseconds = 29, one.microseconds = 1000;  // less than 3 % of the network
  one.rows[1].work.bytes = 1e3;
  set_floors(one, slow_machine());
  EXPECT_EQ(one.far, std::vector<size_t>{0});
}

TEST(ExplainText, WithoutLimitsThereAreNoFloors) {
  EXPECT_EQ(text(report()).find("far from"), std::string::npos);
  EXPECT_FALSE(json(report()).contains("far_from_the_floor"));
}

backends::Operand operand(const Dims& dims, bool constant = false) {
  return {DType::f32, dims, backends::dense_strides(dims), constant ? Tensor(DType::f32, dims) : Tensor(), true};
}

Work work(const char* op, std::vector<backends::Operand> inputs, const Dims& output, ir::Attributes attributes = {}) {
  ir::Graph graph;
  const ir::NodeId id = graph.add_node(op, {}, {}, std::move(attributes), {});
  backends::Problem problem;
  problem.node = &graph.node(id);
  problem.inputs = std::move(inputs), problem.outputs = {operand(output)};
  return work_of(problem);
}

TEST(Floor, CountsBytesAndProducts) {
  const Work conv = work("Conv", {operand({1, 9, 9, 8}), operand({16, 8, 3, 3}, true)}, {1, 9, 9, 16});
  EXPECT_EQ(conv.products, 81 * 16 * 8 * 9);
  EXPECT_EQ(conv.bytes, 4 * (81 * 8 + 16 * 8 * 9 + 81 * 16));
  EXPECT_EQ(work("Conv", {operand({1, 9, 9, 8}), operand({8, 1, 3, 3}, true)}, {1, 9, 9, 8}).products, 81 * 8 * 9);
  EXPECT_EQ(work("ConvTranspose", {operand({1, 9, 9, 8}), operand({8, 4, 2, 2}, true)}, {1, 18, 18, 4},
                 {{"strides", std::vector<int64_t>{2, 2}}})
                .products,
            81 * 8 * 4 * 4);
  EXPECT_EQ(work("MatMul", {operand({2, 7, 8}), operand({8, 5}, true)}, {2, 7, 5}).products, 14 * 8 * 5);
  EXPECT_EQ(work("MatMul", {operand({2, 7, 8}), operand({2, 8, 5})}, {2, 7, 5}).products, 14 * 8 * 5);
  const Work attention =
      work("tenon:DotAttention", {operand({2, 7, 8}), operand({2, 9, 8}), operand({2, 9, 6})}, {2, 7, 6});
  EXPECT_EQ(attention.products, 14 * 9 * (8 + 6));
  EXPECT_EQ(work("Add", {operand({7, 8}), operand({7, 8}, true)}, {7, 8}).products, 0);
  EXPECT_EQ(work("Gather", {operand({1000, 8}), operand({3})}, {3, 8}).bytes, 2 * 4 * 24);
}

TEST(Floor, CountsProductsOfTheResultThatTheWeightsMake) {
  ir::Graph graph;
  backends::Problem problem;
  problem.node = &graph.node(graph.add_node("tenon:PointwisePair", {}, {}, {}, {}));
  problem.inputs = {operand({1, 9, 9, 8}), operand({64, 8, 1, 1}, true), {}, {}, operand({16, 64, 1, 1}, true)};
  problem.outputs = {operand({1, 9, 9, 64}), operand({1, 9, 9, 16})};
  EXPECT_EQ(work_of(problem).products, 81 * 64 * (8 + 16));
}

TEST(ExplainText, TellsOfOneNode) {
  EXPECT_EQ(text(report(), "c"), "c (Constant): a constant; next is stem\n");
  const std::string act = text(report(), "act");
  EXPECT_NE(act.find("stem\n"), std::string::npos);
  EXPECT_EQ(act.find("turn"), std::string::npos);
}

TEST(ExplainText, AnUnknownNodeIsNamed) {
  try {
    text(report(), "stm", [](const std::string&, const std::vector<std::string>& names) { return names.at(1); });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::usage);
    EXPECT_STREQ(error.what(), "the model has no node \"stm\"");
    EXPECT_EQ(error.hint(), "did you mean stem?");
  }
}

/// An engine in fp32, one that loses little and saves little, and others that are faster and were refused.
plan::Search refused(const char* metric) {
  plan::Search search{metric, 80, 1, {}, "it is the fastest of those that lose at most 1 points"};
  search.points = {
      {17.8, 100}, {7, 93.75, 6.25, 5, 7, 57, {}}, {9, 97.66, 2.34, 1, 3, 40, {}}, {15, 99.5, 0.5, 0, 1, 2}};
  search.points[3].chosen = true;
  return search;
}

TEST(ExplainText, TheCommandThatWouldMoveOnNamesTheLeastLoss) {
  const std::string labelled = search_text(refused("mAP50-95")),
                    free = search_text(refused("mAP50-95 against fp32's boxes"));
  const std::string wanted = "to move on: --max-drop 2.4: 40 layers in INT8 would take 9.000 ms and lose 2.34 points";
  EXPECT_NE(labelled.find(wanted + "\n"), std::string::npos) << labelled;
  EXPECT_NE(free.find(wanted + "; with labels (--eval FILE) it is known what that costs\n"), std::string::npos) << free;
}

TEST(ExplainText, LabelsAreNotOfferedToWhatTakesNone) {
  plan::Search search = refused("share of positions with fp32's class");
  EXPECT_EQ(search_text(search).find("--eval"), std::string::npos) << search_text(search);
  search.points[1].objection = search.points[2].objection = "scores fall by 0.80 on average, more than 0.37";
  EXPECT_NE(search_text(search).find("to move on: more or other --data: "), std::string::npos) << search_text(search);
}

TEST(ExplainText, ColumnsAreExplainedBelowTheTable) {
  const std::string says = search_text(refused("mAP50-95"));
  for (const char* column : {"\nms: ", "; int8 layers: ", "; rest: ", "\npoints: ", "; drop: "})
    EXPECT_NE(says.find(column), std::string::npos) << column;
}

TEST(ExplainText, TheDropIsToldInTermsOfAHarmlessChange) {
  plan::Search search = refused("mAP50-95 against fp32's boxes");
  EXPECT_EQ(search_text(search).find("as much as"), std::string::npos);
  search.jitter = 0.25, search.change = "saving the images as JPEG 95 once more";
  const std::string said = "; it differs from fp32 2.0 times as much as saving the images as JPEG 95 once more does\n";
  EXPECT_NE(search_text(search).find(said), std::string::npos) << search_text(search);
  search.jitter = 1e-7, search.change = "noise in the last bit of the data";
  EXPECT_EQ(search_text(search).find("as much as"), std::string::npos) << search_text(search);
}

TEST(ExplainText, WhatIsObjectedToIsNoMatterOfADrop) {
  plan::Search search = refused("mAP50-95 against fp32's boxes");
  search.points[1].objection = search.points[2].objection = "scores fall by 0.80 on average, more than 0.37";
  EXPECT_NE(
      search_text(search).find("to move on: labels (--eval FILE): 40 layers in INT8 would take 9.000 ms and lose 2.34 "
                               "points, but scores fall by 0.80 on average, more than 0.37\n"),
      std::string::npos)
      << search_text(search);
}

TEST(ExplainText, NothingMovesOnFromTheFastest) {
  plan::Search search = refused("mAP50-95");
  search.points[3].chosen = false, search.points[1].chosen = true;
  EXPECT_EQ(search_text(search).find("to move on"), std::string::npos);
}

TEST(ExplainText, TheTableSaysWhyPointsWereRefused) {
  plan::Search search = refused("mAP50-95 against fp32's boxes");
  search.points[1].objection = "scores fall by 0.80 on average, more than 0.37";
  const std::string says = search_text(search);
  EXPECT_NE(says.find("; refused: scores fall by 0.80"), std::string::npos) << says;
  EXPECT_NE(says.find("; refused: 2.34 is more than 1\n"), std::string::npos) << says;
  search.limit = 2.34, search.points[2].drop = 2.3404;
  EXPECT_NE(search_text(search).find("; refused: 2.3404 is more than 2.34\n"), std::string::npos)
      << search_text(search);
}

/// Twelve steps that take 1 to 12 microseconds, in this order; one kernel was not asked for.
Report dozen() {
  Report report{"cpu", Precision::int8, "avx2", 2, true};
  for (int at = 1; at <= 12; ++at) {
    Row row{"step" + std::to_string(at) + ";", {}, at < 9 ? "Conv" : "Add", "1x8 -> 1x8", "fp32", "direct", 1. * at};
    row.candidates = {{"bf16_dot", unknown, {backends::Reason::precision, "bf16"}}};
    row.precision = Precision::fp32;
    report.rows.push_back(row);
    report.microseconds += at;
  }
  find(report);
  return report;
}

TEST(ExplainText, TheCostliestTenComeFirstAndTheRestIsBehindAll) {
  const std::string brief = text(dozen()), whole = text(dozen(), {}, nullptr, true);
  const std::string table = brief.substr(brief.find("the costliest 10 of 12 steps\n"));
  EXPECT_LT(table.find("step12;"), table.find("step3;")) << brief;
  EXPECT_EQ(table.find("step2;"), std::string::npos) << brief;
  EXPECT_EQ(brief.find("not asked for"), std::string::npos) << brief;
  const std::string all = whole.substr(whole.find("kernel           node"));
  EXPECT_LT(all.find("step1;"), all.find("step12;")) << whole;
  EXPECT_NE(all.find("refused: bf16_dot: bf16 was not asked for\n"), std::string::npos) << whole;
}

TEST(ExplainText, TotalsAreByOperationAndArithmetic) {
  const std::string says = text(dozen());
  EXPECT_NE(says.find("totals by kind\n"
                      "        us     %   steps\n"
                      "      42.0  53.8       4  fp32   Add\n"
                      "      36.0  46.2       8  fp32   Conv\n"),
            std::string::npos)
      << says;
}

TEST(ExplainText, ALayerHeldBackOffersInt8) {
  Report one = dozen();
  one.rows[7].kept = "in INT8 it costs too much accuracy for the 180.3 us it saves";
  one.rows[7].error = 5e-4;
  one.rows[7].op = "Conv";
  find(one);
  const std::string says = text(one);
  EXPECT_NE(says.find("in floating point, as in INT8 it costs too much accuracy for the 180.3 us it saves; INT8 here "
                      "alone: error 0.0005; INT8: --keep 'step8;=int8'\n"),
            std::string::npos)
      << says;
  const auto found = std::find_if(one.findings.begin(), one.findings.end(),
                                  [](const Finding& finding) { return finding.what.starts_with("step8;"); });
  ASSERT_NE(found, one.findings.end());
  EXPECT_EQ(found->todo,
            "INT8 was held back, as in INT8 it costs too much accuracy for the 180.3 us it saves; to have it: --keep "
            "'step8;=int8'");
}

TEST(ExplainText, RunsThatDifferAreDoubted) {
  Report one = dozen();
  one.runs = runs_of({100, 101, 102, 103, 104, 105, 106, 107, 108, 300});
  EXPECT_DOUBLE_EQ(one.runs.middle, 105);
  EXPECT_DOUBLE_EQ(one.runs.low, 101);
  EXPECT_DOUBLE_EQ(one.runs.high, 108);
  EXPECT_TRUE(doubts_of(one).empty()) << doubts_of(one)[0];
  EXPECT_NE(text(one).find("10 runs: 0.105 ms in the middle, eight of ten from 0.101 to 0.108 (spread 7 %)\n"),
            std::string::npos);
  one.runs = runs_of({100, 130, 150});
  ASSERT_EQ(doubts_of(one).size(), 1u);
  EXPECT_TRUE(doubts_of(one)[0].starts_with("runs differ by 38 %, more than 10 %: ")) << doubts_of(one)[0];
}

TEST(ExplainText, ARunIsComparedWithTheBuilds) {
  Report one = dozen();
  one.runs = runs_of({1000, 1000, 1000});
  one.evidence.search.points = {{2, 100}, {0.95, 99}};
  one.evidence.search.points[1].chosen = true;
  EXPECT_TRUE(doubts_of(one).empty());
  one.evidence.search.points[1].milliseconds = 0.5;
  ASSERT_EQ(doubts_of(one).size(), 1u);
  EXPECT_TRUE(doubts_of(one)[0].starts_with("a run takes 1.000 ms now and took 0.500 ms when the engine was built"));
}

TEST(ExplainText, AGainWithinTheSpreadOfRunsIsNoAdvice) {
  Report one = report();
  one.runs = runs_of({700, 1000, 1200});
  find(one);
  EXPECT_EQ(one.findings[0].todo.find("INT8 would save"), std::string::npos) << one.findings[0].todo;
  EXPECT_EQ(one.findings[0].todo.find("INT8 would cost"), std::string::npos) << one.findings[0].todo;
}

TEST(ExplainText, FindingsAreInOrderOfCost) {
  const Report all = report();
  ASSERT_EQ(all.findings.size(), 3u);
  EXPECT_EQ(all.findings[0].microseconds, 600);
  EXPECT_EQ(all.findings[1].microseconds, 300);
  EXPECT_EQ(all.findings[2].microseconds, 100);
}

TEST(ExplainText, ACandidateMayBeFasterAlone) {
  Report one = report();
  one.rows[0].candidates[0].microseconds = 450;
  one.findings.clear();
  find(one);
  EXPECT_EQ(one.findings[0].why,
            "direct on 1x8x8x3 -> 1x8x8x4: the fastest of 2 inside the network; alone it would be winograd4, "
            "0.90 times as long");
}

TEST(ExplainText, KeepLinesAreQuotedForAShell) {
  EXPECT_EQ(keep_line({"a'b c"}, Precision::fp32), "--keep 'a'\\''b c=fp32'");
}

}  // namespace
}  // namespace tenon::explain
