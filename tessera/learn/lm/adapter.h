// What measured sentences teach a language model while it writes: a few weights beside its own.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/learn/lm/reader.h"

namespace tessera::lm {

// The speed of a sentence as a sum over its answers, linear in the numbers of the values taken, by
// kinds of questions: learned by ridge regression, so that few sentences move it little. What it
// learns of one task holds for others, whose questions and values have the same numbers. Not for
// use by two threads at once.
class Adapter {
 public:
  // A sentence about `subject` that ran at this speed (natural logarithm of anything that is
  // proportional to it within a task). Of too many the oldest is forgotten.
  void add(const std::string& task, const Subject& subject, std::span<const Answer> answers,
           double log_speed);
  std::size_t sentences() const { return examples_.size(); }
  // Learns from all of them; nothing happens where none is new.
  void fit();

  // What is added to the logarithm of a value's chance; 0 before anything is learned.
  float bonus(const Question& question, std::int32_t value) const;

 private:
  struct Example {
    std::string task;
    std::vector<float> numbers;
    double log_speed = 0;
  };
  std::vector<Example> examples_;  // oldest first
  std::vector<float> weights_;     // empty: nothing is learned
  bool stale_ = false;
};

// A reader whose probabilities an adapter corrects. The caller reports measurements to the adapter.
class AdaptedReader final : public Reader {
 public:
  AdaptedReader(std::shared_ptr<Reader> reader, std::shared_ptr<Adapter> adapter)
      : reader_(std::move(reader)), adapter_(std::move(adapter)) {}

  Adapter* adapter() override { return adapter_.get(); }

  Result<void> begin(const Subject& subject, int rows, float quality) override;
  // Log-probabilities, normalised as those of the reader are.
  Result<std::vector<float>> step(std::span<const Step> steps) override;
  Result<void> copy_rows(std::span<const std::int32_t> sources) override {
    return reader_->copy_rows(sources);
  }

 private:
  std::shared_ptr<Reader> reader_;
  std::shared_ptr<Adapter> adapter_;
  const Subject* subject_ = nullptr;
};

}  // namespace tessera::lm
