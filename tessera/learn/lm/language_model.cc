#include "tessera/learn/lm/language_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "tessera/learn/lm/columns.h"
#include "tessera/support/clock.h"
#include "tessera/support/parallel.h"

namespace tessera::lm {
namespace {

// Sizes of instances: each is compiled when it is first needed. Rows of a block that nobody uses
// cost as much as others, a small block reads all weights for few rows.
constexpr std::int64_t kSmallBlock = 8, kBlock = 32;
constexpr std::int64_t kDeviceBlocks[] = {16, 64, 256, 1024};
constexpr std::int64_t kPrompts[] = {32, 64, 128, 256}, kCaches[] = {16, 32, 64, 128, 256};
constexpr std::int64_t kValues = 128;  // of a run of their embedding

// The least of `sizes` that holds `count`, at most `most`.
template <std::size_t n>
std::int64_t size_for(const std::int64_t (&sizes)[n], std::int64_t count, std::int64_t most) {
  const auto* const it = std::lower_bound(std::begin(sizes), std::end(sizes), count);
  return std::min(it == std::end(sizes) ? most : *it, most);
}

// Rows that are worth waking a thread for.
constexpr std::size_t kRowsOfAThread = 64;

// Adds the time since it was made.
class Stopwatch {
 public:
  explicit Stopwatch(double* sum) : sum_(sum) {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() { *sum_ += seconds_since(start_); }

 private:
  double* sum_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace

LanguageModel::LanguageModel(TrainedLanguage language, LanguageOptions options,
                             std::shared_ptr<Code> code)
    : language_(std::move(language)),
      options_(std::move(options)),
      threads_(static_cast<std::size_t>(std::max(1, options_.threads))),
      workers_(options_.threads),
      code_(std::move(code)),
      number_(code_->twins - 1) {}

LanguageModel::~LanguageModel() = default;

std::unique_ptr<LanguageModel> LanguageModel::twin() {
  TESSERA_CHECK(code_->values == nullptr, "a twin of a model that has read");
  ++code_->twins;
  return std::unique_ptr<LanguageModel>(new LanguageModel(language_, options_, code_));
}

std::size_t LanguageModel::instances() const { return code_->prompts.size() + code_->steps.size(); }

Result<std::unique_ptr<LanguageModel>> LanguageModel::load(const std::string& path,
                                                           const LanguageOptions& options) {
  TESSERA_TRY(TrainedLanguage language, load_language(path));
  auto made = make(std::move(language), options);
  if (!made.ok()) return made.error().with_context(path);
  return made;
}

Result<std::unique_ptr<LanguageModel>> LanguageModel::make(TrainedLanguage language,
                                                           const LanguageOptions& options) {
  if (language.schema != schema() || language.spec.word != kWordNumbers ||
      language.spec.value != kValueNumbers) {
    return make_error(ErrorCode::kInvalidArgument,
                      "the model reads words of schema {}, those of this Tessera are {}",
                      language.schema, schema());
  }
  TESSERA_DO(build_choices(language.spec, 1));
  return std::unique_ptr<LanguageModel>(
      new LanguageModel(std::move(language), options, std::make_shared<Code>()));
}

Result<void> LanguageModel::compile(std::unique_ptr<infer::CompiledNetwork>& slot,
                                    Result<nn::Network> network, runtime::Device* device) {
  const Stopwatch watch(&code_->build_s);
  if (!network.ok()) return network.error();
  TESSERA_TRY(graph::Graph graph,
              infer::bind_weights(std::move(*network), language_.weights, "language"));
  TESSERA_TRY(slot, infer::CompiledNetwork::make(std::move(graph),
                                                 {.runners = device != nullptr ? 1 : threads_,
                                                  .device = device,
                                                  .cache = options_.cache}));
  return {};
}

Result<void> LanguageModel::begin(const Subject& subject, int rows, float quality) {
  if (rows < 1) return make_error(ErrorCode::kInvalidArgument, "{} sentences to begin", rows);
  subject_ = &subject;
  quality_ = quality;
  rows_.assign(static_cast<std::size_t>(rows), {});
  TESSERA_DO(make_blocks(rows));
  TESSERA_DO(read_subject());
  for (LanguageBlock* const block : blocks_) TESSERA_DO(block->begin(prompt_));
  return {};
}

// Sentences come in many batches about one subject: it is read for the first.
Result<void> LanguageModel::read_subject() {
  if (!prompt_.empty() && read_ == *subject_) return {};
  prompt_.clear();
  TESSERA_DO(read_values());
  TESSERA_DO(read_prompt());
  read_ = *subject_;
  return {};
}

// Embeds the values of all questions.
Result<void> LanguageModel::read_values() {
  const LanguageSpec& spec = language_.spec;
  const std::int64_t choice = spec.hyper.at("choice");
  if (!code_->values) TESSERA_DO(compile(code_->values, build_choices(spec, kValues), nullptr));
  exec::ModelRunner& runner = code_->values->runner(0);
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
  for (const Question& question : subject_->questions) {
    first_value_.push_back(count);
    count += question.values.size();
    for (const Value& value : question.values) {
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
                                  [](const Question& q) { return q.values.size() > 1; });
  const std::int64_t share =
      (rows + static_cast<std::int64_t>(threads_) - 1) / static_cast<std::int64_t>(threads_);
  const std::int64_t here = share <= kSmallBlock ? kSmallBlock : kBlock;
  key_ = {.rows = options_.device != nullptr
                      ? size_for(kDeviceBlocks, rows, *std::rbegin(kDeviceBlocks))
                      : here,
          .prompt = size_for(kPrompts, static_cast<std::int64_t>(subject_->prompt.size()),
                             hyper.at("max_prompt")),
          .cache = size_for(kCaches, open, hyper.at("max_answers"))};
  const StepShape shape{.rows = key_.rows, .prompt = key_.prompt, .cache = key_.cache};
  StepCode& code = code_->steps[key_];
  if (!code.network) {
    TESSERA_DO(compile(code.network,
                       options_.device != nullptr ? build_keeping_step(language_.spec, shape)
                                                  : build_step(language_.spec, shape),
                       options_.device));
  }
  const auto count = static_cast<std::size_t>((rows + key_.rows - 1) / key_.rows);
  code.network->reserve(count * code_->twins);
  code.blocks.resize(std::max(code.blocks.size(), count * code_->twins));
  blocks_.clear();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t number = i * code_->twins + number_;
    std::unique_ptr<LanguageBlock>& block = code.blocks[number];
    if (!block) {
      const auto make_block = options_.device != nullptr ? block_on_device : block_here;
      TESSERA_TRY(block, make_block(code.network->runner(number), language_.spec, shape));
    }
    blocks_.push_back(block.get());
  }
  return {};
}

Result<void> LanguageModel::read_prompt() {
  const LanguageSpec& spec = language_.spec;
  std::unique_ptr<infer::CompiledNetwork>& slot = code_->prompts[key_.prompt];
  if (!slot) TESSERA_DO(compile(slot, build_prompt(spec, key_.prompt), nullptr));
  exec::ModelRunner& runner = slot->runner(0);
  HostTensor mask(DType::kF32, {1, key_.prompt});
  auto* const words = static_cast<float*>(runner.input_data(0));
  std::memset(words, 0, static_cast<std::size_t>(key_.prompt * spec.word) * sizeof(float));
  for (std::int64_t i = 0; i < key_.prompt; ++i) {
    const auto at = static_cast<std::size_t>(i);
    mask.as<float>()[i] = at < subject_->prompt.size() ? 1.0F : 0.0F;
    if (at >= subject_->prompt.size()) continue;
    const Word& word = subject_->prompt[at];
    std::copy(word.begin(), word.end(), words + i * spec.word);
  }
  TESSERA_DO(runner.set_input(1, mask));
  TESSERA_DO(runner.run());
  prompt_.push_back(std::move(mask));
  const auto kept = static_cast<std::size_t>(2 * spec.hyper.at("layers"));
  for (std::size_t i = 0; i < kept; ++i) prompt_.push_back(runner.output(i));
  return {};
}

std::size_t LanguageModel::block_of(std::int64_t row) const {
  return static_cast<std::size_t>(row / key_.rows);
}

void LanguageModel::write_word(const Step& step) {
  Row& row = rows_[static_cast<std::size_t>(step.row)];
  const auto question = [&](std::int32_t i) -> const Question& {
    return subject_->questions[static_cast<std::size_t>(i)];
  };
  const Question* before = row.before < 0 ? nullptr : &question(row.before);
  const Value* taken =
      before == nullptr ? nullptr : &before->values[static_cast<std::size_t>(row.taken)];
  write_answer_word(language_.spec, question(step.question).word.data(),
                    before == nullptr ? nullptr : before->word.data(),
                    taken == nullptr ? nullptr : taken->data(), quality_,
                    blocks_[block_of(step.row)]->word(step.row % key_.rows, row.words));
  row.asked = step.question;
  ++row.words;
}

// Each thread takes the next block that has a word to read.
Result<void> LanguageModel::run_blocks(const std::vector<bool>& busy) {
  std::vector<LanguageBlock*> reading;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (busy[i]) reading.push_back(blocks_[i]);
  }
  // A device serves one thread.
  const int threads = options_.device != nullptr ? 1 : static_cast<int>(threads_);
  return try_parallel_for(reading.size(), threads,
                          [&](std::size_t i) { return reading[i]->run(); });
}

void LanguageModel::write_chances(const Step& step, bool known, float* out) const {
  const std::size_t count = step.legal.size();
  if (!known) {
    std::fill_n(out, count, -std::log(static_cast<float>(count)));
    return;
  }
  const std::int64_t choice = language_.spec.hyper.at("choice");
  const float* query = blocks_[block_of(step.row)]->query(step.row % key_.rows);
  const std::size_t base = first_value_[static_cast<std::size_t>(step.question)];
  for (std::size_t i = 0; i < count; ++i) {
    const float* embedding = choices_.data() + (base + static_cast<std::size_t>(step.legal[i])) *
                                                   static_cast<std::size_t>(choice);
    out[i] = std::inner_product(query, query + choice, embedding, 0.0F);
  }
  const float most = *std::max_element(out, out + count);
  float sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += std::exp(out[i] - most);
  for (std::size_t i = 0; i < count; ++i) out[i] -= most + std::log(sum);
}

Result<std::vector<float>> LanguageModel::step(std::span<const Step> steps) {
  TESSERA_CHECK(subject_ != nullptr, "a step before a beginning");
  std::vector<bool> busy(blocks_.size()), known(steps.size());
  std::vector<std::size_t> first(steps.size() + 1);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& s = steps[i];
    Row& row = rows_.at(static_cast<std::size_t>(s.row));
    if (row.asked >= 0) {
      row.before = std::exchange(row.asked, -1);
      row.taken = s.previous;
    }
    known[i] = s.legal.size() > 1 && row.words < language_.spec.hyper.at("max_answers");
    if (known[i]) busy[block_of(s.row)] = true;
    first[i + 1] = first[i] + s.legal.size();
  }
  const auto for_rows = [&](const auto& work) {
    workers_.parts(steps.size(), kRowsOfAThread, [&](std::size_t i, std::size_t end) {
      for (; i < end; ++i) work(i);
    });
  };
  ++times_.steps;
  {
    const Stopwatch watch(&times_.words_s);
    for_rows([&](std::size_t i) {
      if (known[i]) write_word(steps[i]);
    });
  }
  {
    const Stopwatch watch(&times_.network_s);
    TESSERA_DO(run_blocks(busy));
  }
  const Stopwatch watch(&times_.chances_s);
  std::vector<float> out(first.back());
  for_rows([&](std::size_t i) { write_chances(steps[i], known[i], out.data() + first[i]); });
  return out;
}

Result<std::vector<LanguageModel::KernelTime>> LanguageModel::profile() {
  TESSERA_CHECK(!code_->steps.empty(), "a profile before a beginning");
  infer::CompiledNetwork& network = *code_->steps.rbegin()->second.network;
  TESSERA_TRY(const std::vector<double> times, network.runner(number_).profile());
  std::vector<KernelTime> out;
  for (std::size_t i = 0; i < times.size(); ++i)
    out.push_back({network.model().steps[i].name, times[i]});
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
  const nn::Hyper& hyper = language_.spec.hyper;
  const std::int64_t size =
      key_.cache * hyper.at("key_heads") * hyper.at("width") / hyper.at("heads");
  std::vector<float> from(blocks_.size() * static_cast<std::size_t>(key_.rows * size)), to;
  for (std::size_t c = 0; c < 2 * static_cast<std::size_t>(hyper.at("layers")); ++c) {
    for (std::size_t b = 0; b < blocks_.size(); ++b)
      TESSERA_DO(
          blocks_[b]->load(c, from.data() + static_cast<std::int64_t>(b) * key_.rows * size));
    to = from;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      std::copy_n(from.data() + sources[i] * size, size,
                  to.data() + static_cast<std::int64_t>(i) * size);
    }
    for (std::size_t b = 0; b < blocks_.size(); ++b)
      TESSERA_DO(blocks_[b]->store(c, to.data() + static_cast<std::int64_t>(b) * key_.rows * size));
  }
  return {};
}

}  // namespace tessera::lm
