#include "tessera/learn/lm/language_block.h"

#include <algorithm>
#include <cstring>

namespace tessera::lm {
namespace {

constexpr std::int64_t kNoWord = -1;  // of a row that has none to read

// What both kinds of blocks know.
struct Sizes {
  Sizes(const LanguageSpec& spec, const StepShape& step)
      : rows(step.rows),
        prompt(step.prompt),
        cache(step.cache),
        columns(answer_columns(spec)),
        most(spec.hyper.at("max_answers")),
        choice(spec.hyper.at("choice")),
        kept(spec.hyper.at("key_heads") * spec.hyper.at("width") / spec.hyper.at("heads")),
        layers(static_cast<std::size_t>(spec.hyper.at("layers"))) {}

  std::int64_t rows, prompt, cache, columns, most, choice;
  std::int64_t kept;  // numbers of a word's key, or value, in a layer
  std::size_t layers;
};

// Inputs of a layer: keys and values of the prompt, then of the sentences.
constexpr std::size_t kOfLayer = 4;
std::size_t prompt_input(std::size_t first, std::size_t cache) {
  return first + cache / 2 * kOfLayer + cache % 2;
}
std::size_t kept_input(std::size_t first, std::size_t cache) {
  return prompt_input(first, cache) + 2;
}

class BlockHere final : public LanguageBlock {
 public:
  BlockHere(exec::ModelRunner& runner, const LanguageSpec& spec, const StepShape& shape)
      : runner_(runner), sizes_(spec, shape), said_(static_cast<std::size_t>(shape.rows), kNoWord) {
    // What is masked must still be finite.
    for (std::size_t c = 0; c < 2 * sizes_.layers; ++c)
      std::fill_n(cache(c), sizes_.rows * sizes_.cache * sizes_.kept, 0.0F);
  }

  Result<void> begin(std::span<const HostTensor> prompt) override {
    std::memcpy(in(kPromptMask), prompt[0].data(), prompt[0].bytes());
    for (std::size_t c = 0; c < 2 * sizes_.layers; ++c)
      std::memcpy(in(prompt_input(kFirst, c)), prompt[1 + c].data(), prompt[1 + c].bytes());
    return {};
  }

  float* word(std::int64_t row, std::int64_t said) override {
    float* const place = in(kAt) + row * sizes_.most;
    std::fill_n(place, sizes_.most, 0.0F);
    place[said] = 1;
    float* const earlier = in(kCacheMask) + row * sizes_.cache;
    for (std::int64_t i = 0; i < sizes_.cache; ++i) earlier[i] = i < said ? 1.0F : 0.0F;
    said_[static_cast<std::size_t>(row)] = said;
    return in(kWords) + row * sizes_.columns;
  }

  Result<void> run() override {
    TESSERA_DO(runner_.run());
    for (std::int64_t row = 0; row < sizes_.rows; ++row) {
      const std::int64_t said = std::exchange(said_[static_cast<std::size_t>(row)], kNoWord);
      if (said != kNoWord && said < sizes_.cache) keep(row, said);
    }
    return {};
  }

  const float* query(std::int64_t row) const override { return out(0) + row * sizes_.choice; }

  Result<void> load(std::size_t which, float* to) const override {
    std::copy_n(cache(which), sizes_.rows * sizes_.cache * sizes_.kept, to);
    return {};
  }
  Result<void> store(std::size_t which, const float* from) override {
    std::copy_n(from, sizes_.rows * sizes_.cache * sizes_.kept, cache(which));
    return {};
  }

 private:
  static constexpr std::size_t kWords = 0, kAt = 1, kPromptMask = 2, kCacheMask = 3, kFirst = 4;

  float* in(std::size_t input) const { return static_cast<float*>(runner_.input_data(input)); }
  const float* out(std::size_t output) const {
    return static_cast<const float*>(runner_.output_data(output));
  }
  float* cache(std::size_t which) const { return in(kept_input(kFirst, which)); }

