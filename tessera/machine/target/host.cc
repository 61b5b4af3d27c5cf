#include "tessera/machine/target/cpus.h"
#include "tessera/machine/target/features.h"
#include "tessera/machine/target/host_cpu.h"
#include "tessera/machine/target/target.h"

#if !defined(__aarch64__) && !defined(__x86_64__)
#error "Tessera runs on AArch64 and x86-64 Linux"
#endif

namespace tessera::target {
namespace {

Target detect_host() {
  const std::vector<int>& cpus = allowed_cpus();
  const HostCpu cpu = detect_host_cpu(cpus.front());
  const Caches caches = host_caches(cpus.front());
  Target t;
  t.name = "host";
  t.arch = cpu.arch;
  t.triple = row_of(cpu.arch).triple;
  t.cpu = cpu.cpu;
  t.features = feature_string(cpu.arch, cpu.features);
  derive_from_features(t);
  t.cores = usable_cpus();
  t.l1_bytes = caches.l1_bytes;
  t.l2_bytes = caches.l2_bytes;
  t.l3_bytes = caches.l3_bytes;
  t.line_bytes = caches.line_bytes;
  t.rates = shipped_rates(t);
  return t;
}

}  // namespace

const Target& host() {
  static const Target target = detect_host();
  return target;
}

bool runs_on_host(const Target& t) {
  if (t.arch != host().arch) return false;
  for (const std::string_view name : present_features(t.features)) {
    if (!has_feature(host().features, name)) return false;
  }
  return true;
}

}  // namespace tessera::target
