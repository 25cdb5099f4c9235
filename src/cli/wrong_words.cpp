// SPDX-License-Identifier: Apache-2.0
#include "cli/wrong_words.h"

#include <algorithm>
#include <cctype>
#include <regex>
#include <string_view>
#include <vector>

#include "base/entries.h"
#include "base/nearest.h"
#include "cli/described.h"

namespace tenon::cli {
namespace {

struct Pointer {
  const char* word;  // as other tools have it
  const char* hint;
};

constexpr const char* ranges = "use --profile LEAST..BEST..MOST: --profile images:1x3x64x64..1x3x320x320..8x3x640x640";
constexpr const char* sizes = "use --shapes, as in --shapes images:1x3x640x640";

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
    {"--minShapes", ranges},
    {"--optShapes", ranges},
    {"--maxShapes", ranges},
    {"--img-size", sizes},
    {"--img", sizes},
    {"--imgsz", sizes},
    {"--calib", "use --calib-cache, which also reads TensorRT's tables"},
    {"--timingCacheFile", "use --timing-cache"},
    {"--memPoolSize", "use --workspace or --max-memory"},
    {"--explicitBatch", "leave it out: the batch is as the model has it"},
    {"--maxBatch", "use --max-batch-size"},
    {"--builderOptimizationLevel", "use --budget, the time for tuning: 0 for none, 5s, 1m"},
    {"--noDataTransfers", "leave it out: tenon bench on a GPU gives the times without copies, too"},
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
    {"--fp32", "leave it out: FP32 is the default"},
    {"--dtype", "use --precision"},
    {"--infer-precision", "use --precision"},
    {"--hint", "leave it out: tenon bench gives latency and throughput"},
    {"--layerPrecisions", "use --keep NODE=fp32, with --precision int8"},
    {"--precisionConstraints", "use --keep NODE=fp32, with --precision int8"},
    {"--inputIOFormats", "leave it out: inputs and outputs have the model's types"},
    {"--outputIOFormats", "leave it out: inputs and outputs have the model's types"},
    {"--skipInference", "leave it out: tenon build runs kernels to time them; --budget 0 times none"},
    {"--buildOnly", "leave it out: tenon build only builds, tenon bench measures"},
    {"--noBuilderCache", "use --timing-cache -"},
    {"--profilingVerbosity", "leave it out: tenon why knows every layer"},
    {"--separateProfileRun", "leave it out: tenon bench --layers profiles in runs of its own"},
    {"--useSpinWait", "leave it out"},
    {"--useDLACore", "use --device cpu or --device cuda: there is no other"},
    {"--allowGPUFallback", "leave it out: layers that a device cannot take run elsewhere by themselves"},
    {"--sparsity", "leave it out: zeros are not made use of"},
    {"--refit", "leave it out: weights can be changed from Python"},
    {"--versionCompatible", "leave it out"},
    {"--stripWeights", "leave it out: an engine holds its weights"},
    {"--gpu", "use --device cuda"},
    {"--cuda", "use --device cuda"},
    {"--use-gpu", "use --device cuda"},
    {"--cpu", "use --device cpu"},
    {"--ep", "use --device cpu or --device cuda"},
    {"--opset", "leave it out: the opset is the model's"},
    {"--dynamic", "use tenon export --dynamic-batch, or --profile for a range of sizes"},
    {"--input-shape", sizes},
    {"--iters", "use --iterations"},
    {"--line-width", "leave it out: lines are as thick as the image's size asks for"},
    {"--line-thickness", "leave it out: lines are as thick as the image's size asks for"},
    {"--view-img", "use -o DIR: nothing opens a window"},
    {"--save-conf", "leave it out: --save-txt writes the scores, too"},
    {"--exist-ok", "leave it out: a file of the same name in -o DIR is replaced"},
    {"--retina-masks", "leave it out: masks have the size of the image"},
    {"--augment", "leave it out: each image runs once"},
    {"--seed", "leave it out: random inputs have a fixed seed"},
};

/// Options of one letter, after a verb and before it.
constexpr Pointer letters[] = {
    {"-m", "give the model without a flag: tenon bench model.onnx"},
    {"-d", "use --device"},
    {"-b", "use --batch"},
    {"-t", "use --seconds for a time, --threads for threads"},
    {"-n", "use --iterations"},
    {"-V", "use --version"},
};
constexpr Pointer first_letters[] = {
    {"-v", "use --version"},
    {"-V", "use --version"},
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
    {"track", "use tenon detect: objects are found in each frame by itself"},
    {"obb", "use tenon detect"},
    {"pose", "use tenon detect"},
    {"serve", "use the library: docs/cpp.md and docs/manual/python.md show how"},
    {"info", "use tenon inspect"},
    {"show", "use tenon inspect"},
    {"quant", "use tenon quantize"},
    {"calibrate", "use tenon quantize, or tenon build --precision int8 --data"},
    {"gpu", "use tenon devices"},
};

/// A word as all ways to write it have in common: --minShapes, --min-shapes, --min_shapes.
std::string plain(std::string_view word) {
  std::string letters;
  for (const char c : word)
    if (c != '-' && c != '_') letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return letters;
}

template <size_t count>
std::string pointer_of(const std::string& word, const Pointer (&table)[count]) {
  for (const Pointer& one : table)
    if (plain(word) == plain(one.word)) return one.hint;
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
  if (!is_long) {
    const std::string pointer = verb ? pointer_of(flag, letters) : pointer_of(flag, first_letters);
    if (!pointer.empty()) return pointer;
  }
  for (const std::string& own : flags)
    if (is_long && plain(own) == plain(flag)) return "did you mean " + own + "?";
  if (const std::string pointer = is_long ? pointer_of(flag, options) : ""; !pointer.empty()) return pointer;
  for (const VerbWords& other : all)
    if (is_long && has(flags_of(other), flag)) return flag + " is an option of tenon " + other.name;
  if (const std::string meant = is_long ? nearest(flag, flags) : ""; !meant.empty())
    return "did you mean " + meant + "?";
  return (verb ? "tenon " + verb->name : std::string("tenon")) + " --help lists the options";
}

/// What to do about "conf=0.3", as Ultralytics takes its options; "" for other words.
std::string hint_for_pair(const std::string& word, const std::vector<std::string>& flags) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0 || word[0] == '-') return "";
  std::string flag = "--" + word.substr(0, equals);
  std::replace(flag.begin(), flag.end(), '_', '-');
  if (has(flags, flag)) return "options begin with dashes: " + flag + " " + word.substr(equals + 1);
  return pointer_of(flag, options);
}

