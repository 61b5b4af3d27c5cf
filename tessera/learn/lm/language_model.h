// A language model that writes schedules, as code that Tessera compiled: its prompt is read once
// for all sentences about a subject, and each further word reads the keys and values of those
// before it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "tessera/learn/infer/compiled_network.h"
#include "tessera/learn/lm/language_block.h"
#include "tessera/learn/lm/language_file.h"
#include "tessera/learn/lm/reader.h"
#include "tessera/support/parallel.h"

namespace tessera::lm {

struct LanguageOptions {
  int threads = 1;  // cores that are used at once
  // A GPU that reads the words of sentences, and must outlive the model; null: this process.
  runtime::Device* device = nullptr;
  std::shared_ptr<const kernel::KernelCache> cache;  // of code; null: everything is built
};

// Questions with one legal value are not words: they are answered without the network, as in
// training.
class LanguageModel final : public Reader {
 public:
  // kInvalidArgument: it reads words of another schema.
  static Result<std::unique_ptr<LanguageModel>> load(const std::string& path,
                                                     const LanguageOptions& options);
  static Result<std::unique_ptr<LanguageModel>> make(TrainedLanguage language,
                                                     const LanguageOptions& options);
  ~LanguageModel() override;

  // Another that reads sentences of its own by the same code; both serve one thread. Made before
  // either reads anything.
  std::unique_ptr<LanguageModel> twin();

  const TrainedLanguage& language() const { return language_; }

  // Prompts lose the words behind the most that the network reads.
  Result<void> begin(const Subject& subject, int rows, float quality) override;
  // Answers behind the most that the network reads are all as likely as each other.
  Result<std::vector<float>> step(std::span<const Step> steps) override;
  Result<void> copy_rows(std::span<const std::int32_t> sources) override;

  std::size_t instances() const;  // built so far
  double build_s() const { return code_->build_s; }

  // Where the time of all steps went: words before the network, probabilities after it.
  struct Times {
    std::size_t steps = 0;
    double words_s = 0, network_s = 0, chances_s = 0;
  };
  const Times& times() const { return times_; }
  struct KernelTime {
    std::string name;
    double us = 0;
  };
  // Of the network that reads most rows at once. Sentences that were begun cannot go on.
  Result<std::vector<KernelTime>> profile();

 private:
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

  struct StepCode {
    std::unique_ptr<infer::CompiledNetwork> network;
    std::vector<std::unique_ptr<LanguageBlock>> blocks;  // each with the runner of its number
  };
  // Code that twins share. What steps keep is their own: those have blocks of their own.
  struct Code {
    std::map<std::int64_t, std::unique_ptr<infer::CompiledNetwork>> prompts;  // by words
    std::map<StepKey, StepCode> steps;
    std::unique_ptr<infer::CompiledNetwork> values;
    std::size_t twins = 1;
    double build_s = 0;  // that it took to build
  };

  LanguageModel(TrainedLanguage language, LanguageOptions options, std::shared_ptr<Code> code);
  Result<void> compile(std::unique_ptr<infer::CompiledNetwork>& slot, Result<nn::Network> network,
                       runtime::Device* device);
  Result<void> read_subject();
  Result<void> read_prompt();
  Result<void> read_values();
  Result<void> make_blocks(int rows);
  void write_word(const Step& step);
  Result<void> run_blocks(const std::vector<bool>& busy);
  void write_chances(const Step& step, bool known, float* out) const;
  std::size_t block_of(std::int64_t row) const;

  TrainedLanguage language_;
  LanguageOptions options_;
  std::size_t threads_;
  Workers workers_;  // on rows
  std::shared_ptr<Code> code_;
  std::size_t number_;  // among the twins

  // Of the last subject that was read, which is `read_`.
  Subject read_;
  std::vector<std::size_t> first_value_;  // of each question, among choices_
  std::vector<float> choices_;
  std::vector<HostTensor> prompt_;  // mask, and of each layer keys and values

  // Of the sentences that were begun.
  const Subject* subject_ = nullptr;
  float quality_ = kUnknownQuality;
  std::vector<Row> rows_;
  std::vector<LanguageBlock*> blocks_;
  StepKey key_{};
  Times times_;
};

}  // namespace tessera::lm
