// Arbitrary bytes as a model file: an Error, or a file that is written and read again.
#include <cstdint>
#include <string_view>

#include "tessera/learn/model/model_file.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera::model;  // NOLINT(google-build-using-namespace)
  const tessera::fuzz::MemoryFile file({reinterpret_cast<const char*>(data), size});
  const auto read = read_model_file(file.path());
  (void)read_model_file(file.path(), "gbt", "schema");
  if (!read.ok()) return 0;
  const std::string copy = "/dev/shm/tessera_model_fuzzer." + std::to_string(::getpid());
  if (!write_model_file(copy, *read).ok()) __builtin_trap();
  const auto again = read_model_file(copy);
  if (!again.ok() || again->parts != read->parts || again->kind != read->kind) __builtin_trap();
  ::unlink(copy.c_str());
  return 0;
}
