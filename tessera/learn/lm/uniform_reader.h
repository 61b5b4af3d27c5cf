// A reader that knows nothing: every legal value is as likely as the others.
#pragma once

#include "tessera/learn/lm/reader.h"

namespace tessera::lm {

class UniformReader final : public Reader {
 public:
  Result<void> begin(const Subject& subject, int rows, float quality) override;
  Result<std::vector<float>> step(std::span<const Step> steps) override;
  Result<void> copy_rows(std::span<const std::int32_t> sources) override;
};

}  // namespace tessera::lm
