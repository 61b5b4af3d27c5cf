#include "tessera/backend/codegen/ptx_tools.h"

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <vector>

#include "tessera/support/files.h"
#include "tessera/support/run_tool.h"
#include "tessera/support/temporary_folder.h"

namespace tessera::codegen {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_program(const fs::path& path) { return ::access(path.c_str(), X_OK) == 0; }

// .../site-packages/nvidia/*/bin of a virtual environment.
std::vector<fs::path> wheel_folders(const fs::path& environment) {
  std::vector<fs::path> out;
  std::error_code error;
  for (const fs::directory_entry& python : fs::directory_iterator(environment / "lib", error)) {
    std::error_code none;
    const fs::path packages = python.path() / "site-packages" / "nvidia";
    for (const fs::directory_entry& package : fs::directory_iterator(packages, none))
      out.push_back(package.path() / "bin");
  }
  return out;
}

}  // namespace

Result<std::string> find_cuda_tool(const std::string& name) {
  std::vector<fs::path> folders;
  std::stringstream list(variable("PATH"));
  for (std::string folder; std::getline(list, folder, ':');) folders.emplace_back(folder);
  if (const std::string home = variable("CUDA_HOME"); !home.empty())
    folders.push_back(fs::path(home) / "bin");
  folders.emplace_back("/usr/local/cuda/bin");
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  for (const fs::path& f : wheel_folders(program.parent_path() / "../lib/peers/venv"))
    folders.push_back(f);
  if (const fs::path python = variable("TESSERA_PEERS_PYTHON"); !python.empty()) {
    for (const fs::path& f : wheel_folders(python.parent_path().parent_path()))
      folders.push_back(f);
  }
  for (const fs::path& folder : folders) {
    if (!folder.empty() && is_program(folder / name)) return (folder / name).string();
  }
  return make_error(ErrorCode::kUnavailable,
                    "no {}: not on PATH, in $CUDA_HOME/bin, /usr/local/cuda/bin or the Python "
                    "environment of the peers",
                    name);
}

Result<Assembled> assemble_ptx(const std::string& ptx, const std::string& cpu) {
  TESSERA_TRY(const std::string ptxas, find_cuda_tool("ptxas"));
  TESSERA_TRY(const TemporaryFolder scratch, TemporaryFolder::make("ptx"));
  const std::string source = scratch.path() + "/kernel.ptx",
                    cubin = scratch.path() + "/kernel.cubin";
  TESSERA_DO(write_file(source, {ptx}));
  Assembled out;
  TESSERA_TRY(out.facts,
              run_tool({ptxas, "-v", "-arch=" + cpu, "-o", cubin, source}, scratch.path()));
  TESSERA_TRY(const std::string bytes, read_file(cubin));
  out.cubin.assign(bytes.begin(), bytes.end());
  return out;
}

Result<std::string> show_sass(const std::string& ptx, const std::string& cpu) {
  TESSERA_TRY(const std::string nvdisasm, find_cuda_tool("nvdisasm"));
  TESSERA_TRY(const Assembled assembled, assemble_ptx(ptx, cpu));
  TESSERA_TRY(const TemporaryFolder scratch, TemporaryFolder::make("ptx"));
  const std::string cubin = scratch.path() + "/kernel.cubin";
  TESSERA_DO(write_file(cubin, {std::string(assembled.cubin.begin(), assembled.cubin.end())}));
  TESSERA_TRY(const std::string text, run_tool({nvdisasm, "-c", cubin}, scratch.path()));
  return text + assembled.facts;
}

}  // namespace tessera::codegen
