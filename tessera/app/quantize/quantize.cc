#include "tessera/app/quantize/quantize.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tessera/app/bench/compare_outputs.h"
#include "tessera/app/quantize/equalize_layers.h"
#include "tessera/app/quantize/fold_batch_norms.h"
#include "tessera/app/quantize/raise_opset.h"
#include "tessera/app/quantize/smooth_layers.h"
#include "tessera/support/counted.h"
#include "tessera/support/nearest_name.h"

namespace tessera::app {
namespace {

// Sensitivities order layers; a few samples suffice for that.
constexpr std::size_t kSensitivitySamples = 4;

using Outputs = std::vector<HostTensor>;

// The sums that a cosine is made of.
struct Products {
  double both = 0, got = 0, want = 0;

  void add(const HostTensor& a, const HostTensor& b) {
    for (std::int64_t i = 0; i < b.size(); ++i) {
      const double x = a.get_float(i), y = b.get_float(i);
      both += x * y;
      got += x * x;
      want += y * y;
    }
  }
  double cosine() const {
    if (got == want && both == got) return 1;  // the same, zeros too
    const double lengths = std::sqrt(got) * std::sqrt(want);
    return lengths > 0 ? both / lengths : 0;
  }
};

class Comparison {
 public:
  void add(const Outputs& got, const Outputs& want) {
    products_.resize(want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      if (is_float(want[i].dtype())) products_[i].add(got[i], want[i]);
    }
    top1_ += agreement(got, want).argmax;
    ++samples_;
  }
  Accuracy result() const {
    Accuracy out{1, samples_ > 0 ? top1_ / samples_ : 1};
    for (const Products& p : products_) {
      const double c = p.cosine();
      out.cosine = std::isfinite(c) ? std::min(out.cosine, c) : -1;
    }
    return out;
  }

 private:
  std::vector<Products> products_;
  double top1_ = 0, samples_ = 0;
};

Outputs all_outputs(const SampleRunner& runner) {
  Outputs out;
  for (std::size_t i = 0; i < runner.outputs().size(); ++i) out.push_back(runner.output(i).clone());
  return out;
}

class Quantizer {
 public:
  Quantizer(const onnx::Model& model, const QuantizeOptions& options, const CompileOptions& compile,
            const QuantizeCallbacks& callbacks)
      : model_(model), options_(options), compile_(compile), callbacks_(callbacks) {}

  Result<QuantizedModel> run(const CalibrationData& data) {
    TESSERA_DO(raise());
    out_.folded = fold_batch_norms(model_.graph);
    if (options_.equalize && options_.scheme == Scheme::kInt8)
      out_.equalized = equalize_layers(model_.graph);
    TESSERA_DO(find());
    TESSERA_DO(reference(data));
    TESSERA_DO(calibrate());
    make_weights();
    if (!samples_.empty()) TESSERA_DO(choose());
    // The written model adds in integers what the choice was made with in float: one more layer may
    // have to stay.
    for (;; ++kept_) {
      out_.model = write_narrow(model_, how_, without(kept_));
      TESSERA_DO(check());
      if (!out_.accuracy || options_.tolerance.holds(*out_.accuracy) || kept_ == order_.size())
        break;
    }
    const std::vector<bool> narrow = without(kept_);
    for (std::size_t i = 0; i < narrow.size(); ++i) {
      out_.layers[i].kept = narrow[i]   ? QuantizedLayer::Kept::kNo
                            : asked_[i] ? QuantizedLayer::Kept::kSensitive
                                        : QuantizedLayer::Kept::kAsked;
    }
    out_.model.producer = "tessera";
    return std::move(out_);
  }

 private:
  // The newest forms of the operators, where the model can say the same in them; com.microsoft has
  // all but floats of eight bits besides.
  Result<void> raise() {
    if (!stores_weights(options_.scheme) && options_.scheme != Scheme::kF8) return {};
    const Result<void> done = raise_opset(model_, needed_opset(options_.scheme));
    return options_.scheme == Scheme::kF8 ? done : Result<void>{};
  }

  Result<void> find() {
    how_.scheme = options_.scheme;
    how_.form = options_.form;
    how_.blocks = options_.blocks;
    how_.blocks.bits = options_.scheme == Scheme::kInt4Weights ? 4 : 8;
    const bool stored = stores_weights(options_.scheme);
    how_.layers = stored ? find_matrices(model_.graph) : find_layers(model_.graph);
    if (how_.layers.empty()) {
      return make_error(ErrorCode::kUnsupported,
                        "nothing to quantise: the model has no {} with constant weights in f32",
                        stored ? "Gemm, MatMul or Gather" : "Conv, Gemm or MatMul");
    }
    asked_.assign(how_.layers.size(), true);
    for (const Layer& layer : how_.layers)
      out_.layers.push_back({layer.name, model_.graph.nodes[layer.node].op_type, -1});
    for (const std::string& name : options_.keep) {
      std::vector<std::string> names;
      bool found = false;
      for (std::size_t i = 0; i < how_.layers.size(); ++i) {
        names.push_back(how_.layers[i].name);
        if (names.back() != name) continue;
        asked_[i] = false;
        found = true;
      }
      if (found) continue;
      return make_error(ErrorCode::kInvalidArgument, "no layer is called '{}'{}", name,
                        suggest_name(name, names));
    }
    return {};
  }

