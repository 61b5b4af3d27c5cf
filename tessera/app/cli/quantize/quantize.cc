// tessera quantize: a model in float as standard ONNX with narrow layers.
#include "tessera/app/quantize/quantize.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string_view>

#include <fmt/ranges.h>

#include "tessera/app/cli/common/colour.h"
#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/common/model_args.h"
#include "tessera/app/cli/common/outputs.h"
#include "tessera/app/cli/common/progress.h"
#include "tessera/app/compile/about_model.h"
#include "tessera/app/compile/batch.h"
#include "tessera/app/quantize/quantize_page.h"
#include "tessera/support/counted.h"
#include "tessera/support/files.h"

namespace tessera::cli {
namespace {

constexpr int kRandomSamples = 8;

struct QuantizeArgs {
  ModelArgs model;
  std::vector<std::string> calibration;
  std::string output, scheme = "int8", method = "minmax", tolerance = "cosine=0.99", report, format;
  app::QuantizeOptions options;
  std::int64_t block = 0;  // 0: not given
  bool symmetric = false, asymmetric = false;
  int threads = 0;
  bool no_cache = false, json = false;
};

Result<app::Tolerance> parse_tolerance(const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::string measure = equals == std::string::npos ? "cosine" : text.substr(0, equals);
  const std::string number = equals == std::string::npos ? text : text.substr(equals + 1);
  app::Tolerance out;
  const auto [end, status] =
      std::from_chars(number.data(), number.data() + number.size(), out.at_least);
  const bool is_number = status == std::errc() && end == number.data() + number.size();
  if ((measure != "cosine" && measure != "top1") || !is_number ||
      !(out.at_least >= 0 && out.at_least <= 1)) {
    return make_error(ErrorCode::kInvalidArgument,
                      "--tolerance {}: give cosine=NUMBER or top1=NUMBER with a number from 0 to 1",
                      text);
  }
  if (measure == "top1") out.measure = app::Tolerance::Measure::kTop1;
  return out;
}

// "random" or "random:COUNT".
Result<app::CalibrationData> read_calibration(const QuantizeArgs& args, const onnx::Model& model,
                                              const onnx::ImportOptions& import) {
  app::CalibrationData data;
  const bool random = std::ranges::any_of(args.calibration, [](const std::string& c) {
    return c == "random" || c.starts_with("random:");
  });
  if (!random) {
    if (args.calibration.empty()) return data;
    TESSERA_TRY(data.samples,
                app::read_samples(args.calibration, model.graph,
                                  app::open_inputs(model.graph, import), import.shapes));
    return data;
  }
  if (args.calibration.size() != 1)
    return make_error(ErrorCode::kInvalidArgument,
                      "--calibration: give files and folders, or `random` alone");
  const std::string& word = args.calibration[0];
  data.random = kRandomSamples;
  if (word != "random") {
    const std::string count = word.substr(std::string_view("random:").size());
    const auto [end, status] =
        std::from_chars(count.data(), count.data() + count.size(), data.random);
    if (status != std::errc() || end != count.data() + count.size() || data.random < 1 ||
        data.random > 10000)
      return make_error(ErrorCode::kInvalidArgument,
                        "--calibration {}: the number of samples must be from 1 to 10000", word);
  }
  print_warning(
      "calibrating with random values. Ranges and errors of a trained model will be WRONG: give "
      "real inputs with --calibration");
  return data;
}

const std::map<std::string, app::Scheme>& schemes() {
  using app::Scheme;
  static const std::map<std::string, Scheme> kSchemes = {{"int8", Scheme::kInt8},
                                                         {"int8-dynamic", Scheme::kInt8Dynamic},
                                                         {"int8-weights", Scheme::kInt8Weights},
                                                         {"int4-weights", Scheme::kInt4Weights},
                                                         {"fp8", Scheme::kF8}};
  return kSchemes;
}

// What only schemes with weights in blocks have.
Result<void> read_blocks(QuantizeArgs* args) {
  const char* flag = args->block != 0                      ? "--block"
                     : !args->format.empty()               ? "--format"
                     : args->symmetric || args->asymmetric ? "--symmetric and --asymmetric"
                                                           : nullptr;
  if (!flag) return {};
  if (!app::stores_weights(args->options.scheme)) {
    return make_error(ErrorCode::kInvalidArgument,
                      "{} is for --scheme int4-weights and int8-weights, not {}", flag,
                      args->scheme);
  }
  if (args->symmetric && args->asymmetric)
    return make_error(ErrorCode::kInvalidArgument, "give --symmetric or --asymmetric, not both");
  if (args->block != 0) args->options.blocks.size = args->block;
  args->options.blocks.symmetric = !args->asymmetric;
  if (args->format == "contrib") args->options.form = app::BlockForm::kMatMulNBits;
  return {};
}

Result<void> read_options(QuantizeArgs* args) {
  using app::RangeMethod;
  static const std::map<std::string, RangeMethod> kMethods = {
      {"minmax", RangeMethod::kMinMax},
      {"percentile", RangeMethod::kPercentile},
      {"entropy", RangeMethod::kEntropy},
      {"mse", RangeMethod::kMse}};
  args->options.scheme = schemes().at(args->scheme);
  args->options.method = kMethods.at(args->method);
  TESSERA_TRY(args->options.tolerance, parse_tolerance(args->tolerance));
  TESSERA_DO(read_blocks(args));
  if (app::rounds_values(args->options.scheme) && args->calibration.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "--scheme {} needs --calibration: .npz files, a folder of them, or random",
                      args->scheme);
  }
  if (!args->output.ends_with(".onnx"))
    return make_error(ErrorCode::kInvalidArgument, "-o {}: the name must end in .onnx",
                      args->output);
  TESSERA_DO(check_output_file(args->output));
  if (!args->report.empty()) TESSERA_DO(check_output_file(args->report));
  return {};
}

Result<app::QuantizedModel> quantize_model(const QuantizeArgs& args) {
  TESSERA_TRY(const onnx::Model model, app::load_onnx(args.model.model));
  TESSERA_TRY(app::CompileOptions how,
              compile_options(args.model, target::code_target(target::host(), args.threads)));
  how.cache = kernel_cache(args.no_cache);
  TESSERA_TRY(const app::CalibrationData data, read_calibration(args, model, how.import));
  ProgressLine line;
  app::QuantizeCallbacks callbacks;
  callbacks.progress = [&](const std::string& stage, std::size_t done, std::size_t total) {
    line.show(total > 1 ? fmt::format("{} {}/{}", stage, done, total) : stage);
  };
  callbacks.interrupted = [] { return interrupted(); };
  how.progress = [&](std::size_t done, std::size_t total) {
    line.show(fmt::format("compiling {}/{}", done, total));
  };
  auto result = app::quantize(model, data, args.options, how, callbacks);
  line.finish();
  return result;
}

const char* text_of(app::QuantizedLayer::Kept kept) {
  switch (kept) {
    case app::QuantizedLayer::Kept::kNo:
      return "narrow";
    case app::QuantizedLayer::Kept::kAsked:
      return "float: --keep";
    case app::QuantizedLayer::Kept::kSensitive:
      return "float: sensitive";
  }
  return "";
}

// A bar on a logarithmic scale: errors of layers differ by orders of magnitude.
std::string bar(double error) {
  const double decades = error > 0 ? std::max(0.0, std::log10(error) + 8) : 0;
  std::string out;
  for (int i = 0; i < static_cast<int>(std::lround(std::min(decades, 8.0) * 3)); ++i) out += '#';
  return out;
}

void print_layers(const app::QuantizedModel& q) {
  std::size_t width = 5;
  for (const app::QuantizedLayer& layer : q.layers) width = std::max(width, layer.name.size());
  fmt::print("{:<{}}  {:<7}  {:<16}  {:>8}\n", "layer", width, "op", "type", "error");
  for (const app::QuantizedLayer& layer : q.layers) {
    const std::string error = layer.error < 0 ? "-" : fmt::format("{:.1e}", layer.error);
    fmt::print("{:<{}}  {:<7}  {:<16}  {:>8}  {}\n", layer.name, width, layer.op,
               text_of(layer.kept), error, bar(layer.error));
  }
}

void print_result(const QuantizeArgs& args, const app::QuantizedModel& q, std::int64_t bytes) {
  const auto narrow = static_cast<std::size_t>(std::ranges::count_if(
      q.layers, [](const auto& l) { return l.kept == app::QuantizedLayer::Kept::kNo; }));
  if (args.json) {
    Json json = {{"model", args.model.model}, {"output", args.output},  {"bytes", bytes},
                 {"narrow", narrow},          {"samples", q.samples},   {"folded", q.folded},
                 {"equalized", q.equalized},  {"smoothed", q.smoothed}, {"layers", Json::array()}};
    if (q.accuracy) {
      json["cosine"] = q.accuracy->cosine;
      json["top1"] = q.accuracy->top1;
    }
    for (const app::QuantizedLayer& layer : q.layers) {
      Json one = {{"name", layer.name}, {"op", layer.op}, {"type", text_of(layer.kept)}};
      if (layer.error >= 0) one["error"] = layer.error;
      json["layers"].push_back(std::move(one));
    }
    return print_json(json);
  }
  print_layers(q);
  fmt::print("{} of {} narrow; {} bytes in {}\n", narrow, counted(q.layers.size(), "layer"), bytes,
             args.output);
  if (q.accuracy) {
    fmt::print("compared with float on {}: cosine {:.5f}, top-1 agreement {:.3f}\n",
               counted(q.samples, "sample"), q.accuracy->cosine, q.accuracy->top1);
  } else {
    fmt::print("not compared with float: --calibration gives samples for that\n");
  }
}

int quantize_command(QuantizeArgs& args) {
  if (const Result<void> ready = read_options(&args); !ready) return report(ready.error());
  catch_interrupt();
  const Result<app::QuantizedModel> q = quantize_model(args);
  if (interrupted()) {
    fmt::print(stderr, "tessera: interrupted; nothing was written\n");
    return interrupt_code();
  }
  if (!q.ok()) return report_model(app::about_model(q.error(), args.model.model));
  if (const Result<void> saved = onnx::save_model(q->model, args.output); !saved)
    return report(saved.error());
  if (!args.report.empty()) {
    const std::string page = app::quantize_page(args.model.model, *q, args.options.tolerance);
    if (const Result<void> saved = write_file(args.report, {page}); !saved)
      return report(saved.error());
  }
  std::error_code ignored;
  print_result(args, *q,
               static_cast<std::int64_t>(std::filesystem::file_size(args.output, ignored)));
  if (!q->accuracy || args.options.tolerance.holds(*q->accuracy)) return kOk;
  print_warning(fmt::format("the tolerance {} does not hold", args.tolerance));
  return kWrongNumbers;
}

}  // namespace

