// A language model that writes schedules, as code that Tessera compiled: its prompt is read once
// for all sentences about a subject, and each further word reads the keys and values of those
// before it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "tessera/infer/compiled_network.h"
#include "tessera/lm/reader.h"
#include "tessera/nn/language_file.h"

namespace tessera::model {

// Questions with one legal value are no words: they are answered without the network, as in
// training.
class LanguageModel final : public lm::Reader {
 public:
  // kInvalidArgument: it reads words of another schema. `threads` cores are used at once.
  static Result<std::unique_ptr<LanguageModel>> load(const std::string& path, int threads);
  static Result<std::unique_ptr<LanguageModel>> make(nn::TrainedLanguage language, int threads);
  ~LanguageModel() override;

  // Another that reads sentences of its own by the same code; both serve one thread. Made before
  // either reads anything.
  std::unique_ptr<LanguageModel> twin();

  const nn::TrainedLanguage& language() const { return language_; }

  // Prompts lose the words behind the most that the network reads.
  Result<void> begin(const lm::Subject& subject, int rows, float quality) override;
  // Answers behind the most that the network reads are all as likely as each other.
  Result<std::vector<float>> step(std::span<const lm::Step> steps) override;
  Result<void> copy_rows(std::span<const std::int32_t> sources) override;

  std::size_t instances() const;  // built so far

 private:
  struct Block;
  // What a sentence has said.
  struct Row {
    std::int64_t words = 0;
    std::int32_t asked = -1;              // the last word's question, until its answer is known
    std::int32_t before = -1, taken = 0;  // the answer before the next word; -1: none
  };
  struct StepKey {
    std::int64_t rows, prompt, cache;
    friend bool operator<(const StepKey& a, const StepKey& b) {
      return std::tie(a.rows, a.prompt, a.cache) < std::tie(b.rows, b.prompt, b.cache);
    }
  };

  // Code that twins share. What steps keep is their own: those have runners of their own.
  struct Code {
    std::map<std::int64_t, std::unique_ptr<infer::CompiledNetwork>> prompts;  // by words
    std::map<StepKey, std::unique_ptr<infer::CompiledNetwork>> steps;
    std::unique_ptr<infer::CompiledNetwork> values;
    std::size_t twins = 1;
  };

  LanguageModel(nn::TrainedLanguage language, int threads, std::shared_ptr<Code> code);
  Result<infer::CompiledNetwork*> compiled(std::unique_ptr<infer::CompiledNetwork>& slot,
                                           Result<nn::Network> network, std::size_t runners);
  Result<void> read_prompt();
  Result<void> read_values();
  Result<void> make_blocks(int rows);
  void write_word(const lm::Step& step, std::int64_t at);
  Result<void> run_blocks(const std::vector<bool>& busy);
  void keep_word(std::int64_t at);
  void append_chances(const lm::Step& step, bool known, std::vector<float>* out) const;
  std::size_t block_of(std::int64_t row) const;

  nn::TrainedLanguage language_;
  std::size_t threads_;
  std::int64_t layers_, kept_;  // kept: numbers of a word's key, or value, in a layer
  std::shared_ptr<Code> code_;
  std::size_t number_;  // among the twins

  // Of the sentences that were begun.
  const lm::Subject* subject_ = nullptr;
  float quality_ = lm::kUnknownQuality;
  std::vector<std::size_t> first_value_;  // of each question, among choices_
  std::vector<float> choices_;
  std::vector<Row> rows_;
  std::vector<Block> blocks_;
  StepKey key_{};
};

}  // namespace tessera::model
