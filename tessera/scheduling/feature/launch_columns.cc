// Columns of FeatureKind::kLaunch after those of kStatement.
#include "tessera/machine/target/properties.h"
#include "tessera/scheduling/feature/schema.h"

namespace tessera::feature {
namespace {

using Launch = LaunchView;
using target::Property;
using target::Target;

float flag(bool b) { return b ? 1 : 0; }
template <Property P>
float size(const Launch&, const Target& t) {
  return slog(target::value_of(P, t));
}
double ratio(double a, double b) { return b > 0 ? a / b : 0; }

}  // namespace

const std::vector<LaunchColumn>& launch_columns() {
  static const std::vector<LaunchColumn> columns = {
      {"launches", [](const Launch& v, const Target&) { return slog(v.launches); }},
      {"launch_blocks", [](const Launch& v, const Target&) { return slog(v.blocks); }},
      {"launch_threads", [](const Launch& v, const Target&) { return slog(v.threads); }},
      {"launch_warps", [](const Launch& v, const Target&) { return slog(v.warps); }},
      {"launch_shared_bytes", [](const Launch& v, const Target&) { return slog(v.shared_bytes); }},
      {"launch_registers", [](const Launch& v, const Target&) { return slog(v.registers); }},
      {"resident_blocks", [](const Launch& v, const Target&) { return slog(v.resident); }},
      {"occupancy", [](const Launch& v, const Target&) { return static_cast<float>(v.occupancy); }},
      {"waves", [](const Launch& v, const Target&) { return slog(v.waves); }},
      {"wave_tail", [](const Launch& v, const Target&) { return slog(v.tail); }},
      {"blocks_per_core",
       [](const Launch& v, const Target& t) { return slog(ratio(v.blocks, t.cores)); }},
      {"launch_work", [](const Launch& v, const Target&) { return slog(v.work); }},
      {"block_work", [](const Launch& v, const Target&) { return slog(ratio(v.work, v.blocks)); }},
      {"thread_work", [](const Launch& v, const Target&) { return slog(v.thread_work); }},
      {"global_bytes", [](const Launch& v, const Target&) { return slog(v.global_bytes); }},
      {"work_per_global_byte",
       [](const Launch& v, const Target&) { return slog(ratio(v.work, v.global_bytes)); }},
      {"barriers", [](const Launch& v, const Target&) { return slog(v.barriers); }},
      {"is_shared_stage", [](const Launch& v, const Target&) { return flag(v.is_shared); }},
      {"is_local_stage", [](const Launch& v, const Target&) { return flag(v.is_local); }},
      {"read_sectors", [](const Launch& v, const Target&) { return slog(v.read_sectors); }},
      {"write_sectors", [](const Launch& v, const Target&) { return slog(v.write_sectors); }},
      {"access_bytes", [](const Launch& v, const Target&) { return slog(v.vector_bytes); }},
      {"bank_conflicts", [](const Launch& v, const Target&) { return slog(v.bank_conflicts); }},
      {"gpu_capability", size<Property::kCapability>},
      {"gpu_core_threads", size<Property::kCoreThreads>},
      {"gpu_core_registers", size<Property::kCoreRegisters>},
      {"gpu_block_shared_bytes", size<Property::kBlockSharedBytes>},
      {"gpu_core_shared_bytes", size<Property::kCoreSharedBytes>},
      {"gpu_core_lanes", size<Property::kCoreLanes>},
      {"gpu_clock_mhz", size<Property::kClockMhz>},
      {"gpu_bandwidth_gb_s", size<Property::kBandwidthGbS>},
  };
  return columns;
}

}  // namespace tessera::feature
