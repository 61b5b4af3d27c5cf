#include "tessera/backend/artifact/device_code.h"

#include <algorithm>

#include "tessera/backend/codegen/ptx_tools.h"
#include "tessera/support/parallel.h"

namespace tessera::artifact {
namespace {

constexpr std::size_t kAlignment = 64;

std::string text_of(const runtime::Binary& b) { return {b.bytes.begin(), b.bytes.end()}; }

Result<std::vector<std::string>> assemble(const std::vector<runtime::Binary>& binaries,
                                          int threads) {
  std::vector<std::string> cubins(binaries.size());
  TESSERA_DO(try_parallel_for(binaries.size(), threads, [&](std::size_t i) -> Result<void> {
    TESSERA_TRY(const codegen::Assembled done,
                codegen::assemble_ptx(text_of(binaries[i]), binaries[i].target.cpu));
    cubins[i].assign(done.cubin.begin(), done.cubin.end());
    return {};
  }));
  return cubins;
}

// Where the bytes begin.
std::size_t append(const std::string& bytes, std::string* to) {
  to->resize((to->size() + kAlignment - 1) / kAlignment * kAlignment, '\0');
  const std::size_t start = to->size();
  *to += bytes;
  to->push_back('\0');
  return start;
}

}  // namespace

Result<DeviceCode> make_device_code(const std::vector<runtime::Binary>& binaries, int threads) {
  DeviceCode out;
  std::vector<std::string> cubins(binaries.size());
  if (!binaries.empty()) {
    const target::KindRow& row = binaries[0].target.row();
    out.kinds.emplace_back(row.code);
    if (!row.assembler.empty() && codegen::find_cuda_tool(std::string(row.assembler)).ok()) {
      TESSERA_TRY(cubins, assemble(binaries, threads));
      out.kinds.emplace_back(row.assembled);
    }
  }
  for (std::size_t i = 0; i < binaries.size(); ++i) {
    DeviceCode::Module module;
    const std::string text = text_of(binaries[i]);
    module.text = append(text, &out.bytes);
    module.text_bytes = text.size();
    if (!cubins[i].empty()) module.binary = append(cubins[i], &out.bytes);
    module.binary_bytes = cubins[i].size();
    out.modules.push_back(module);
  }
  return out;
}

}  // namespace tessera::artifact
