#include "tessera/machine/target/kind_table.h"

#include <elf.h>

#include "tessera/support/check.h"

namespace tessera::target {
namespace {

constexpr std::int64_t kMostBlocks = (std::int64_t{1} << 31) - 1;

constexpr std::array kKinds = {
    KindRow{.kind = Kind::kCpu,
            .name = "cpu",
            .triple = "",
            .launches = false,
            .warp = 0,
            .grid = {},
            .has_libm = true,
            .code = "object",
            .assembler = "",
            .assembled = "",
            .driver_compiles = false,
            .link_flag = "-lm",
            .dlpack = 1,
            .dlpack_managed = 1},
    KindRow{.kind = Kind::kCuda,
            .name = "cuda",
            .triple = "nvptx64-nvidia-cuda",
            .launches = true,
            .warp = 32,
            .grid = {kMostBlocks, 65535, 65535},
            .has_libm = false,
            .code = "ptx",
            .assembler = "ptxas",
            .assembled = "cubin",
            .driver_compiles = false,
            .link_flag = "-ldl",
            .dlpack = 2,
            .dlpack_managed = 13},
    KindRow{.kind = Kind::kOpenCl,
            .name = "opencl",
            .triple = "spir64-unknown-unknown",
            .launches = true,
            .warp = 32,
            .grid = {kMostBlocks, kMostBlocks, kMostBlocks},
            .has_libm = false,
            .code = "opencl-c",
            .assembler = "",
            .assembled = "",
            .driver_compiles = true,
            .link_flag = "-ldl",
            .dlpack = 4,
            .dlpack_managed = 4},
};

constexpr std::array kArchs = {
    ArchRow{Arch::kX86_64, "x86_64", "x86_64-unknown-linux-gnu", "x86-64", "amd64", EM_X86_64,
            R_X86_64_64},
    ArchRow{Arch::kAArch64, "aarch64", "aarch64-unknown-linux-gnu", "generic", "arm64", EM_AARCH64,
            R_AARCH64_ABS64},
};

}  // namespace

std::span<const KindRow> kinds() { return kKinds; }

const KindRow& row_of(Kind kind) {
  const auto at = static_cast<std::size_t>(kind);
  TESSERA_CHECK(at < kKinds.size() && kKinds[at].kind == kind, "kind {} has no row", at);
  return kKinds[at];
}

std::optional<Kind> kind_from_text(std::string_view name) {
  for (const KindRow& row : kKinds) {
    if (row.name == name) return row.kind;
  }
  return std::nullopt;
}

std::span<const ArchRow> archs() { return kArchs; }

const ArchRow& row_of(Arch arch) {
  const auto at = static_cast<std::size_t>(arch);
  TESSERA_CHECK(at < kArchs.size() && kArchs[at].arch == arch, "architecture {} has no row", at);
  return kArchs[at];
}

}  // namespace tessera::target
