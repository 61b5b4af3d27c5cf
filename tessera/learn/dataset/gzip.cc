#include "tessera/learn/dataset/gzip.h"

#include <algorithm>

#include <zlib.h>

namespace tessera::dataset {
namespace {

constexpr int kGzipWindow = 15 + 16;  // zlib's way to ask for gzip's header
constexpr std::size_t kBlock = std::size_t{1} << 18;
// zlib counts in 32 bits.
constexpr std::size_t kMost = std::size_t{1} << 30;

}  // namespace

std::string gzip(std::string_view text) {
  z_stream stream{};
  const int started =
      deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzipWindow, 9, Z_DEFAULT_STRATEGY);
  TESSERA_CHECK(started == Z_OK, "deflate could not start: {}", started);
  std::string out, block(kBlock, '\0');
  std::size_t taken = 0;
  int status = Z_OK;
  while (status == Z_OK) {
    if (stream.avail_in == 0) {
      const std::size_t give = std::min(text.size() - taken, kMost);
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data() + taken));
      stream.avail_in = static_cast<uInt>(give);
      taken += give;
    }
    stream.next_out = reinterpret_cast<Bytef*>(block.data());
    stream.avail_out = static_cast<uInt>(block.size());
    status = deflate(&stream, taken == text.size() ? Z_FINISH : Z_NO_FLUSH);
    out.append(block.data(), block.size() - stream.avail_out);
  }
  deflateEnd(&stream);
  TESSERA_CHECK(status == Z_STREAM_END, "deflate stopped: {}", status);
  return out;
}

Result<std::string> gunzip(std::string_view bytes, std::size_t most_bytes) {
  z_stream stream{};
  if (inflateInit2(&stream, kGzipWindow) != Z_OK) {
    return make_error(ErrorCode::kIo, "inflate could not start");
  }
  std::string out, block(kBlock, '\0');
  std::size_t taken = 0;
  int status = Z_OK;
  while (status == Z_OK && out.size() <= most_bytes) {
    if (stream.avail_in == 0) {
      const std::size_t give = std::min(bytes.size() - taken, kMost);
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data() + taken));
      stream.avail_in = static_cast<uInt>(give);
      taken += give;
    }
    stream.next_out = reinterpret_cast<Bytef*>(block.data());
    stream.avail_out = static_cast<uInt>(block.size());
    status = inflate(&stream, Z_NO_FLUSH);
    out.append(block.data(), block.size() - stream.avail_out);
  }
  inflateEnd(&stream);
  if (status == Z_OK) return make_error(ErrorCode::kIo, "more than {} bytes", most_bytes);
  if (status != Z_STREAM_END) return make_error(ErrorCode::kIo, "bad or incomplete gzip data");
  return out;
}

std::uint32_t crc32_of(std::string_view bytes) {
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace tessera::dataset
