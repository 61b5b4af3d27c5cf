#include "tessera/backend/exec/share_constants.h"

#include <cstring>
#include <map>

namespace tessera::exec {

std::int64_t share_constants(const CompiledModel& with, CompiledModel* model) {
  // Names of values need not tell weights apart: bytes do.
  std::multimap<std::pair<std::size_t, std::string>, const HostTensor*> known;
  for (std::size_t i = 0; i < with.constants.size(); ++i)
    known.emplace(std::pair(with.constants[i].bytes(), with.constant_names[i].value),
                  &with.constants[i]);
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < model->constants.size(); ++i) {
    HostTensor& own = model->constants[i];
    const auto [from, to] = known.equal_range({own.bytes(), model->constant_names[i].value});
    for (auto at = from; at != to; ++at) {
      const HostTensor& other = *at->second;
      if (own.dtype() != other.dtype() || own.shape() != other.shape() ||
          std::memcmp(own.data(), other.data(), own.bytes()) != 0)
        continue;
      own = other;
      bytes += static_cast<std::int64_t>(own.bytes());
      break;
    }
  }
  return bytes;
}

}  // namespace tessera::exec