  // Samples, and what the float model makes of them.
  Result<void> reference(const CalibrationData& data) {
    samples_ = data.samples;
    if (samples_.empty() && data.random == 0) {
      if (!rounds_values(options_.scheme)) return {};
      return make_error(ErrorCode::kInvalidArgument, "{} needs calibration data",
                        options_.scheme == Scheme::kF8 ? "fp8" : "int8");
    }
    if (!samples_.empty()) {
      for (const auto& [name, tensor] : samples_[0])
        compile_.import.shapes.try_emplace(name, tensor.shape());
    }
    TESSERA_TRY(SampleRunner runner, SampleRunner::open(model_, compile_));
    for (int i = 0; i < data.random; ++i)
      samples_.push_back(runner.random_sample(static_cast<std::uint64_t>(i) + 1));
    out_.samples = samples_.size();
    for (const Sample& sample : samples_) {
      TESSERA_DO(runner.run(sample));
      want_.push_back(all_outputs(runner));
      TESSERA_DO(step_done(callbacks_, "running in float", want_.size(), samples_.size()));
    }
    const auto is_usable = [](const HostTensor& t) { return is_float(t.dtype()); };
    if (std::none_of(want_[0].begin(), want_[0].end(), is_usable)) {
      return make_error(ErrorCode::kUnsupported,
                        "the model has no float output to compare; cut it before its last step");
    }
    return {};
  }

  Result<void> calibrate() {
    if (samples_.empty()) return {};
    const bool matrices =
        std::ranges::any_of(how_.layers, [](const Layer& layer) { return !layer.is_image(); });
    if (options_.smooth && matrices && !stores_weights(options_.scheme)) {
      TESSERA_TRY(seen_, observe(model_, watched(), samples_, false, compile_, callbacks_));
      out_.smoothed = smooth_layers(model_.graph, seen_);
      if (out_.smoothed > 0) how_.layers = find_layers(model_.graph);
    }
    const bool static_scales = rounds_values(options_.scheme);
    if (static_scales) how_.values = find_narrow_values(model_.graph, how_.layers);
    if (!seen_.empty() && out_.smoothed == 0 && !static_scales) return {};
    const bool histograms = static_scales && options_.method != RangeMethod::kMinMax;
    TESSERA_TRY(seen_, observe(model_, watched(), samples_, histograms, compile_, callbacks_));
    std::map<std::size_t, Range> ranges;
    for (const auto& [name, value] : how_.values) {
      const Range r = choose_range(seen_.at(name), options_.method);
      Range& all = ranges[value.group];
      all = {std::min(all.low, r.low), std::max(all.high, r.high)};
    }
    const bool floats = options_.scheme == Scheme::kF8;
    for (const auto& [group, range] : ranges)
      how_.scales[group] = floats ? short_float_scale(range) : byte_scale(range);
    return {};
  }

  std::vector<Watched> watched() const {
    std::vector<Watched> out;
    for (const Layer& layer : how_.layers) {
      if (!layer.is_table()) out.push_back({layer.x, layer.is_image()});
    }
    for (const auto& [name, value] : how_.values) out.push_back({name, true});
    return out;
  }

  void make_weights() {
    const ModelIndex index(model_.graph);
    for (const Layer& layer : how_.layers) {
      const HostTensor& w = *index.constant(layer.weight);
      const HostTensor* b = layer.bias.empty() ? nullptr : index.constant(layer.bias);
      const auto seen = seen_.find(layer.x);
      const Observed* x = options_.correct_bias && seen != seen_.end() ? &seen->second : nullptr;
      if (stores_weights(options_.scheme)) {
        how_.weights.push_back(block_weights(layer, w, b, nullptr, how_.blocks));
        continue;
      }
      if (options_.scheme == Scheme::kF8) {
        how_.weights.push_back(short_float_weights(layer, w, b, x));
        continue;
      }
      const bool steps = options_.scheme == Scheme::kInt8 && layer.added < 0;
      const double scale = steps ? how_.scales.at(how_.values.at(layer.x).group).scale : 0;
      how_.weights.push_back(byte_weights(layer, w, b, x, scale));
    }
  }

