// Rows of sentences that read one word each at a time, with the keys and values of their words.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "tessera/backend/exec/model_runner.h"
#include "tessera/learn/lm/language_network.h"

namespace tessera::lm {

class LanguageBlock {
 public:
  virtual ~LanguageBlock() = default;

  // The prompt of the sentences from here on: its mask, and of each layer its keys and values.
  virtual Result<void> begin(std::span<const HostTensor> prompt) = 0;
  // Where to write the next word of a row that has said so many before, by
  // write_answer_word(). Rows may be written by several threads.
  virtual float* word(std::int64_t row, std::int64_t said) = 0;
  // Reads the words that were written since the last run, and keeps them where there is room.
  virtual Result<void> run() = 0;
  virtual const float* query(std::int64_t row) const = 0;  // of its last word
  // What is kept of all rows, of each layer keys, then values, [cache, key_heads, d] a row.
  virtual Result<void> load(std::size_t cache, float* to) const = 0;
  virtual Result<void> store(std::size_t cache, const float* from) = 0;
};

// By build_step in this process: words are written into the runner's inputs, and kept there.
Result<std::unique_ptr<LanguageBlock>> block_here(exec::ModelRunner& runner,
                                                  const LanguageSpec& spec, const StepShape& shape);
// By build_keeping_step on a GPU: words go there and queries come back, all else stays.
Result<std::unique_ptr<LanguageBlock>> block_on_device(exec::ModelRunner& runner,
                                                       const LanguageSpec& spec,
                                                       const StepShape& shape);

}  // namespace tessera::lm
