// A language model that reads tokens and tells how likely each token is to come next.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/app/compile/compile_options.h"
#include "tessera/backend/exec/model_runner.h"
#include "tessera/backend/exec/prepared_model.h"
#include "tessera/frontend/gguf/file.h"
#include "tessera/support/named_tensor.h"
#include "tessera/support/result.h"

namespace tessera::app {

struct DecoderOptions {
  CompileOptions compile;     // with threads in its target, and the cache
  std::int64_t capacity = 0;  // the most tokens it can remember; 0: as many as the model was made
                              // for, at most kMostCapacity
  std::int64_t chunk = 64;    // tokens of a prompt that are read at once
  std::int64_t each = 1;      // the most tokens of a step_each()
};

inline constexpr std::int64_t kMostCapacity = 4096;

// Tokens that were read are remembered in memory of fixed size, which grows in steps up to the
// capacity: a program reads all of it for each token. Programs are compiled when they are first
// needed, or found in the cache. One call at a time.
class Decoder {
 public:
  // Of a GGUF file or a folder. Errors are those of checkpoint::open and gguf::to_model; steps may
  // have those of open_model.
  static Result<Decoder> open(const std::string& path, const DecoderOptions& options = {});
  // Of the same model, with the same code and weights and a memory of its own. The two may be used
  // at the same time.
  Result<Decoder> another() const;
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;
  ~Decoder();

  // Reads tokens behind those that were read before. The result is the logits of what comes behind
  // the last one, vocabulary() of them, valid until the next call. kInvalidArgument: no tokens, one
  // that the model does not know, or more than there is room for; nothing was read then.
  Result<std::span<const float>> step(std::span<const std::int32_t> tokens);
  // Reads 1 to DecoderOptions::each tokens. The result is the logits behind each of them, one row
  // after the other.
  Result<std::span<const float>> step_each(std::span<const std::int32_t> tokens);
  // Compiles what tokens up to `tokens` in all need, so that no step has to wait for it.
  Result<void> warm_up(std::int64_t tokens);
  // Forgets what was read behind the first `position` tokens, 0 to position().
  void rewind(std::int64_t position);
  void reset() { rewind(0); }

  // What was read up to here, by names that restore() takes: keys and values of each layer.
  NamedTensors memory() const;
  // As if the first `position` tokens of a text had been read by the decoder that `memory` is of.
  // kInvalidArgument: it is of another model, there is no room for it, or an element is not
  // finite.
  Result<void> restore(const NamedTensors& memory, std::int64_t position);

  std::int64_t position() const;  // tokens that were read
  std::int64_t capacity() const;
  std::int64_t vocabulary() const;
  std::int64_t weight_bytes() const;  // of all programs until now, shared ones counted once
  std::int64_t each() const;          // DecoderOptions::each
  const gguf::File& file() const;     // with the metadata of tokenizers

 private:
  class Impl;
  static Result<Decoder> start(std::unique_ptr<Impl> impl);
  Result<void> check(std::span<const std::int32_t> tokens) const;
  explicit Decoder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::app
