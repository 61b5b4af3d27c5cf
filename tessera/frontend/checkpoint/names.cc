#include "tessera/frontend/checkpoint/names.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace tessera::checkpoint {
namespace {

constexpr std::array kFields = {
    FieldName{"num_hidden_layers", "block_count"},
    FieldName{"hidden_size", "embedding_length"},
    FieldName{"intermediate_size", "feed_forward_length"},
    FieldName{"num_attention_heads", "attention.head_count"},
    FieldName{"num_key_value_heads", "attention.head_count_kv"},
    FieldName{"head_dim", "attention.key_length"},
    FieldName{"head_dim", "attention.value_length"},
    FieldName{"max_position_embeddings", "context_length"},
    FieldName{"rms_norm_eps", "attention.layer_norm_rms_epsilon"},
    FieldName{"attn_logit_softcapping", "attn_logit_softcapping"},
    FieldName{"final_logit_softcapping", "final_logit_softcapping"},
    // These are read by rules of their own.
    FieldName{"rope_theta", "rope.freq_base"},
    FieldName{"rope_local_base_freq", "rope.freq_base_swa"},
    FieldName{"rope_scaling.type", "rope.scaling.type"},
    FieldName{"rope_scaling.factor", "rope.scaling.factor"},
    FieldName{"rope_scaling.attention_factor", "rope.scaling.attn_factor"},
    FieldName{"original_max_position_embeddings", "rope.scaling.original_context_length"},
    FieldName{"partial_rotary_factor", "rope.dimension_count"},
    FieldName{"query_pre_attn_scalar", "attention.scale"},
    FieldName{"sliding_window", "attention.sliding_window"},
    FieldName{"sliding_window_pattern", "attention.sliding_window_pattern"},
};

struct TensorName {
  const char* config = "";
  const char* gguf = "";
  enum class Norms { kAny, kBefore, kAround } where = Norms::kAny;
};
using Norms = TensorName::Norms;

constexpr std::array kOutside = {
    TensorName{"model.embed_tokens", "token_embd"},
    TensorName{"model.norm", "output_norm"},
    TensorName{"lm_head", "output"},
    // Made of numbers in config.json.
    TensorName{"rope_scaling.short_factor", "rope_factors_short"},
    TensorName{"rope_scaling.long_factor", "rope_factors_long"},
    TensorName{"rope_scaling", "rope_freqs"},
};

constexpr std::array kInLayer = {
    TensorName{"self_attn.q_proj", "attn_q"},
    TensorName{"self_attn.k_proj", "attn_k"},
    TensorName{"self_attn.v_proj", "attn_v"},
    TensorName{"self_attn.qkv_proj", "attn_qkv"},
    TensorName{"self_attn.o_proj", "attn_output"},
    TensorName{"self_attn.q_norm", "attn_q_norm"},
    TensorName{"self_attn.k_norm", "attn_k_norm"},
    TensorName{"mlp.gate_proj", "ffn_gate"},
    TensorName{"mlp.up_proj", "ffn_up"},
    TensorName{"mlp.gate_up_proj", "ffn_gate_up"},
    TensorName{"mlp.down_proj", "ffn_down"},
    TensorName{"input_layernorm", "attn_norm"},
    TensorName{"post_attention_layernorm", "ffn_norm", Norms::kBefore},
    TensorName{"post_attention_layernorm", "post_attention_norm", Norms::kAround},
    TensorName{"pre_feedforward_layernorm", "ffn_norm", Norms::kAround},
    TensorName{"post_feedforward_layernorm", "post_ffw_norm", Norms::kAround},
};

constexpr std::string_view kLayers = "model.layers.", kBlocks = "blk.";

using Side = const char* TensorName::*;

// NAME.weight or NAME.bias in the other language; empty where no row has it.
template <std::size_t N>
std::string looked_up(const std::array<TensorName, N>& rows, std::string_view name, Side from,
                      Side to, Norms norms) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return "";
  const std::string_view stem = name.substr(0, dot), what = name.substr(dot);
  if (what != ".weight" && what != ".bias") return "";
  const auto row = std::ranges::find_if(rows, [&](const TensorName& r) {
    return r.*from == stem && (r.where == Norms::kAny || r.where == norms);
  });
  return row == rows.end() ? "" : std::string((*row).*to).append(what);
}

// The same with the number of a layer behind `old`, which becomes `now`.
std::string translated(std::string_view name, std::string_view old, std::string_view now, Side from,
                       Side to, Norms norms) {
  if (!name.starts_with(old)) return looked_up(kOutside, name, from, to, norms);
  name.remove_prefix(old.size());
  const std::size_t dot = name.find('.');
  const std::string_view layer = name.substr(0, dot);
  const bool number = dot != std::string_view::npos && !layer.empty() &&
                      std::ranges::all_of(layer, [](char c) { return c >= '0' && c <= '9'; });
  if (!number) return "";
  const std::string rest = looked_up(kInLayer, name.substr(dot + 1), from, to, norms);
  return rest.empty() ? "" : fmt::format("{}{}.{}", now, layer, rest);
}

}  // namespace

std::span<const FieldName> field_names() { return kFields; }

std::string Names::to_gguf(std::string_view tensor) const {
  return translated(tensor, kLayers, kBlocks, &TensorName::config, &TensorName::gguf,
                    norms_around_ ? Norms::kAround : Norms::kBefore);
}

std::string Names::to_config(std::string_view name) const {
  if (name.starts_with(family_ + ".")) {
    const std::string_view field = name.substr(family_.size() + 1);
    const auto row =
        std::ranges::find_if(kFields, [&](const FieldName& f) { return f.gguf == field; });
    if (row != kFields.end()) return row->config;
  }
  const std::string out = translated(name, kBlocks, kLayers, &TensorName::gguf, &TensorName::config,
                                     norms_around_ ? Norms::kAround : Norms::kBefore);
  return out.empty() ? std::string(name) : out;
}

}  // namespace tessera::checkpoint