  // The accuracy with these layers narrow, by the model with switches.
  Result<Accuracy> accuracy_of(SampleRunner& runner, const std::vector<bool>& narrow,
                               std::size_t samples) const {
    Sample switches;
    const auto set = [&](const std::string& name, bool on) {
      HostTensor t(DType::kBool, {});
      t.set_int(0, on ? 1 : 0);
      switches[name] = std::move(t);
    };
    std::map<std::size_t, bool> groups;
    for (std::size_t i = 0; i < narrow.size(); ++i) {
      set(switch_name(i), narrow[i]);
      if (rounds_values(options_.scheme)) {
        bool& on = groups[how_.values.at(how_.layers[i].x).group];
        on = on || narrow[i];
      }
    }
    for (const auto& [group, on] : groups) set(group_switch_name(group), on);
    Comparison comparison;
    for (std::size_t s = 0; s < samples; ++s) {
      Sample sample = samples_[s];
      sample.insert(switches.begin(), switches.end());
      TESSERA_DO(runner.run(sample));
      comparison.add(all_outputs(runner), want_[s]);
    }
    return comparison.result();
  }

  // All layers that may be narrow but the `kept` most sensitive ones.
  std::vector<bool> without(std::size_t kept) const {
    std::vector<bool> narrow = asked_;
    for (std::size_t i = 0; i < kept; ++i) narrow[order_[i]] = false;
    return narrow;
  }

  // Orders the layers by sensitivity, and finds how many have to stay float.
  Result<void> choose() {
    CompileOptions how = compile_;
    how.integer_products = 0;
    TESSERA_TRY(SampleRunner runner, SampleRunner::open(write_switched(model_, how_), how));
    const std::size_t few = std::min(samples_.size(), kSensitivitySamples);
    for (std::size_t i = 0; i < asked_.size(); ++i) {
      std::vector<bool> alone(asked_.size(), false);
      alone[i] = true;
      TESSERA_TRY(const Accuracy a, accuracy_of(runner, alone, few));
      out_.layers[i].error = 1 - a.cosine;
      if (asked_[i]) order_.push_back(i);
      TESSERA_DO(step_done(callbacks_, "measuring layers", i + 1, asked_.size()));
    }
    std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
      return out_.layers[a].error > out_.layers[b].error;
    });
    const auto holds = [&](std::size_t kept) -> Result<bool> {
      TESSERA_TRY(const Accuracy a, accuracy_of(runner, without(kept), samples_.size()));
      TESSERA_DO(step_done(callbacks_, fmt::format("{} in float", counted(kept, "layer")), 1, 1));
      return options_.tolerance.holds(a);
    };
    TESSERA_TRY(kept_, least(order_.size(), holds));
    return {};
  }

  // The smallest count that holds, where larger ones do too: doubling, then halving.
  static Result<std::size_t> least(std::size_t most,
                                   const std::function<Result<bool>(std::size_t)>& holds) {
    std::size_t below = 0, above = 0;  // `below` counts fail, from `above` on they hold
    for (;;) {
      TESSERA_TRY(const bool good, holds(above));
      if (good || above == most) break;
      below = above + 1;
      above = std::min(most, std::max<std::size_t>(2 * above, 1));
    }
    while (below < above) {
      const std::size_t middle = below + (above - below) / 2;
      TESSERA_TRY(const bool good, holds(middle));
      (good ? above : below) = good ? middle : middle + 1;
    }
    return above;
  }

  // What was written, compiled as it will be.
  Result<void> check() {
    if (samples_.empty()) return {};
    TESSERA_TRY(SampleRunner runner, SampleRunner::open(out_.model, compile_));
    Comparison comparison;
    for (std::size_t s = 0; s < samples_.size(); ++s) {
      TESSERA_DO(runner.run(samples_[s]));
      comparison.add(all_outputs(runner), want_[s]);
      TESSERA_DO(step_done(callbacks_, "checking", s + 1, samples_.size()));
    }
    out_.accuracy = comparison.result();
    return {};
  }

  onnx::Model model_;
  const QuantizeOptions& options_;
  CompileOptions compile_;
  const QuantizeCallbacks& callbacks_;
  QuantizedModel out_;
  NarrowModel how_;
  std::vector<bool> asked_;         // layers that the user does not keep
  std::vector<std::size_t> order_;  // those, the most sensitive first
  std::size_t kept_ = 0;            // of them that stay float
  std::vector<Sample> samples_;
  std::vector<Outputs> want_;  // of each sample
  std::map<std::string, Observed> seen_;
};

}  // namespace

Result<QuantizedModel> quantize(const onnx::Model& model, const CalibrationData& data,
                                const QuantizeOptions& options, const CompileOptions& compile,
                                const QuantizeCallbacks& callbacks) {
  return Quantizer(model, options, compile, callbacks).run(data);
}

}  // namespace tessera::app
