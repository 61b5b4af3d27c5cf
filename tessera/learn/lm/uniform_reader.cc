#include "tessera/learn/lm/uniform_reader.h"

#include <cmath>

namespace tessera::lm {

Result<void> UniformReader::begin(const Subject&, int, float) { return {}; }

Result<std::vector<float>> UniformReader::step(std::span<const Step> steps) {
  std::vector<float> out;
  for (const Step& s : steps) {
    out.insert(out.end(), s.legal.size(), -std::log(static_cast<float>(s.legal.size())));
  }
  return out;
}

Result<void> UniformReader::copy_rows(std::span<const std::int32_t>) { return {}; }

}  // namespace tessera::lm
