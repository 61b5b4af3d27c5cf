#include "tessera/learn/lm/guided_reader.h"

namespace tessera::lm {

Result<void> GuidedReader::begin(const Subject& subject, int rows, float quality) {
  TESSERA_DO(wished_->begin(subject, rows, quality));
  return unknown_->begin(subject, rows, kUnknownQuality);
}

Result<std::vector<float>> GuidedReader::step(std::span<const Step> steps) {
  TESSERA_TRY(std::vector<float> out, wished_->step(steps));
  TESSERA_TRY(const std::vector<float> unknown, unknown_->step(steps));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] += static_cast<float>(weight_) * (out[i] - unknown[i]);
  return out;
}

Result<void> GuidedReader::copy_rows(std::span<const std::int32_t> sources) {
  TESSERA_DO(wished_->copy_rows(sources));
  return unknown_->copy_rows(sources);
}

}  // namespace tessera::lm
