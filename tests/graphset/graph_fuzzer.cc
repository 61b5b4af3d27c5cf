// Arbitrary bytes as an npz file of TpuGraphs: an Error, or a graph that can be written and read
// again.
#include <cstdint>
#include <string_view>

#include "tessera/learn/graphset/npz_file.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera::graphset;  // NOLINT(google-build-using-namespace)
  constexpr std::uint64_t kMost = 1 << 22;
  const tessera::fuzz::MemoryFile file({reinterpret_cast<const char*>(data), size});
  const auto graph = read_graph(file.path(), kMost);
  if (!graph.ok()) return 0;
  const std::string copy = "/dev/shm/tessera_graph_fuzzer." + std::to_string(::getpid()) + ".npz";
  if (write_graph(copy, *graph).ok() && !read_graph(copy, 2 * kMost).ok()) __builtin_trap();
  ::unlink(copy.c_str());
  return 0;
}