  // The word's keys and values behind those of the words before it.
  void keep(std::int64_t row, std::int64_t said) {
    const std::int64_t place = row * sizes_.cache + said;
    for (std::size_t c = 0; c < 2 * sizes_.layers; ++c)
      std::copy_n(out(1 + c) + row * sizes_.kept, sizes_.kept, cache(c) + place * sizes_.kept);
  }

  exec::ModelRunner& runner_;
  Sizes sizes_;
  std::vector<std::int64_t> said_;  // before the word to read
};

class BlockOnDevice final : public LanguageBlock {
 public:
  BlockOnDevice(exec::ModelRunner& runner, const LanguageSpec& spec, const StepShape& shape)
      : runner_(runner),
        sizes_(spec, shape),
        words_(DType::kF32, {sizes_.rows, sizes_.columns}),
        said_(DType::kF32, {sizes_.rows, 2}),
        cache_shape_{sizes_.rows, sizes_.cache, spec.hyper.at("key_heads"),
                     spec.hyper.at("width") / spec.hyper.at("heads")} {}

  Result<void> prepare() {
    std::vector<exec::ModelRunner::Carried> carried;
    for (std::size_t c = 0; c < 2 * sizes_.layers; ++c)
      carried.push_back({.output = 1 + c, .input = kept_input(kFirst, c)});
    TESSERA_DO(runner_.carry(std::move(carried)));
    // What is masked must still be finite.
    const HostTensor zeros(DType::kF32, cache_shape_);
    for (std::size_t c = 0; c < 2 * sizes_.layers; ++c)
      TESSERA_DO(runner_.set_input(kept_input(kFirst, c), zeros));
    return {};
  }

  Result<void> begin(std::span<const HostTensor> prompt) override {
    TESSERA_DO(runner_.set_input(kPromptMask, prompt[0]));
    for (std::size_t c = 0; c < 2 * sizes_.layers; ++c)
      TESSERA_DO(runner_.set_input(prompt_input(kFirst, c), prompt[1 + c]));
    return {};
  }

  float* word(std::int64_t row, std::int64_t said) override {
    float* const state = said_.as<float>() + 2 * row;
    state[0] = static_cast<float>(said);
    state[1] = 1;
    return words_.as<float>() + row * sizes_.columns;
  }

  Result<void> run() override {
    TESSERA_DO(runner_.set_input(kWords, words_));
    TESSERA_DO(runner_.set_input(kSaid, said_));
    TESSERA_DO(runner_.run());
    for (std::int64_t row = 0; row < sizes_.rows; ++row) said_.as<float>()[2 * row + 1] = 0;
    return {};
  }

  const float* query(std::int64_t row) const override {
    return static_cast<const float*>(runner_.output_data(0)) + row * sizes_.choice;
  }

  Result<void> load(std::size_t which, float* to) const override {
    TESSERA_TRY(const HostTensor now, runner_.input(kept_input(kFirst, which)));
    std::memcpy(to, now.data(), now.bytes());
    return {};
  }
  Result<void> store(std::size_t which, const float* from) override {
    HostTensor next(DType::kF32, cache_shape_);
    std::memcpy(next.data(), from, next.bytes());
    return runner_.set_input(kept_input(kFirst, which), next);
  }

 private:
  static constexpr std::size_t kWords = 0, kSaid = 1, kPromptMask = 2, kFirst = 3;

  exec::ModelRunner& runner_;
  Sizes sizes_;
  HostTensor words_, said_;
  Shape cache_shape_;
};

}  // namespace

Result<std::unique_ptr<LanguageBlock>> block_here(exec::ModelRunner& runner,
                                                  const LanguageSpec& spec,
                                                  const StepShape& shape) {
  return std::unique_ptr<LanguageBlock>(new BlockHere(runner, spec, shape));
}

Result<std::unique_ptr<LanguageBlock>> block_on_device(exec::ModelRunner& runner,
                                                       const LanguageSpec& spec,
                                                       const StepShape& shape) {
  auto made = std::make_unique<BlockOnDevice>(runner, spec, shape);
  TESSERA_DO(made->prepare());
  return std::unique_ptr<LanguageBlock>(std::move(made));
}

}  // namespace tessera::lm
