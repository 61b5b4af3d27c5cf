#include "tessera/backend/exec/share_constants.h"

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tessera/support/checksum.h"

namespace tessera::exec {
namespace {

struct Held {
  std::weak_ptr<const void> memory;
  std::size_t bytes = 0;
};

struct AllHeld {
  std::mutex mutex;
  std::multimap<std::string, Held> by_digest;
};

AllHeld& all_held() {
  static AllHeld all;
  return all;
}

std::vector<std::shared_ptr<const void>> candidates(const std::string& digest, std::size_t bytes) {
  AllHeld& all = all_held();
  const std::lock_guard lock(all.mutex);
  std::vector<std::shared_ptr<const void>> out;
  const auto [from, to] = all.by_digest.equal_range(digest);
  for (auto at = from; at != to; ++at) {
    if (at->second.bytes != bytes) continue;
    if (auto memory = at->second.memory.lock()) out.push_back(std::move(memory));
  }
  return out;
}

}  // namespace

std::string constant_digest(const HostTensor& constant) {
  return Checksum::of({constant.as<char>(), constant.bytes()}).digest();
}

bool take_shared_constant(const std::string& digest, HostTensor* constant) {
  if (!is_shared(*constant)) return false;
  for (auto& memory : candidates(digest, constant->bytes())) {
    const void* bytes = memory.get();
    if (std::memcmp(bytes, constant->data(), constant->bytes()) != 0) continue;
    *constant = HostTensor::view(constant->dtype(), constant->shape(), std::move(memory), bytes);
    return true;
  }
  return false;
}

void offer_constant(const std::string& digest, const HostTensor& constant) {
  if (!is_shared(constant)) return;
  AllHeld& all = all_held();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.by_digest, [](const auto& held) { return held.second.memory.expired(); });
  all.by_digest.emplace(digest, Held{constant.memory(), constant.bytes()});
}

}  // namespace tessera::exec
