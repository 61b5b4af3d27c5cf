#include "tessera/model/language_model.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>

#include "tessera/lm/columns.h"

namespace tessera::model {
namespace {

// Sizes of instances: each is compiled when it is first needed. Rows of a block that nobody uses
// cost as much as others, a small block reads all weights for few rows.
constexpr std::int64_t kSmallBlock = 8, kBlock = 32;
constexpr std::int64_t kPrompts[] = {32, 64, 128, 256}, kCaches[] = {16, 32, 64, 128, 256};
constexpr std::int64_t kValues = 128;  // of a run of their embedding

// The least of `sizes` that holds `count`, at most `most`.
template <std::size_t n>
std::int64_t size_for(const std::int64_t (&sizes)[n], std::int64_t count, std::int64_t most) {
  const auto* const it = std::lower_bound(std::begin(sizes), std::end(sizes), count);
  return std::min(it == std::end(sizes) ? most : *it, most);
}

// Inputs of build_step.
constexpr std::size_t kWords = 0, kAt = 1, kPromptMask = 2, kCacheMask = 3, kFirstLayer = 4;
constexpr std::size_t kOfLayer = 4;  // keys and values of the prompt, keys and values

}  // namespace

// Rows that run together, with their caches: the inputs of a runner.
struct LanguageModel::Block {
  exec::ModelRunner* runner = nullptr;
  float* in(std::size_t input) const { return static_cast<float*>(runner->input_data(input)); }
  const float* out(std::size_t output) const {
    return static_cast<const float*>(runner->output_data(output));
  }
  float* cache(std::size_t layer, bool value) const {
    return in(kFirstLayer + layer * kOfLayer + 2 + (value ? 1 : 0));
  }
};

LanguageModel::LanguageModel(nn::TrainedLanguage language, int threads, std::shared_ptr<Code> code)
    : language_(std::move(language)),
      threads_(static_cast<std::size_t>(std::max(1, threads))),
      layers_(language_.spec.hyper.at("layers")),
      kept_(language_.spec.hyper.at("key_heads") * language_.spec.hyper.at("width") /
            language_.spec.hyper.at("heads")),
      code_(std::move(code)),
      number_(code_->twins - 1) {}

LanguageModel::~LanguageModel() = default;

std::unique_ptr<LanguageModel> LanguageModel::twin() {
  TESSERA_CHECK(code_->values == nullptr, "a twin of a model that has read");
  ++code_->twins;
  return std::unique_ptr<LanguageModel>(
      new LanguageModel(language_, static_cast<int>(threads_), code_));
}

std::size_t LanguageModel::instances() const { return code_->prompts.size() + code_->steps.size(); }

Result<std::unique_ptr<LanguageModel>> LanguageModel::load(const std::string& path, int threads) {
  TESSERA_TRY(nn::TrainedLanguage language, nn::load_language(path));
  auto made = make(std::move(language), threads);
  if (!made.ok()) return made.error().with_context(path);
  return made;
}

Result<std::unique_ptr<LanguageModel>> LanguageModel::make(nn::TrainedLanguage language,
                                                           int threads) {
  if (language.schema != lm::schema() || language.spec.word != lm::kWordNumbers ||
      language.spec.value != lm::kValueNumbers) {
    return make_error(ErrorCode::kInvalidArgument,
                      "the model reads words of schema {}, those of this Tessera are {}",
                      language.schema, lm::schema());
  }
  TESSERA_DO(nn::build_choices(language.spec, 1));
  return std::unique_ptr<LanguageModel>(
      new LanguageModel(std::move(language), threads, std::make_shared<Code>()));
}

Result<infer::CompiledNetwork*> LanguageModel::compiled(
    std::unique_ptr<infer::CompiledNetwork>& slot, Result<nn::Network> network,
    std::size_t runners) {
  if (!slot) {
    if (!network.ok()) return network.error();
    TESSERA_TRY(graph::Graph graph,
                infer::bind_weights(std::move(*network), language_.weights, "language"));
    TESSERA_TRY(slot, infer::CompiledNetwork::make(std::move(graph), threads_));
  }
  slot->reserve(runners);
  return slot.get();
}

Result<void> LanguageModel::begin(const lm::Subject& subject, int rows, float quality) {
  if (rows < 1) return make_error(ErrorCode::kInvalidArgument, "{} sentences to begin", rows);
  subject_ = &subject;
  quality_ = quality;
  rows_.assign(static_cast<std::size_t>(rows), {});
  TESSERA_DO(read_values());
  TESSERA_DO(make_blocks(rows));
  return read_prompt();
}

// Embeds the values of all questions.
Result<void> LanguageModel::read_values() {
  const nn::LanguageSpec& spec = language_.spec;
  const std::int64_t choice = spec.hyper.at("choice");
  TESSERA_TRY(
      infer::CompiledNetwork* const network,
      compiled(code_->values, code_->values ? nn::Network{} : nn::build_choices(spec, kValues), 1));
  exec::ModelRunner& runner = network->runner(0);
  auto* const words = static_cast<float*>(runner.input_data(0));
  auto* const numbers = static_cast<float*>(runner.input_data(1));
  first_value_.clear();
  choices_.clear();
  std::int64_t filled = 0;
  const auto flush = [&]() -> Result<void> {
    if (filled == 0) return {};
    TESSERA_DO(runner.run());
    const auto* out = static_cast<const float*>(runner.output_data(0));
    choices_.insert(choices_.end(), out, out + filled * choice);
    filled = 0;
    return {};
  };
  std::size_t count = 0;
  for (const lm::Question& question : subject_->questions) {
    first_value_.push_back(count);
    count += question.values.size();
    for (const lm::Value& value : question.values) {
      std::copy(question.word.begin(), question.word.end(), words + filled * spec.word);
      std::copy(value.begin(), value.end(), numbers + filled * spec.value);
      if (++filled == kValues) TESSERA_DO(flush());
    }
  }
  return flush();
}

Result<void> LanguageModel::make_blocks(int rows) {
  const nn::Hyper& hyper = language_.spec.hyper;
  const auto open = std::count_if(subject_->questions.begin(), subject_->questions.end(),
                                  [](const lm::Question& q) { return q.values.size() > 1; });
  const auto share =
      (rows + static_cast<std::int64_t>(threads_) - 1) / static_cast<std::int64_t>(threads_);
  key_ = {.rows = share <= kSmallBlock ? kSmallBlock : kBlock,
          .prompt = size_for(kPrompts, static_cast<std::int64_t>(subject_->prompt.size()),
                             hyper.at("max_prompt")),
          .cache = size_for(kCaches, open, hyper.at("max_answers"))};
  const std::int64_t count = (rows + key_.rows - 1) / key_.rows;
  std::unique_ptr<infer::CompiledNetwork>& slot = code_->steps[key_];
  const nn::StepShape shape{.rows = key_.rows, .prompt = key_.prompt, .cache = key_.cache};
  TESSERA_TRY(infer::CompiledNetwork* const network,
              compiled(slot, slot ? nn::Network{} : nn::build_step(language_.spec, shape),
                       static_cast<std::size_t>(count) * code_->twins));
  blocks_.clear();
  for (std::int64_t i = 0; i < count; ++i) {
    const Block block{&network->runner(static_cast<std::size_t>(i) * code_->twins + number_)};
    std::fill_n(block.in(kCacheMask), key_.rows * key_.cache, 0.0F);
    // What is masked must still be finite.
    for (std::size_t layer = 0; layer < static_cast<std::size_t>(layers_); ++layer) {
      for (const bool value : {false, true}) {
        std::fill_n(block.cache(layer, value), key_.rows * key_.cache * kept_, 0.0F);
      }
    }
    blocks_.push_back(block);
  }
  return {};
}

Result<void> LanguageModel::read_prompt() {
  const nn::LanguageSpec& spec = language_.spec;
  std::unique_ptr<infer::CompiledNetwork>& slot = code_->prompts[key_.prompt];
  TESSERA_TRY(infer::CompiledNetwork* const network,
              compiled(slot, slot ? nn::Network{} : nn::build_prompt(spec, key_.prompt), 1));
  exec::ModelRunner& runner = network->runner(0);
  auto* const words = static_cast<float*>(runner.input_data(0));
  auto* const mask = static_cast<float*>(runner.input_data(1));
  std::memset(words, 0, static_cast<std::size_t>(key_.prompt * spec.word) * sizeof(float));
  for (std::int64_t i = 0; i < key_.prompt; ++i) {
    const auto at = static_cast<std::size_t>(i);
    mask[i] = at < subject_->prompt.size() ? 1.0F : 0.0F;
    if (at >= subject_->prompt.size()) continue;
    const lm::Word& word = subject_->prompt[at];
    std::copy(word.begin(), word.end(), words + i * spec.word);
  }
  TESSERA_DO(runner.run());
  const auto bytes = static_cast<std::size_t>(key_.prompt * kept_) * sizeof(float);
  for (const Block& block : blocks_) {
    std::memcpy(block.in(kPromptMask), mask, static_cast<std::size_t>(key_.prompt) * sizeof(float));
    for (std::size_t i = 0; i < static_cast<std::size_t>(layers_); ++i) {
      const std::size_t input = kFirstLayer + i * kOfLayer;
      std::memcpy(block.in(input), runner.output_data(2 * i), bytes);
      std::memcpy(block.in(input + 1), runner.output_data(2 * i + 1), bytes);
    }
  }
  return {};
}

std::size_t LanguageModel::block_of(std::int64_t row) const {
  return static_cast<std::size_t>(row / key_.rows);
}

void LanguageModel::write_word(const lm::Step& step, std::int64_t at) {
  Row& row = rows_[static_cast<std::size_t>(at)];
  const nn::LanguageSpec& spec = language_.spec;
  const Block& block = blocks_[block_of(at)];
  const std::int64_t slot = at % key_.rows, most = spec.hyper.at("max_answers");
  const auto question = [&](std::int32_t i) -> const lm::Question& {
    return subject_->questions[static_cast<std::size_t>(i)];
  };
  const lm::Question* before = row.before < 0 ? nullptr : &question(row.before);
  const lm::Value* taken =
      before == nullptr ? nullptr : &before->values[static_cast<std::size_t>(row.taken)];
  nn::write_answer_word(spec, question(step.question).word.data(),
                        before == nullptr ? nullptr : before->word.data(),
                        taken == nullptr ? nullptr : taken->data(), quality_,
                        block.in(kWords) + slot * nn::answer_columns(spec));
  float* const place = block.in(kAt) + slot * most;
  std::fill_n(place, most, 0.0F);
  place[row.words] = 1;
  row.asked = step.question;
}

// Each thread takes the next block that has a word to read.
Result<void> LanguageModel::run_blocks(const std::vector<bool>& busy) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::optional<Error> failure;
  const auto work = [&] {
    for (std::size_t i = next++; i < blocks_.size(); i = next++) {
      if (!busy[i]) continue;
      if (const Result<void> ran = blocks_[i].runner->run(); !ran.ok()) {
        const std::lock_guard lock(mutex);
        failure = ran.error();
      }
    }
  };
  const auto count = static_cast<std::size_t>(std::count(busy.begin(), busy.end(), true));
  std::vector<std::jthread> threads;
  for (std::size_t t = 1; t < std::min(threads_, count); ++t) threads.emplace_back(work);
  work();
  threads.clear();
  if (failure) return *failure;
  return {};
}

