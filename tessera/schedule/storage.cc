#include "tessera/schedule/storage.h"

namespace tessera::schedule {
namespace {

std::size_t idx(int i) { return static_cast<std::size_t>(i); }

// The dimension after `dim` grows until the stride of `dim` is `offset` modulo `factor`.
void align_stride(std::vector<std::int64_t>* shape, int dim, std::int64_t factor,
                  std::int64_t offset) {
  std::int64_t inner = 1;
  for (std::size_t d = idx(dim) + 2; d < shape->size(); ++d) inner *= (*shape)[d];
  for (std::int64_t grow = 0; grow < factor; ++grow) {
    if (((*shape)[idx(dim) + 1] + grow) * inner % factor == offset) {
      (*shape)[idx(dim) + 1] += grow;
      return;
    }
  }
}

}  // namespace

void align_strides(const Stage& stage, std::vector<std::int64_t>* shape) {
  for (const auto& [dim, rule] : stage.align) align_stride(shape, dim, rule.first, rule.second);
}

}  // namespace tessera::schedule
