// SPDX-License-Identifier: Apache-2.0
#include "cli/wrong_words.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "base/nearest.h"
#include "cli/described.h"

namespace tenon::cli {
namespace {

struct Pointer {
  const char* word;  // as other tools have it
  const char* hint;
};

/// Options of TensorRT's trtexec, ONNX Runtime's tools, OpenVINO's benchmark_app and Ultralytics.
constexpr Pointer options[] = {
    {"--fp16", "use --precision fp16"},
    {"--half", "use --precision fp16"},
    {"--bf16", "use --precision bf16"},
    {"--fp8", "use --precision fp8 with --data"},
    {"--int8", "use --precision int8 with --data"},
    {"--best", "use --precision best with --data"},
    {"--tf32", "use --precision tf32"},
    {"--noTF32", "leave it out: FP32 is the default, TF32 is --precision tf32"},
    {"--stronglyTyped", "leave it out: a model with Q/DQ nodes keeps its types"},
    {"--onnx", "give the model without a flag: tenon build model.onnx -o model.tenon"},
    {"--model", "give the model without a flag: tenon build model.onnx"},
    {"--weights", "give the model without a flag: tenon detect model.onnx --source image.jpg"},
    {"--loadEngine", "give the engine without a flag: tenon bench model.tenon"},
    {"--engine", "give the engine without a flag: tenon bench model.tenon"},
    {"--saveEngine", "use -o: tenon build model.onnx -o model.tenon"},
    {"--minShapes", "use --shapes with the sizes to run at: --shapes input:1x3x640x640"},
    {"--optShapes", "use --shapes with the sizes to run at: --shapes input:1x3x640x640"},
    {"--maxShapes", "use --shapes with the sizes to run at: --shapes input:1x3x640x640"},
    {"--imgsz", "use --shapes, as in --shapes images:1x3x640x640"},
    {"--calib", "use --calib-cache, which also reads TensorRT's tables"},
    {"--timingCacheFile", "use --timing-cache"},
    {"--memPoolSize", "use --workspace or --max-memory"},
    {"--warmUp", "use --warmup, which counts runs"},
    {"--duration", "use --seconds"},
    {"--avgRuns", "use --iterations"},
    {"--niter", "use --iterations"},
    {"--nireq", "use --streaming"},
    {"--infStreams", "use --streaming"},
    {"--streams", "use --streaming"},
    {"--useCudaGraph", "leave it out: a GPU always runs recorded graphs"},
    {"--dumpProfile", "use tenon bench --layers"},
    {"--exportProfile", "use tenon bench --json FILE"},
    {"--exportLayerInfo", "use tenon why --json FILE"},
    {"--dumpLayerInfo", "use tenon why"},
    {"--exportTimes", "use --json FILE"},
    {"--loadInputs", "use tenon run --input NAME=FILE"},
    {"--exportOutput", "use tenon run --output-dir DIR"},
    {"--plugins", "use --plugin"},
    {"--providers", "use --device cpu or --device cuda"},
    {"--batch-size", "with build use --max-batch-size or --shapes"},
    {"--batch", "use --batch-size; with build --max-batch-size or --shapes"},
    {"--batch-sizes", "use --batch 1,4,8; beside PyTorch --pytorch-model NAME --batch-sizes 1 4 8"},
    {"--conf-thres", "use --conf"},
    {"--iou-thres", "use --iou"},
    {"--project", "use -o DIR"},
    {"--save-dir", "use -o DIR"},
    {"--name", "use -o DIR"},
    {"--save", "use -o DIR"},
    {"--nosave", "leave it out: nothing is drawn without -o"},
    {"--show", "use -o DIR: nothing opens a window"},
    {"--seed", "leave it out: random inputs have a fixed seed"},
};

constexpr Pointer verb_pointers[] = {
    {"predict", "use tenon detect, tenon segment or tenon classify"},
    {"val", "use tenon verify"},
    {"test", "use tenon verify"},
    {"benchmark", "use tenon bench"},
    {"perf", "use tenon bench"},
    {"profile", "use tenon bench --layers or tenon why"},
    {"explain", "use tenon why"},
    {"compile", "use tenon build"},
    {"convert", "use tenon build"},
    {"optimize", "use tenon build"},
    {"trtexec", "use tenon build, then tenon bench"},
    {"infer", "use tenon run"},
    {"info", "use tenon inspect"},
    {"show", "use tenon inspect"},
    {"quant", "use tenon quantize"},
    {"calibrate", "use tenon quantize, or tenon build --precision int8 --data"},
    {"gpu", "use tenon devices"},
};

template <size_t count>
std::string pointer_of(const std::string& word, const Pointer (&table)[count]) {
  for (const Pointer& one : table)
    if (word == one.word) return one.hint;
  return "";
}

std::vector<std::string> flags_of(const VerbWords& verb) {
  std::vector<std::string> flags;
  for (const OptionWords& option : verb.options)
    if (!option.is_positional) flags.insert(flags.end(), option.names.begin(), option.names.end());
  return flags;
}

bool has(const std::vector<std::string>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

/// What to do about an option that the verb does not have.
std::string hint_for(const std::string& flag, bool is_long, const std::vector<std::string>& flags,
                     const VerbWords* verb, const std::vector<VerbWords>& all) {
  if (const std::string pointer = pointer_of(flag, options); !pointer.empty()) return pointer;
  for (const VerbWords& other : all)
    if (is_long && has(flags_of(other), flag)) return flag + " is an option of tenon " + other.name;
  if (const std::string meant = is_long ? nearest(flag, flags) : ""; !meant.empty())
    return "did you mean " + meant + "?";
  return (verb ? "tenon " + verb->name : std::string("tenon")) + " --help lists the options";
}

}  // namespace

Error explain_words(const std::string& what, int argc, char** argv) {
  const std::vector<VerbWords> all = described();
  std::vector<std::string> names{"help", "version"};
  for (const VerbWords& each : all) names.push_back(each.name);
  const int at_verb = argc > 2 && std::string(argv[1]) == "help" ? 2 : 1;
  const std::string word = argc > at_verb ? argv[at_verb] : "";
  const auto verb = std::find_if(all.begin(), all.end(), [&](const VerbWords& each) { return each.name == word; });
  if (!word.empty() && word[0] != '-' && verb == all.end()) {
    const std::string pointer = pointer_of(word, verb_pointers), meant = nearest(word, names);
    return {Code::usage,
            "there is no verb \"" + word + "\"",
            {.hint = !pointer.empty() ? pointer
                     : meant.empty()  ? "tenon --help lists the verbs"
                                      : "did you mean \"" + meant + "\"?"}};
  }
  const bool known = verb != all.end();
  std::vector<std::string> flags{"-h", "--help"};
  if (!known) flags.push_back("--version");
  if (known)
    for (const std::string& flag : flags_of(*verb)) flags.push_back(flag);
  for (int at = known ? at_verb + 1 : 1; at < argc; ++at) {
    const std::string flag = std::string(argv[at]).substr(0, std::string(argv[at]).find('='));
    // -5 is a number, and -oFILE an option with its value.
    const bool is_long = flag.rfind("--", 0) == 0 && flag.size() > 2;
    const bool is_short = flag.size() == 2 && flag[0] == '-' && std::isalpha(static_cast<unsigned char>(flag[1]));
    if ((!is_long && !is_short) || has(flags, flag)) continue;
    return {Code::usage,
            "there is no option " + flag,
            {.hint = hint_for(flag, is_long, flags, known ? &*verb : nullptr, all)}};
  }
  return {Code::usage, what, {.hint = known ? "tenon " + word + " --help shows how" : "tenon --help lists the verbs"}};
}

}  // namespace tenon::cli