// The word's keys and values behind those of the words before it.
void LanguageModel::keep_word(std::int64_t at) {
  Row& row = rows_[static_cast<std::size_t>(at)];
  const Block& block = blocks_[block_of(at)];
  const std::int64_t slot = at % key_.rows;
  if (row.words < key_.cache) {
    const std::int64_t place = slot * key_.cache + row.words;
    const auto bytes = static_cast<std::size_t>(kept_) * sizeof(float);
    for (std::size_t i = 0; i < static_cast<std::size_t>(layers_); ++i) {
      for (const bool value : {false, true}) {
        std::memcpy(block.cache(i, value) + place * kept_,
                    block.out(1 + 2 * i + (value ? 1 : 0)) + slot * kept_, bytes);
      }
    }
    block.in(kCacheMask)[place] = 1;
  }
  ++row.words;
}

void LanguageModel::append_chances(const lm::Step& step, bool known,
                                   std::vector<float>* out) const {
  const std::size_t first = out->size();
  if (!known) {
    const float each = -std::log(static_cast<float>(step.legal.size()));
    out->resize(first + step.legal.size(), each);
    return;
  }
  const std::int64_t choice = language_.spec.hyper.at("choice");
  const float* query = blocks_[block_of(step.row)].out(0) + step.row % key_.rows * choice;
  const std::size_t base = first_value_[static_cast<std::size_t>(step.question)];
  float most = -std::numeric_limits<float>::infinity();
  for (const std::int32_t value : step.legal) {
    const float* embedding = choices_.data() + (base + static_cast<std::size_t>(value)) *
                                                   static_cast<std::size_t>(choice);
    const float score = std::inner_product(query, query + choice, embedding, 0.0F);
    out->push_back(score);
    most = std::max(most, score);
  }
  float sum = 0;
  for (std::size_t i = first; i < out->size(); ++i) sum += std::exp((*out)[i] - most);
  for (std::size_t i = first; i < out->size(); ++i) (*out)[i] -= most + std::log(sum);
}

