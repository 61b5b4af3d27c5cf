// Columns of FeatureKind::kLaunch after those of kStatement.
#include "tessera/scheduling/feature/schema.h"

namespace tessera::feature {
namespace {

using Launch = LaunchView;
using target::Target;

float flag(bool b) { return b ? 1 : 0; }
float number(std::int64_t n) { return slog(static_cast<double>(n)); }
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
      {"gpu_capability", [](const Launch&, const Target& t) { return number(t.gpu.capability); }},
      {"gpu_core_threads",
       [](const Launch&, const Target& t) { return number(t.gpu.core_threads); }},
      {"gpu_core_registers",
       [](const Launch&, const Target& t) { return number(t.gpu.core_registers); }},
      {"gpu_block_shared_bytes",
       [](const Launch&, const Target& t) { return number(t.gpu.block_shared_bytes); }},
      {"gpu_core_shared_bytes",
       [](const Launch&, const Target& t) { return number(t.gpu.core_shared_bytes); }},
      {"gpu_core_lanes", [](const Launch&, const Target& t) { return number(t.gpu.core_lanes); }},
      {"gpu_clock_mhz", [](const Launch&, const Target& t) { return number(t.gpu.clock_mhz); }},
      {"gpu_bandwidth_gb_s",
       [](const Launch&, const Target& t) { return number(t.gpu.bandwidth_gb_s); }},
  };
  return columns;
}

}  // namespace tessera::feature
