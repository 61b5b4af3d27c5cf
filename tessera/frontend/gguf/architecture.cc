#include "tessera/frontend/gguf/architecture.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/ranges.h>

#include "tessera/support/invalid.h"

namespace tessera::gguf {
namespace {

constexpr std::array kFamilies = {
    Family{.name = "gemma", .gelu = true, .scaled_input = true},
    Family{.name = "gemma2",
           .gelu = true,
           .scaled_input = true,
           .whole_every = 2,
           .layers_scaled_by_hidden = 46},  // 27B
    Family{.name = "gemma3",
           .gelu = true,
           .scaled_input = true,
           .whole_every = 6,
           .local_rope_base = 10000,
           .layers_scaled_by_hidden = 62},  // 27B
    Family{.name = "llama", .interleaved = true},
    Family{.name = "phi3", .windowed = true},
    Family{.name = "qwen2"},
    Family{.name = "qwen3"},
    Family{.name = "smollm3", .interleaved = true, .unrotated_every = 4},
};

constexpr std::int64_t kMostLayers = 1000;
constexpr std::int64_t kMostSize = std::int64_t{1} << 24;  // of any dimension of a decoder

// Fields below "FAMILY.".
class Fields {
 public:
  Fields(const File& file, std::string_view family) : file_(file), family_(family) {}

  std::string key(std::string_view field) const { return fmt::format("{}.{}", family_, field); }
  std::string said(std::string_view field) const { return file_.spelled(key(field)); }
  bool has(std::string_view field) const { return file_.has(key(field)); }

  Result<std::int64_t> size(std::string_view field, std::optional<std::int64_t> otherwise = {},
                            std::int64_t most = kMostSize) const {
    if (otherwise && !has(field)) return *otherwise;
    TESSERA_TRY(const std::int64_t v, file_.integer(key(field)));
    if (v < 1 || v > most)
      return invalid("{}: '{}' is {}, not 1 to {}", file_.name(), said(field), v, most);
    return v;
  }

  Result<double> positive(std::string_view field, std::optional<double> otherwise = {}) const {
    if (otherwise && !has(field)) return *otherwise;
    TESSERA_TRY(const double v, file_.number(key(field)));
    if (!(v > 0) || !std::isfinite(v))
      return invalid("{}: '{}' is {}, not a positive number", file_.name(), said(field), v);
    return v;
  }

