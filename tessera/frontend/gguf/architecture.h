// What the decoders of the families that GGUF files name have in common, and where they differ.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/frontend/gguf/file.h"

namespace tessera::gguf {

// A row of the table of families.
struct Family {
  const char* name = "";         // general.architecture
  bool interleaved = false;      // rotated pairs are neighbours, not halves of a head (kHalves)
  bool gelu = false;             // gates by tanh-GELU, not SiLU
  bool scaled_input = false;     // embeddings times the root of their size
  bool windowed = false;         // all layers see a window alone, where the file has one
  std::int64_t whole_every = 0;  // of so many layers the last sees all, the others a window; 0: all
  double local_rope_base = 0;    // of layers with a window, whose positions are not scaled; 0: none
  std::int64_t unrotated_every = 0;  // of so many layers the last rotates nothing; 0: all rotate
  // Models of so many layers scale scores by the hidden size for each head of queries instead of
  // the size of a head; files do not say so. 0: none.
  std::int64_t layers_scaled_by_hidden = 0;
};

const Family* find_family(std::string_view name);  // null: there is no such row
std::vector<std::string> family_names();

// A key that no GGUF writer has: true where the rows of queries and keys were not reordered, so
// that halves of a head are rotated in all families.
inline constexpr const char* kHalves = "tessera.rope.halves";

// Sizes and numbers of one decoder, checked: all are positive where not said otherwise.
struct Architecture {
  const Family* family = nullptr;
  std::int64_t layers = 0, hidden = 0, ffn = 0, heads = 0, kv_heads = 0;
  std::int64_t key = 0, value = 0;  // elements of a head
  std::int64_t rotated = 0;         // of a head's elements, even
  bool interleaved = false;
  std::int64_t vocabulary = 0;
  std::int64_t context = 0;  // the most tokens that the model was made for
  std::int64_t window = 0;   // 0: none
  double epsilon = 0, rope_base = 0, rope_scale = 1;
  double local_rope_base = 0;             // as Family has it
  double rope_magnitude = 1;              // of what is rotated
  double score_scale = 0;                 // of the products of queries and keys
  double score_cap = 0, logit_cap = 0;    // 0: none
  std::vector<float> frequency_divisors;  // one for each rotated pair; empty: 1

  // Whether queries of the layer see the last `window` keys alone.
  bool is_local(std::int64_t layer) const {
    const std::int64_t every = family->whole_every;
    return window > 0 && (family->windowed || (every > 0 && (layer + 1) % every != 0));
  }
  bool rotates(std::int64_t layer) const {
    return family->unrotated_every == 0 || (layer + 1) % family->unrotated_every != 0;
  }
};

// kUnsupported: a family without a row, or what its row does not cover (experts, other scalings of
// positions). kInvalidArgument: sizes that contradict each other, naming file and field.
Result<Architecture> read_architecture(const File& file);

}  // namespace tessera::gguf
