#include "tessera/frontend/checkpoint/config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <optional>

#include "tessera/frontend/checkpoint/json_file.h"
#include "tessera/frontend/checkpoint/names.h"
#include "tessera/frontend/gguf/architecture.h"
#include "tessera/support/invalid.h"

namespace tessera::checkpoint {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostHead = std::int64_t{1} << 24;

// A row of the table of models.
struct ModelType {
  const char* name = "";    // model_type
  const char* family = "";  // of GGUF
  bool window = false;      // the family has windows of its own; others are cut to one window
  bool norms_around = false;
  bool norms_from_one = false;
};

constexpr std::array kModelTypes = {
    ModelType{.name = "gemma", .family = "gemma", .norms_from_one = true},
    ModelType{.name = "gemma2",
              .family = "gemma2",
              .window = true,
              .norms_around = true,
              .norms_from_one = true},
    ModelType{.name = "gemma3_text",
              .family = "gemma3",
              .window = true,
              .norms_around = true,
              .norms_from_one = true},
    ModelType{.name = "llama", .family = "llama"},
    ModelType{.name = "mistral", .family = "llama"},
    ModelType{.name = "phi3", .family = "phi3", .window = true},
    ModelType{.name = "qwen2", .family = "qwen2"},
    ModelType{.name = "qwen3", .family = "qwen3"},
    ModelType{.name = "smollm3", .family = "smollm3"},
};

class ConfigReader {
 public:
  ConfigReader(const json& config, const std::string& file, Parts* parts)
      : config_(config), file_(file), parts_(*parts) {}

  Result<Config> read() {
    TESSERA_TRY(const std::string type, text(config_, "model_type", ""));
    const auto* row =
        std::ranges::find_if(kModelTypes, [&](const auto& t) { return t.name == type; });
    if (row == kModelTypes.end()) {
      std::string known;
      for (const ModelType& t : kModelTypes)
        known += fmt::format("{}{}", known.empty() ? "" : ", ", t.name);
      return unsupported("model_type '{}'; those known are {}", type, known);
    }
    type_ = *row;
    if (!member(config_, "quantization_config").is_null())
      return unsupported("quantization_config: weights in this form");
    Config out{.family = type_.family,
               .tied = false,
               .norms_around = type_.norms_around,
               .norms_from_one = type_.norms_from_one};
    // What `transformers` takes where the file does not say.
    const bool ties = out.family.starts_with("gemma") || out.family == "smollm3";
    TESSERA_TRY(out.tied, flag(config_, "tie_word_embeddings", ties));
    parts_.set("general.architecture", {parts_.keep(out.family)});
    parts_.set(gguf::kHalves, {true});
    TESSERA_DO(copy_fields());
    TESSERA_DO(check_activation());
    TESSERA_DO(read_scale());
    TESSERA_DO(read_window());
    TESSERA_DO(check_unrotated());
    TESSERA_DO(read_positions());
    return out;
  }

 private:
  template <class... Args>
  Error unsupported(fmt::format_string<Args...> format, Args&&... args) const {
    return make_error(ErrorCode::kUnsupported, "{}: {}", file_,
                      fmt::format(format, std::forward<Args>(args)...));
  }
  Error not_a(std::string_view name, const char* kind) const {
    return invalid("{}: '{}' is not {}", file_, name, kind);
  }
  void set(std::string_view field, gguf::Value value) {
    parts_.set(fmt::format("{}.{}", type_.family, field), std::move(value));
  }

  // `otherwise` where there is no such member, or null.
  Result<std::string> text(const json& of, const char* name, std::string otherwise) const {
    const json& v = member(of, name);
    if (v.is_null()) return otherwise;
    if (!v.is_string()) return not_a(name, "a text");
    return v.get<std::string>();
  }
  Result<bool> flag(const json& of, const char* name, bool otherwise) const {
    const json& v = member(of, name);
    if (v.is_null()) return otherwise;
    if (!v.is_boolean()) return not_a(name, "true or false");
    return v.get<bool>();
  }
  Result<std::optional<double>> positive(const json& of, const char* name) const {
    const json& v = member(of, name);
    if (v.is_null()) return std::optional<double>();
    const double number = v.is_number() ? v.get<double>() : 0;
    if (!(number > 0) || !std::isfinite(number)) return not_a(name, "a positive number");
    return std::optional<double>(number);
  }
  Result<std::optional<std::int64_t>> size(const json& of, const char* name) const {
    TESSERA_TRY(const std::optional<double> number, positive(of, name));
    if (!number) return std::optional<std::int64_t>();
    if (*number > 1e9 || *number != std::floor(*number)) return not_a(name, "a size");
    return std::optional<std::int64_t>(static_cast<std::int64_t>(*number));
  }

  // Numbers as they are; their ranges are checked where they are read.
  Result<void> copy_fields() {
    for (const FieldName& f : field_names()) {
      const std::string_view field = f.gguf;
      if (field.starts_with("rope.") || field == "attention.scale" ||
          field.starts_with("attention.sliding_window")) {
        continue;
      }
      const json& v = member(config_, f.config);
      if (v.is_null()) continue;
      if (!v.is_number()) return not_a(f.config, "a number");
      if (v.is_number_float()) {
        set(field, {v.get<double>()});
        continue;
      }
      if (v.is_number_unsigned() && v.get<std::uint64_t>() > INT64_MAX)
        return invalid("{}: '{}' is too large", file_, f.config);
      set(field, {v.get<std::int64_t>()});
    }
    return {};
  }

