#include "tessera/machine/target/properties.h"

#include <array>

#include "tessera/machine/target/core_table.h"

namespace tessera::target {
namespace {

template <auto Member>
double field(const Target& t) {
  return static_cast<double>(t.*Member);
}
template <auto Member>
double gpu(const Target& t) {
  return static_cast<double>(t.gpu.*Member);
}
template <auto Member>
double of_kind(const Target& t) {
  return t.row().*Member ? 1 : 0;
}

struct Row {
  Property property;
  double (*read)(const Target& t);
};
using P = Property;

constexpr std::array kRows = {
    Row{P::kMemoryOperands,
        [](const Target& t) { return !t.row().launches && !core_of(t).lane_operands ? 1.0 : 0.0; }},
    Row{P::kLaneOperands,
        [](const Target& t) { return !t.row().launches && core_of(t).lane_operands ? 1.0 : 0.0; }},
    Row{P::kAssembledAhead, [](const Target& t) { return t.row().assembler.empty() ? 0.0 : 1.0; }},
    Row{P::kDriverCompiles, of_kind<&KindRow::driver_compiles>},
    Row{P::kLaunches, of_kind<&KindRow::launches>},
    Row{P::kThreads, [](const Target& t) { return double(t.code_threads()); }},
    Row{P::kCores, field<&Target::cores>},
    Row{P::kVectorBytes, field<&Target::vector_bytes>},
    Row{P::kVectorRegisters, field<&Target::vector_registers>},
    Row{P::kL1Bytes, field<&Target::l1_bytes>},
    Row{P::kL2Bytes, field<&Target::l2_bytes>},
    Row{P::kL3Bytes, field<&Target::l3_bytes>},
    Row{P::kLineBytes, field<&Target::line_bytes>},
    Row{P::kFma, field<&Target::has_fma>},
    Row{P::kF16, field<&Target::has_f16>},
    Row{P::kBf16Dot, field<&Target::has_bf16_dot>},
    Row{P::kBf16Mma, field<&Target::has_bf16_mma>},
    Row{P::kI8Dot, field<&Target::has_i8_dot>},
    Row{P::kI8Mma, field<&Target::has_i8_mma>},
    Row{P::kCapability, gpu<&GpuLimits::capability>},
    Row{P::kWarp, [](const Target& t) { return t.row().launches ? double(t.gpu.warp) : 0.0; }},
    Row{P::kBlockThreads, gpu<&GpuLimits::block_threads>},
    Row{P::kCoreThreads, gpu<&GpuLimits::core_threads>},
    Row{P::kCoreRegisters, gpu<&GpuLimits::core_registers>},
    Row{P::kBlockSharedBytes, gpu<&GpuLimits::block_shared_bytes>},
    Row{P::kCoreSharedBytes, gpu<&GpuLimits::core_shared_bytes>},
    Row{P::kCoreLanes, gpu<&GpuLimits::core_lanes>},
    Row{P::kClockMhz, gpu<&GpuLimits::clock_mhz>},
    Row{P::kBandwidthGbS, gpu<&GpuLimits::bandwidth_gb_s>},
};

constexpr bool rows_follow_enum() {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (static_cast<std::size_t>(kRows[i].property) != i) return false;
  }
  return true;
}
static_assert(rows_follow_enum());

}  // namespace

double value_of(Property property, const Target& t) {
  return kRows[static_cast<std::size_t>(property)].read(t);
}

}  // namespace tessera::target