Result<std::vector<float>> LanguageModel::step(std::span<const lm::Step> steps) {
  TESSERA_CHECK(subject_ != nullptr, "a step before a beginning");
  std::vector<bool> busy(blocks_.size()), known(steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const lm::Step& s = steps[i];
    Row& row = rows_.at(static_cast<std::size_t>(s.row));
    if (row.asked >= 0) {
      row.before = std::exchange(row.asked, -1);
      row.taken = s.previous;
    }
    known[i] = s.legal.size() > 1 && row.words < language_.spec.hyper.at("max_answers");
    if (!known[i]) continue;
    write_word(s, s.row);
    busy[block_of(s.row)] = true;
  }
  TESSERA_DO(run_blocks(busy));
  std::vector<float> out;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    append_chances(steps[i], known[i], &out);
    if (known[i]) keep_word(steps[i].row);
  }
  return out;
}

Result<void> LanguageModel::copy_rows(std::span<const std::int32_t> sources) {
  TESSERA_CHECK(sources.size() == rows_.size(), "{} sources for {} rows", sources.size(),
                rows_.size());
  const std::vector<Row> before = rows_;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    rows_[i] = before.at(static_cast<std::size_t>(sources[i]));
  }
  // One cache at a time, from a copy of it: sources may be targets too.
  std::vector<float> copy;
  const auto move = [&](std::int64_t size, auto&& memory) {
    copy.clear();
    for (const Block& block : blocks_) {
      const float* from = memory(block);
      copy.insert(copy.end(), from, from + key_.rows * size);
    }
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      std::copy_n(copy.data() + sources[i] * size, size,
                  memory(blocks_[block_of(at)]) + at % key_.rows * size);
    }
  };
  move(key_.cache, [](const Block& b) { return b.in(kCacheMask); });
  for (std::size_t layer = 0; layer < static_cast<std::size_t>(layers_); ++layer) {
    for (const bool value : {false, true}) {
      move(key_.cache * kept_, [&](const Block& b) { return b.cache(layer, value); });
    }
  }
  return {};
}

}  // namespace tessera::model