  Result<void> check_activation() const {
    const bool gelu = gguf::find_family(type_.family)->gelu;
    for (const char* name : {"hidden_activation", "hidden_act"}) {
      TESSERA_TRY(const std::string said, text(config_, name, ""));
      if (said.empty()) continue;
      // Gemma's first files say gelu where its authors meant the other.
      const bool known = gelu ? said == "gelu_pytorch_tanh" || said == "gelu" : said == "silu";
      if (!known) return unsupported("'{}' is {}", name, said);
      return {};
    }
    return {};
  }

  Result<void> read_scale() {
    TESSERA_TRY(const std::optional<double> scalar, positive(config_, "query_pre_attn_scalar"));
    if (scalar && type_.norms_around) set("attention.scale", {1 / std::sqrt(*scalar)});
    return {};
  }

  Result<void> read_window() {
    TESSERA_DO(check_layer_types());
    TESSERA_TRY(const bool both_ways, flag(config_, "use_bidirectional_attention", false));
    if (both_ways)
      return unsupported("'use_bidirectional_attention': this is for models that read forwards");
    TESSERA_TRY(const auto pattern, size(config_, "sliding_window_pattern"));
    if (pattern) set("attention.sliding_window_pattern", {*pattern});
    TESSERA_TRY(const bool used, flag(config_, "use_sliding_window", true));
    TESSERA_TRY(const std::optional<std::int64_t> window, size(config_, "sliding_window"));
    if (!window || !used) return {};
    if (type_.window) {
      set("attention.sliding_window", {*window});
      return {};
    }
    // No token of a shorter text is outside of the window.
    TESSERA_TRY(const std::optional<std::int64_t> context,
                size(config_, "max_position_embeddings"));
    if (context) set("context_length", {std::min(*context, *window)});
    return {};
  }

  // Where they are named, layers with a window have to be those of the family.
  Result<void> check_layer_types() const {
    const json& types = member(config_, "layer_types");
    if (types.is_null() || !type_.norms_around) return {};
    if (!types.is_array()) return not_a("layer_types", "a list");
    const auto every = static_cast<std::size_t>(gguf::find_family(type_.family)->whole_every);
    for (std::size_t i = 0; i < types.size(); ++i) {
      const char* wanted = (i + 1) % every != 0 ? "sliding_attention" : "full_attention";
      if (types[i] != wanted) return unsupported("'layer_types': layer {} has no {}", i, wanted);
    }
    return {};
  }

  // Where they are named, so have layers whose positions nothing tells.
  Result<void> check_unrotated() const {
    const std::int64_t every = gguf::find_family(type_.family)->unrotated_every;
    if (every == 0) return {};
    const json& rotate = member(config_, "no_rope_layers");  // 1 where a layer rotates
    if (rotate.is_null()) {
      TESSERA_TRY(const auto said, size(config_, "no_rope_layer_interval"));
      if (said.value_or(every) != every)
        return unsupported("'no_rope_layer_interval' is {}, not {}", *said, every);
      return {};
    }
    if (!rotate.is_array()) return not_a("no_rope_layers", "a list");
    for (std::size_t i = 0; i < rotate.size(); ++i) {
      const int wanted = (i + 1) % static_cast<std::size_t>(every) != 0 ? 1 : 0;
      if (rotate[i] != wanted)
        return unsupported("'no_rope_layers': layer {} has no {}", i, wanted);
    }
    return {};
  }

  Result<void> read_positions() {
    const json& both = member(config_, "rope_parameters");  // since version 5
    // Of families with two bases by the kind of layer.
    const json& whole = member(both, "full_attention");
    const json& whole_or_both = whole.is_null() ? both : whole;
    const json& rope = both.is_null() ? member(config_, "rope_scaling") : whole_or_both;
    TESSERA_DO(read_local_positions(member(both, "sliding_attention")));
    if (!rope.is_null() && !rope.is_object()) return not_a("rope_scaling", "an object");
    const auto either = [&](const char* name) -> const json& {
      return member(rope, name).is_null() ? config_ : rope;
    };
    TESSERA_TRY(const auto theta, positive(either("rope_theta"), "rope_theta"));
    if (theta) set("rope.freq_base", {*theta});
    TESSERA_TRY(const auto part,
                positive(either("partial_rotary_factor"), "partial_rotary_factor"));
    TESSERA_TRY(const std::int64_t head, head_size());
    std::int64_t rotated = head;
    if (part) rotated = static_cast<std::int64_t>(static_cast<double>(head) * std::min(*part, 1.0));
    set("rope.dimension_count", {rotated});
    if (rope.is_null()) return {};
    TESSERA_TRY(const std::string old, text(rope, "type", "default"));
    TESSERA_TRY(const std::string type, text(rope, "rope_type", old));
    if (type == "linear") return read_linear(rope);
    if (type == "llama3") return read_llama3(rope, theta.value_or(10000), rotated);
    if (type == "longrope" || type == "su") return read_longrope(rope);
    if (type != "default") return unsupported("positions scaled by '{}'", type);
    return {};
  }

