// Arbitrary bytes as a file of sentences, and as the content of a block of one, whose checksum is
// then right: an Error or sentences about subjects that are there.
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include <zlib.h>

#include "tessera/learn/lm/shard.h"
#include "tessera/support/files.h"
#include "tests/fuzz/memory_file.h"

namespace {

using namespace tessera;  // NOLINT(google-build-using-namespace)

// What begins every file: the magic and the schema of this program.
const std::string& file_header() {
  static const std::string header = [] {
    const std::string path = "/dev/shm/tessera_shard_fuzzer." + std::to_string(::getpid());
    (void)lm::ShardWriter::create(path);
    std::string bytes = read_file(path).value();
    std::filesystem::remove(path);
    return bytes;
  }();
  return header;
}

void put_u32(std::uint64_t n, std::string* out) {
  for (int i = 0; i < 4; ++i) out->push_back(static_cast<char>(n >> (8 * i)));
}

std::string with_block(std::string_view block) {
  uLongf size = compressBound(block.size());
  std::string packed(size, '\0');
  compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
            reinterpret_cast<const Bytef*>(block.data()), block.size(), 1);
  packed.resize(size);
  std::string out = file_header();
  put_u32(block.size(), &out);
  put_u32(size, &out);
  put_u32(crc32(0, reinterpret_cast<const Bytef*>(packed.data()), static_cast<uInt>(size)), &out);
  return out + packed;
}

void read_all(std::string_view bytes) {
  const fuzz::MemoryFile file(bytes);
  auto reader = lm::ShardReader::open(file.path());
  if (!reader.ok()) return;
  lm::Sentence sentence;
  for (auto more = reader->next(&sentence); more.ok() && *more; more = reader->next(&sentence)) {
    const auto subject = static_cast<std::size_t>(sentence.subject);
    if (subject >= reader->subjects().size()) __builtin_trap();
    const auto& questions = reader->subjects()[subject].questions;
    for (const lm::Answer& a : sentence.answers) {
      const auto question = static_cast<std::size_t>(a.question);
      if (question >= questions.size()) __builtin_trap();
      if (static_cast<std::size_t>(a.taken) >= questions[question].values.size()) __builtin_trap();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  read_all(bytes);
  read_all(file_header() + std::string(bytes));
  read_all(with_block(bytes));
  return 0;
}
