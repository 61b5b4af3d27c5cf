// Numbers as words of a list, which mean nothing but themselves: what the meaning of numbers is
// worth is studied by taking it away.
#pragma once

#include <memory>

#include "tessera/learn/lm/reader.h"

namespace tessera::lm {

// Every word and value becomes a name: equal ones stay equal, similar ones are strangers.
void hide_numbers(Subject* subject);

// Reads subjects so.
class OpaqueReader final : public Reader {
 public:
  explicit OpaqueReader(std::shared_ptr<Reader> reader) : reader_(std::move(reader)) {}

  Result<void> begin(const Subject& subject, int rows, float quality) override;
  Result<std::vector<float>> step(std::span<const Step> steps) override {
    return reader_->step(steps);
  }
  Result<void> copy_rows(std::span<const std::int32_t> sources) override {
    return reader_->copy_rows(sources);
  }

 private:
  std::shared_ptr<Reader> reader_;
  Subject subject_;
};

}  // namespace tessera::lm