  Result<void> read_local_positions(const json& rope) {
    if (gguf::find_family(type_.family)->local_rope_base == 0) return {};
    if (!rope.is_null() && !rope.is_object()) return not_a("rope_parameters", "an object");
    TESSERA_TRY(const auto old, positive(config_, "rope_local_base_freq"));
    TESSERA_TRY(const auto theta, positive(rope, "rope_theta"));
    if (theta || old) set("rope.freq_base_swa", {theta ? *theta : *old});
    TESSERA_TRY(const std::string type, text(rope, "rope_type", "default"));
    if (type != "default") return unsupported("positions in a window scaled by '{}'", type);
    return {};
  }

  Result<std::int64_t> head_size() const {
    TESSERA_TRY(const auto head, size(config_, "head_dim"));
    TESSERA_TRY(const auto hidden, size(config_, "hidden_size"));
    TESSERA_TRY(const auto heads, size(config_, "num_attention_heads"));
    const std::int64_t out = head ? *head : hidden.value_or(0) / heads.value_or(1);
    if (out < 1 || out > kMostHead) return invalid("{}: heads of {} elements", file_, out);
    return out;
  }

  Result<double> needed(const json& rope, const char* name) const {
    TESSERA_TRY(const std::optional<double> v, positive(rope, name));
    if (!v) return invalid("{}: there is no '{}' for scaled positions", file_, name);
    return *v;
  }

  Result<void> read_linear(const json& rope) {
    TESSERA_TRY(const double factor, needed(rope, "factor"));
    set("rope.scaling.type", {parts_.keep("linear")});
    set("rope.scaling.factor", {factor});
    return {};
  }

  // Slow rotations become slower by the factor, fast ones stay, with a ramp between the two.
  Result<void> read_llama3(const json& rope, double theta, std::int64_t rotated) {
    TESSERA_TRY(const double factor, needed(rope, "factor"));
    TESSERA_TRY(const double low, needed(rope, "low_freq_factor"));
    TESSERA_TRY(const double high, needed(rope, "high_freq_factor"));
    TESSERA_TRY(const double context, needed(rope, "original_max_position_embeddings"));
    if (high <= low) return invalid("{}: 'high_freq_factor' is {}, low {}", file_, high, low);
    std::vector<float> divisors;
    for (std::int64_t i = 0; i < rotated / 2; ++i) {
      const double exponent = static_cast<double>(2 * i) / static_cast<double>(rotated);
      const double length = 2 * std::numbers::pi * std::pow(theta, exponent);
      double divisor = 1;
      if (length > context / low) {
        divisor = factor;
      } else if (length >= context / high) {
        const double smooth = (context / length - low) / (high - low);
        divisor = 1 / ((1 - smooth) / factor + smooth);
      }
      divisors.push_back(static_cast<float>(divisor));
    }
    parts_.add("rope_freqs.weight", {std::ssize(divisors)}, divisors);
    return {};
  }

  Result<void> read_longrope(const json& rope) {
    for (const auto& [name, tensor] : {std::pair{"short_factor", "rope_factors_short.weight"},
                                       std::pair{"long_factor", "rope_factors_long.weight"}}) {
      const json& list = member(rope, name);
      if (!list.is_array() || list.empty()) return not_a(name, "a list of numbers");
      std::vector<float> factors;
      for (const json& v : list) {
        if (!v.is_number()) return not_a(name, "a list of numbers");
        factors.push_back(v.get<float>());
      }
      parts_.add(tensor, {std::ssize(factors)}, factors);
    }
    constexpr const char* kOriginal = "original_max_position_embeddings";
    TESSERA_TRY(const auto outside, size(config_, kOriginal));
    TESSERA_TRY(const auto inside, size(rope, kOriginal));
    const std::optional<std::int64_t> original = inside ? inside : outside;
    TESSERA_TRY(const auto context, size(config_, "max_position_embeddings"));
    double factor = 1;
    if (original && context) {
      factor = static_cast<double>(*context) / static_cast<double>(*original);
    } else {
      TESSERA_TRY(factor, needed(rope, "factor"));
    }
    const double first = static_cast<double>(original ? *original : context.value_or(2));
    TESSERA_TRY(const auto given, positive(rope, "attention_factor"));
    const double grown = factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(first));
    set("rope.scaling.type", {parts_.keep("longrope")});
    set("rope.scaling.attn_factor", {given.value_or(grown)});
    if (original) set("rope.scaling.original_context_length", {*original});
    return {};
  }

  const json& config_;
  const std::string& file_;
  Parts& parts_;
  ModelType type_;
};

}  // namespace

Result<Config> read_config(std::string_view text, const std::string& file, Parts* parts) {
  TESSERA_TRY(const json config, parse_object(text, file));
  return ConfigReader(config, file, parts).read();
}

}  // namespace tessera::checkpoint