/// The parser's message in the words of this command.
Error in_house_words(const std::string& what, const std::string& hint, int argc, char** argv) {
  std::smatch part;
  const auto is = [&](const char* form) { return std::regex_match(what, part, std::regex(form)); };
  if (is("Could not convert: (-\\S+) = (.*)") || is("(-\\S+): Value (.*) not in range .*")) {
    const std::string value = part[2];
    const bool number = value.find_first_not_of("+-.0123456789") == std::string::npos && !value.empty();
    const size_t range = what.find(" not in range ");
    return {Code::usage,
            "invalid value \"" + value + "\"",
            {.where = part[1],
             .why = range != std::string::npos ? ""
                    : number                   ? "it is no number that fits here"
                                               : "it is not a number",
             .hint = range == std::string::npos ? hint : "give " + what.substr(range + 14)}};
  }
  if (is("(-\\S+): At Most 1 required but received (\\d+)"))
    return {Code::usage, part[1].str() + " is given " + part[2].str() + " times", {.hint = "give it once"}};
  if (is("(-\\S+): \\d+ required \\S+ missing")) return {Code::usage, part[1].str() + " needs a value", {.hint = hint}};
  if (is("The following arguments? w(?:as|ere) not expected: (.*)")) {
    // The parser gives them from the last to the first.
    const std::string list = " " + part[1].str() + " ";
    for (int at = 1; at < argc; ++at)
      if (const std::string word = argv[at]; list.find(" " + word + " ") != std::string::npos)
        return {Code::usage, "unexpected word \"" + word + "\"", {.hint = hint}};
    return {Code::usage, "unexpected words \"" + part[1].str() + "\"", {.hint = hint}};
  }
  return {Code::usage, what, {.hint = hint}};
}

}  // namespace

void require_dashes(int argc, char** argv) {
  const std::vector<VerbWords> all = described();
  const auto verb = std::find_if(all.begin(), all.end(), [&](const VerbWords& each) { return each.name == argv[1]; });
  if (verb == all.end()) return;
  for (int at = 2; at < argc; ++at) {
    const std::string word = argv[at], hint = hint_for_pair(word, flags_of(*verb));
    if (!hint.empty() && argv[at - 1][0] != '-' && !is_there(word))
      throw Error(Code::usage, "unexpected word \"" + word + "\"", {.hint = hint});
  }
}

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
  if (known) require_dashes(argc, argv);
  return in_house_words(what, known ? "tenon " + word + " --help shows how" : "tenon --help lists the verbs", argc,
                        argv);
}

}  // namespace tenon::cli
