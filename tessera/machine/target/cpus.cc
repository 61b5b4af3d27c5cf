#include "tessera/machine/target/cpus.h"

#include <algorithm>
#include <charconv>
#include <fstream>

#include <fmt/format.h>
#include <unistd.h>

#include "tessera/machine/target/processors.h"

namespace tessera::target {
namespace {

constexpr int kMostCpus = 1 << 18;  // far beyond any kernel's limit

// Read together at the first question, before the process restricts itself.
struct HostCpus {
  std::vector<int> allowed;
  CpuOrder order;
  int quota = 0;
};

HostCpus query_host_cpus() {
  HostCpus cpus;
  cpus.allowed.resize(kMostCpus);
  const std::int32_t count = tsr_allowed_processors(cpus.allowed.data(), kMostCpus);
  cpus.allowed.resize(static_cast<std::size_t>(count));
  cpus.allowed.shrink_to_fit();
  cpus.order = order_cpus("", cpus.allowed);
  cpus.quota = cpu_quota("");
  return cpus;
}

const HostCpus& host_cpus() {
  static const HostCpus cpus = query_host_cpus();
  return cpus;
}

std::string first_word(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

// "64K", "2M", "512": bytes; 0 for anything else.
std::int64_t parse_size(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0) return 0;
  const std::string unit(end, text.data() + text.size());
  if (unit.empty()) return value;
  if (unit == "K") return value << 10;
  if (unit == "M") return value << 20;
  return 0;
}

void fill(std::int64_t& bytes, int sysconf_name, std::int64_t fallback) {
  if (bytes > 0) return;
  const long told = sysconf(sysconf_name);
  bytes = told > 0 ? told : fallback;
}

}  // namespace

const std::vector<int>& allowed_cpus() { return host_cpus().allowed; }

CpuOrder order_cpus(const std::string& root, std::vector<int> cpus) {
  CpuOrder order;
  const auto count = static_cast<std::int32_t>(cpus.size());
  order.cores = tsr_order_processors(root.c_str(), cpus.data(), count);
  order.cpus = std::move(cpus);
  return order;
}

int cpu_quota(const std::string& root) { return tsr_processor_quota(root.c_str()); }

std::int64_t memory_limit(const std::string& root) { return tsr_memory_limit(root.c_str()); }

const std::vector<int>& cpu_order() { return host_cpus().order.cpus; }

int usable_cpus() {
  const int quota = host_cpus().quota, allowed = static_cast<int>(host_cpus().allowed.size());
  return quota > 0 ? std::min(quota, allowed) : allowed;
}

int default_threads() {
  return tsr_default_threads(static_cast<std::int32_t>(host_cpus().allowed.size()),
                             host_cpus().order.cores, host_cpus().quota);
}

std::int64_t usable_memory() {
  static const std::int64_t bytes = [] {
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    const std::int64_t all = pages > 0 && page > 0 ? std::int64_t{pages} * page : 0;
    const std::int64_t limit = memory_limit("");
    return all > 0 && limit > 0 ? std::min(all, limit) : std::max(all, limit);
  }();
  return bytes;
}

int count_cpu_list(const std::string& list) {
  int count = 0;
  const char* at = list.data();
  const char* const end = at + list.size();
  while (at < end) {
    int first = 0;
    auto parsed = std::from_chars(at, end, first);
    if (parsed.ec != std::errc()) return 0;
    int last = first;
    if (parsed.ptr < end && *parsed.ptr == '-') {
      parsed = std::from_chars(parsed.ptr + 1, end, last);
      if (parsed.ec != std::errc()) return 0;
    }
    if (first < 0 || last < first || last >= kMostCpus) return 0;
    count = std::min(count + last - first + 1, kMostCpus);
    if (parsed.ptr < end && *parsed.ptr != ',') return 0;
    at = parsed.ptr + 1;
  }
  return count;
}

Caches read_caches(const std::string& folder) {
  Caches caches;
  int l1_sharers = 1;
  int l2_sharers = 1;
  for (int index = 0; index < 16; ++index) {
    const std::string entry = fmt::format("{}/index{}/", folder, index);
    const std::string level = first_word(entry + "level");
    if (level.empty()) break;
    if (first_word(entry + "type") == "Instruction") continue;
    const std::int64_t bytes = parse_size(first_word(entry + "size"));
    const int sharers = std::max(1, count_cpu_list(first_word(entry + "shared_cpu_list")));
    const std::int64_t line = parse_size(first_word(entry + "coherency_line_size"));
    if (level == "1") {
      caches.l1_bytes = bytes;
      l1_sharers = sharers;
      if (line > 0) caches.line_bytes = static_cast<int>(line);
    } else if (level == "2") {
      caches.l2_bytes = bytes;
      l2_sharers = sharers;
    } else if (level == "3") {
      caches.l3_bytes = bytes;
    }
  }
  // Threads of one core share its L1, so sharers of L1 are one core.
  caches.l2_bytes /= std::max(1, l2_sharers / l1_sharers);
  return caches;
}

Caches host_caches(int cpu) {
  Caches caches = read_caches(fmt::format("/sys/devices/system/cpu/cpu{}/cache", cpu));
  const bool told = caches.l1_bytes > 0;
  fill(caches.l1_bytes, _SC_LEVEL1_DCACHE_SIZE, 32 << 10);
  fill(caches.l2_bytes, _SC_LEVEL2_CACHE_SIZE, 512 << 10);
  // A kernel that describes the inner caches and no third one means that there is none.
  if (!told) fill(caches.l3_bytes, _SC_LEVEL3_CACHE_SIZE, 8 << 20);
  return caches;
}

}  // namespace tessera::target