void add_quantize(Flags& app, std::function<int()>* run) {
  Flags* sub = app.add_subcommand("quantize", "Write a model with narrow layers");
  sub->footer(
      "Examples:\n  tessera quantize model.onnx --calibration samples -o model.int8.onnx\n"
      "  tessera quantize model.onnx --calibration a.npz b.npz --method mse --tolerance top1=0.98 "
      "-o out.onnx\n  tessera quantize model.onnx --scheme int8-dynamic -o out.onnx\n"
      "  tessera quantize model.onnx --scheme int4-weights --block 64 -o out.onnx\n"
      "docs/guide/quantised.md says more.");
  const auto args = std::make_shared<QuantizeArgs>();
  add_model_options(*sub, args->model, true);
  sub->add_option("--calibration", args->calibration,
                  "Inputs: .npz files with one array per input, .npy files of the only input, "
                  "folders of them; or random[:COUNT]")
      ->allow_extra_args(true);
  sub->add_option("-o,--output", args->output, "ONNX file to write")->required();
  sub->add_option("--scheme", args->scheme,
                  "int8 and fp8: weights and activations; int8-dynamic: activations scaled at run "
                  "time; int4-weights and int8-weights: weights of matrices and tables in blocks")
      ->check(one_of({"int8", "int8-dynamic", "int8-weights", "int4-weights", "fp8"}));
  sub->add_option("--block", args->block, "Weights that share a scale: 32 (default), 64 or 128")
      ->check(one_of({"32", "64", "128"}))
      ->hide_default();
  sub->add_flag("--symmetric", args->symmetric, "Blocks without zero points (default)");
  sub->add_flag("--asymmetric", args->asymmetric, "Blocks with zero points");
  sub->add_option("--format", args->format,
                  "Weights in blocks as standard DequantizeLinear (qdq, default) or as MatMulNBits "
                  "of com.microsoft (contrib)")
      ->check(one_of({"qdq", "contrib"}));
  sub->add_option("--method", args->method, "How ranges of activations are chosen")
      ->check(one_of({"minmax", "percentile", "entropy", "mse"}));
  sub->add_option("--keep", args->options.keep, "Nodes that stay float, by name")
      ->allow_extra_args(true);
  sub->add_option("--tolerance", args->tolerance,
                  "cosine=NUMBER or top1=NUMBER: the most sensitive layers stay float until the "
                  "outputs agree with the float model so far");
  sub->add_option("--report", args->report, "HTML page to write, with a bar per layer");
  add_threads_option(*sub, args->threads, "Threads that run the samples");
  add_cache_option(*sub, args->no_cache);
  sub->add_flag("--json", args->json, "Print JSON");
  sub->callback([args, run] {
    *run = [args] { return with_batch(args->model, [&] { return quantize_command(*args); }); };
  });
}

}  // namespace tessera::cli