 private:
  const File& file_;
  std::string family_;
};

Error unsupported(const File& file, const std::string& what) {
  return make_error(ErrorCode::kUnsupported, "{}: {}", file.name(), what);
}

Result<void> read_sizes(const File& file, const Fields& f, Architecture* a) {
  TESSERA_TRY(a->layers, f.size("block_count", {}, kMostLayers));
  TESSERA_TRY(a->hidden, f.size("embedding_length"));
  TESSERA_TRY(a->ffn, f.size("feed_forward_length"));
  TESSERA_TRY(a->heads, f.size("attention.head_count"));
  TESSERA_TRY(a->kv_heads, f.size("attention.head_count_kv", a->heads));
  if (a->heads % a->kv_heads != 0)
    return invalid("{}: {} heads of queries for {} of keys", file.name(), a->heads, a->kv_heads);
  if (!f.has("attention.key_length") && a->hidden % a->heads != 0)
    return invalid("{}: {} heads of {} elements", file.name(), a->heads, a->hidden);
  TESSERA_TRY(a->key, f.size("attention.key_length", a->hidden / a->heads));
  TESSERA_TRY(a->value, f.size("attention.value_length", a->key));
  TESSERA_TRY(a->rotated, f.size("rope.dimension_count", a->key));
  if (a->rotated > a->key || a->rotated % 2 != 0) {
    return invalid("{}: '{}' is {} of {} elements", file.name(), f.said("rope.dimension_count"),
                   a->rotated, a->key);
  }
  TESSERA_TRY(a->context, f.size("context_length"));
  const Tensor* table = file.find_tensor("token_embd.weight");
  const std::string said = file.spelled("token_embd.weight");
  if (table == nullptr) return invalid("{}: there is no tensor '{}'", file.name(), said);
  if (table->shape.size() != 2 || table->shape[1] != a->hidden || table->shape[0] < 1) {
    return invalid("{}: tensor '{}' is {}, rows of {} needed", file.name(), said,
                   to_text(table->shape), a->hidden);
  }
  a->vocabulary = table->shape[0];
  return {};
}

// Factors by which the angles of each pair are divided.
Result<void> read_divisors(const File& file, const Fields& f, Architecture* a) {
  const Tensor* factors = file.find_tensor("rope_freqs.weight");
  if (file.find_tensor("rope_factors_long.weight") != nullptr) {
    // Those for texts longer than the model was first trained with belong to other tables.
    factors = file.find_tensor("rope_factors_short.weight");
    TESSERA_TRY(const std::int64_t first,
                f.size("rope.scaling.original_context_length", a->context));
    a->context = std::min(a->context, first);
    TESSERA_TRY(a->rope_magnitude, f.positive("rope.scaling.attn_factor", 1.0));
  }
  if (factors == nullptr) return {};
  const std::string said = file.spelled(factors->name);
  if (factors->size() != a->rotated / 2) {
    return invalid("{}: tensor '{}' has {} elements, {} needed", file.name(), said, factors->size(),
                   a->rotated / 2);
  }
  Result<HostTensor> values = widened(*factors);
  if (!values.ok()) return values.error().with_context(file.name());
  for (std::int64_t i = 0; i < values->size(); ++i) {
    a->frequency_divisors.push_back(values->as<float>()[i]);
    if (!(a->frequency_divisors.back() > 0)) {
      return invalid("{}: tensor '{}' has an element of {}", file.name(), said,
                     a->frequency_divisors.back());
    }
  }
  return {};
}

Result<void> read_windows(const File& file, const Fields& f, Architecture* a) {
  const Family& family = *a->family;
  const bool windows = family.whole_every > 0 || family.windowed;
  if (windows && f.has("attention.sliding_window")) {
    TESSERA_TRY(a->window, file.integer(f.key("attention.sliding_window")));
    if (a->window < 0) return invalid("{}: a window of {} tokens", file.name(), a->window);
  }
  if (family.local_rope_base == 0) return {};
  // Without a window there is no telling which layers its positions are of.
  if (a->window == 0) {
    return invalid("{}: there is no '{}'", file.name(), f.said("attention.sliding_window"));
  }
  constexpr const char* kPattern = "attention.sliding_window_pattern";
  TESSERA_TRY(const std::int64_t pattern, f.size(kPattern, family.whole_every));
  if (pattern != family.whole_every) {
    return unsupported(
        file, fmt::format("'{}' is {}, {} in models of the family {}", f.said(kPattern), pattern,
                          family.whole_every, family.name));
  }
  TESSERA_TRY(a->local_rope_base, f.positive("rope.freq_base_swa", family.local_rope_base));
  return {};
}

// Parts of a model have the tensors of some layers each.
Result<void> refuse_parts(const File& file) {
  TESSERA_TRY(const std::int64_t count, file.integer("split.count", 0));
  if (count < 2) return {};
  return unsupported(file, fmt::format("one of {} files of a model; join them, for instance with "
                                       "`llama-gguf-split --merge FIRST WHOLE`",
                                       count));
}

Result<void> read_numbers(const File& file, const Fields& f, Architecture* a) {
  TESSERA_TRY(a->epsilon, f.positive("attention.layer_norm_rms_epsilon"));
  TESSERA_TRY(a->rope_base, f.positive("rope.freq_base", 10000.0));
  // Files of old versions have a factor alone, or one of another name.
  const bool factor = f.has("rope.scaling.factor") || f.has("rope.scale_linear");
  TESSERA_TRY(const std::string_view scaling,
              file.text(f.key("rope.scaling.type"), factor ? "linear" : "none"));
  if (scaling == "linear") {
    TESSERA_TRY(const double old, f.positive("rope.scale_linear", 1.0));
    TESSERA_TRY(a->rope_scale, f.positive("rope.scaling.factor", old));
  } else if (scaling != "none" && scaling != "longrope") {
    return unsupported(file, fmt::format("'{}' is {}", f.said("rope.scaling.type"), scaling));
  }
  const bool by_hidden = a->layers == a->family->layers_scaled_by_hidden;
  const double size = by_hidden ? static_cast<double>(a->hidden) / static_cast<double>(a->heads)
                                : static_cast<double>(a->key);
  TESSERA_TRY(a->score_scale, f.positive("attention.scale", 1 / std::sqrt(size)));
  if (f.has("attn_logit_softcapping")) {
    TESSERA_TRY(a->score_cap, f.positive("attn_logit_softcapping"));
  }
  if (f.has("final_logit_softcapping")) {
    TESSERA_TRY(a->logit_cap, f.positive("final_logit_softcapping"));
  }
  TESSERA_DO(read_windows(file, f, a));
  return read_divisors(file, f, a);
}

}  // namespace

const Family* find_family(std::string_view name) {
  const auto* row =
      std::ranges::find_if(kFamilies, [&](const Family& f) { return f.name == name; });
  return row == kFamilies.end() ? nullptr : row;
}

std::vector<std::string> family_names() {
  std::vector<std::string> out;
  for (const Family& f : kFamilies) out.emplace_back(f.name);
  return out;
}

Result<Architecture> read_architecture(const File& file) {
  TESSERA_DO(refuse_parts(file));
  TESSERA_TRY(const std::string_view name, file.text("general.architecture"));
  Architecture out;
  out.family = find_family(name);
  if (out.family == nullptr) {
    return unsupported(file, fmt::format("models of the family {}; those of {} are known", name,
                                         fmt::join(family_names(), ", ")));
  }
  TESSERA_TRY(const bool halves, file.flag(kHalves, false));
  out.interleaved = out.family->interleaved && !halves;
  const Fields fields(file, name);
  TESSERA_TRY(const std::int64_t experts, file.integer(fields.key("expert_count"), 0));
  if (experts != 0) return unsupported(file, fmt::format("a mixture of {} experts", experts));
  TESSERA_DO(read_sizes(file, fields, &out));
  TESSERA_DO(read_numbers(file, fields, &out));
  return out;
}

}  // namespace tessera::gguf
