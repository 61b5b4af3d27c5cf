#include "tessera/support/zip.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include <zlib.h>

namespace tessera {
namespace {

// Names and layouts of the records: PKWARE's APPNOTE.TXT, sections 4.3.6 to 4.3.16.
constexpr std::uint32_t kLocalHeader = 0x04034b50;
constexpr std::uint32_t kDirectoryHeader = 0x02014b50;
constexpr std::uint32_t kEnd = 0x06054b50;
constexpr std::uint32_t kEnd64 = 0x06064b50;
constexpr std::uint32_t kEnd64Locator = 0x07064b50;
constexpr std::size_t kLocalSize = 30, kDirectorySize = 46, kEndSize = 22, kLocatorSize = 20;
constexpr std::size_t kEnd64Size = 56;
constexpr std::uint16_t kStored = 0, kDeflated = 8;
constexpr std::uint16_t kEncrypted = 1;
constexpr std::uint16_t kExtra64 = 1;
constexpr std::uint16_t kExtraPadding = 0xd935;  // as Android's zipalign writes it
constexpr std::uint32_t kIn64 = 0xffffffff;      // the real number is in the zip64 field
// Deflate cannot shrink data further than this: larger claims are lies that would cost memory.
constexpr std::uint64_t kBestRatio = 1032;

Error broken(const char* what) { return make_error(ErrorCode::kInvalidArgument, "zip: {}", what); }

// Little-endian numbers from a range; reading past the end gives 0 and sets failed().
class Reader {
 public:
  Reader(std::string_view bytes, std::uint64_t at) : bytes_(bytes), at_(at) {
    failed_ = at > bytes.size();
  }

  std::uint64_t number(int size) {
    if (failed_ || bytes_.size() - at_ < static_cast<std::size_t>(size)) {
      failed_ = true;
      return 0;
    }
    std::uint64_t value = 0;
    for (int i = 0; i < size; ++i) {
      const auto byte = static_cast<unsigned char>(bytes_[at_ + static_cast<std::size_t>(i)]);
      value |= std::uint64_t{byte} << (8 * i);
    }
    at_ += static_cast<std::size_t>(size);
    return value;
  }
  std::uint16_t u16() { return static_cast<std::uint16_t>(number(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }
  std::uint64_t u64() { return number(8); }

  std::string_view take(std::uint64_t size) {
    if (failed_ || bytes_.size() - at_ < size) {
      failed_ = true;
      return {};
    }
    const std::string_view part = bytes_.substr(at_, size);
    at_ += size;
    return part;
  }
  void skip(std::uint64_t size) { take(size); }
  bool failed() const { return failed_; }
  std::uint64_t at() const { return at_; }

 private:
  std::string_view bytes_;
  std::uint64_t at_;
  bool failed_ = false;
};

struct Directory {
  std::uint64_t entries = 0, offset = 0;
};

Result<Directory> find_directory(std::string_view archive) {
  if (archive.size() < kEndSize) return broken("too short");
  // The end record is last, before a comment of at most 65535 bytes.
  const std::size_t last = archive.size() - kEndSize;
  const std::size_t first = last > 0xffff ? last - 0xffff : 0;
  for (std::size_t at = last + 1; at-- > first;) {
    Reader r(archive, at);
    if (r.u32() != kEnd) continue;
    r.skip(6);
    Directory directory;
    directory.entries = r.u16();
    r.skip(4);
    directory.offset = r.u32();
    if (directory.entries != 0xffff && directory.offset != kIn64) return directory;
    if (at < kLocatorSize) return broken("no zip64 locator");
    Reader locator(archive, at - kLocatorSize);
    if (locator.u32() != kEnd64Locator) {
      if (directory.offset == kIn64) return broken("no zip64 locator");
      return directory;
    }
    locator.skip(4);
    Reader end(archive, locator.u64());
    if (end.u32() != kEnd64) return broken("no zip64 end record");
    end.skip(28);
    directory.entries = end.u64();
    end.skip(8);
    directory.offset = end.u64();
    if (end.failed()) return broken("cut off");
    return directory;
  }
  return broken("no end record: not a zip archive, or cut off");
}

struct Located {
  std::string name;
  std::uint16_t method = 0;
  std::uint32_t crc = 0;
  std::uint64_t packed = 0, size = 0, offset = 0;
};

// The fields that are kIn64 follow in this order in the zip64 extra field.
void read_extra64(std::string_view extra, Located* entry) {
  Reader r(extra, 0);
  while (!r.failed()) {
    const std::uint16_t id = r.u16();
    const std::string_view body = r.take(r.u16());
    if (r.failed() || id != kExtra64) continue;
    Reader fields(body, 0);
    for (std::uint64_t* field : {&entry->size, &entry->packed, &entry->offset}) {
      if (*field == kIn64) *field = fields.u64();
    }
    return;
  }
}

Result<Located> read_located(Reader& r) {
  Located entry;
  if (r.u32() != kDirectoryHeader) return broken("bad directory");
  r.skip(4);
  const std::uint16_t flags = r.u16();
  entry.method = r.u16();
  r.skip(4);
  entry.crc = r.u32();
  entry.packed = r.u32();
  entry.size = r.u32();
  const std::uint16_t name_size = r.u16(), extra_size = r.u16(), comment_size = r.u16();
  r.skip(8);
  entry.offset = r.u32();
  entry.name = std::string(r.take(name_size));
  read_extra64(r.take(extra_size), &entry);
  r.skip(comment_size);
  if (r.failed()) return broken("directory is cut off");
  if ((flags & kEncrypted) != 0) {
    return make_error(ErrorCode::kUnsupported, "zip: {} is encrypted", entry.name);
  }
  return entry;
}

Result<std::string> inflate_entry(std::string_view packed, std::uint64_t size) {
  if (size / kBestRatio > packed.size()) return broken("impossible size");
  std::string out(size, '\0');
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return broken("inflate could not start");
  std::size_t in = 0, done = 0;
  int status = Z_OK;
  // zlib counts in 32 bits.
  constexpr std::size_t kMost = std::size_t{1} << 30;
  while (status == Z_OK) {
    const std::size_t give = std::min(packed.size() - in, kMost);
    const std::size_t room = std::min(out.size() - done, kMost);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data() + in));
    stream.avail_in = static_cast<uInt>(give);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + done);
    stream.avail_out = static_cast<uInt>(room);
    status = inflate(&stream, Z_NO_FLUSH);
    in += give - stream.avail_in;
    done += room - stream.avail_out;
  }
  inflateEnd(&stream);
  if (status != Z_STREAM_END || done != out.size()) return broken("bad deflate data");
  return out;
}

std::uint32_t checksum(std::string_view bytes) {
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

Result<std::string_view> data_of(std::string_view archive, const Located& entry) {
  Reader r(archive, entry.offset);
  if (r.u32() != kLocalHeader) return broken("bad local header");
  r.skip(22);
  const std::uint16_t name_size = r.u16(), extra_size = r.u16();
  r.skip(std::uint64_t{name_size} + extra_size);
  const std::string_view packed = r.take(entry.packed);
  if (r.failed()) return broken("data is cut off");
  return packed;
}

Result<std::vector<Located>> read_directory(std::string_view archive) {
  TESSERA_TRY(const Directory directory, find_directory(archive));
  if (directory.entries > archive.size() / kDirectorySize) return broken("impossible directory");
  Reader r(archive, directory.offset);
  std::vector<Located> entries;
  std::uint64_t unclaimed = archive.size();
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    TESSERA_TRY(Located located, read_located(r));
    // Entries that share their data could unpack to the square of the archive.
    if (located.packed > unclaimed) return broken("entries overlap");
    unclaimed -= located.packed;
    entries.push_back(std::move(located));
  }
  return entries;
}

Result<ZipEntry> extract(std::string_view archive, const Located& entry) {
  TESSERA_TRY(const std::string_view packed, data_of(archive, entry));
  ZipEntry out;
  out.name = entry.name;
  if (entry.method == kDeflated) {
    TESSERA_TRY(out.bytes, inflate_entry(packed, entry.size));
  } else if (entry.method == kStored) {
    if (entry.packed != entry.size) return broken("sizes of a stored entry differ");
    out.bytes = std::string(packed);
  } else {
    return make_error(ErrorCode::kUnsupported, "zip: compression method {}", entry.method);
  }
  if (checksum(out.bytes) != entry.crc) return broken("checksum differs");
  return out;
}

void put(std::string* out, std::uint64_t value, int size) {
  for (int i = 0; i < size; ++i) out->push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

// Empty when deflating does not help.
std::string deflate_entry(std::string_view bytes) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) !=
      Z_OK) {
    return {};
  }
  std::string out;
  std::string block(std::size_t{1} << 16, '\0');
  constexpr std::size_t kMost = std::size_t{1} << 30;
  int status = Z_OK;
  while (status == Z_OK && out.size() < bytes.size()) {
    if (stream.avail_in == 0) {
      const std::size_t give = std::min(bytes.size() - stream.total_in, kMost);
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data() + stream.total_in));
      stream.avail_in = static_cast<uInt>(give);
    }
    const bool last = stream.total_in + stream.avail_in == bytes.size();
    stream.next_out = reinterpret_cast<Bytef*>(block.data());
    stream.avail_out = static_cast<uInt>(block.size());
    status = deflate(&stream, last ? Z_FINISH : Z_NO_FLUSH);
    out.append(block.data(), block.size() - stream.avail_out);
  }
  deflateEnd(&stream);
  return status == Z_STREAM_END && out.size() < bytes.size() ? out : std::string();
}

struct Written {
  std::string name;
  std::uint16_t method = kStored;
  std::uint32_t crc = 0;
  std::uint64_t packed = 0, size = 0, offset = 0;

  bool needs64(bool always) const { return always || std::max({packed, size, offset}) >= kIn64; }
};

// The fields that local and directory headers share, from "version needed" on.
void put_common(std::string* out, const Written& w, bool in64, std::size_t extra) {
  put(out, in64 ? 45 : 20, 2);
  put(out, 0x800, 2);  // names are UTF-8
  put(out, w.method, 2);
  put(out, 0, 2);
  put(out, 0x21, 2);  // 1980-01-01: the same tensors always give the same bytes
  put(out, w.crc, 4);
  put(out, in64 ? kIn64 : w.packed, 4);
  put(out, in64 ? kIn64 : w.size, 4);
  put(out, w.name.size(), 2);
  put(out, extra, 2);
}

void put_extra64(std::string* out, const Written& w, bool with_offset) {
  put(out, kExtra64, 2);
  put(out, with_offset ? 24 : 16, 2);
  put(out, w.size, 8);
  put(out, w.packed, 8);
  if (with_offset) put(out, w.offset, 8);
}

// Bytes of an extra field that bring what follows to the alignment: none, or at least its header.
std::size_t padding_of(std::size_t start, std::size_t alignment) {
  std::size_t padding = (alignment - start % alignment) % alignment;
  while (padding > 0 && padding < 4) padding += alignment;
  return padding;
}

void put_padding(std::string* out, std::size_t padding) {
  if (padding == 0) return;
  put(out, kExtraPadding, 2);
  put(out, padding - 4, 2);
  out->append(padding - 4, '\0');
}

void put_directory(std::string* out, const std::vector<Written>& entries, bool always64) {
  const std::uint64_t start = out->size();
  for (const Written& w : entries) {
    const bool in64 = w.needs64(always64);
    put(out, kDirectoryHeader, 4);
    put(out, in64 ? 45 : 20, 2);
    put_common(out, w, in64, in64 ? 28 : 0);
    out->append(2 + 2 + 2 + 4, '\0');  // comment, disk, attributes
    put(out, in64 ? kIn64 : w.offset, 4);
    out->append(w.name);
    if (in64) put_extra64(out, w, true);
  }
  const std::uint64_t size = out->size() - start;
  const bool in64 = always64 || entries.size() >= 0xffff || start >= kIn64 || size >= kIn64;
  if (in64) {
    const std::uint64_t end = out->size();
    put(out, kEnd64, 4);
    put(out, kEnd64Size - 12, 8);
    put(out, 45, 2);
    put(out, 45, 2);
    put(out, 0, 8);
    put(out, entries.size(), 8);
    put(out, entries.size(), 8);
    put(out, size, 8);
    put(out, start, 8);
    put(out, kEnd64Locator, 4);
    put(out, 0, 4);
    put(out, end, 8);
    put(out, 1, 4);
  }
  put(out, kEnd, 4);
  put(out, 0, 4);
  const std::uint64_t count = in64 ? 0xffff : entries.size();
  put(out, count, 2);
  put(out, count, 2);
  put(out, in64 ? kIn64 : size, 4);
  put(out, in64 ? kIn64 : start, 4);
  put(out, 0, 2);
}

}  // namespace

Result<std::vector<ZipEntry>> parse_zip(std::string_view archive, std::uint64_t most_bytes) {
  TESSERA_TRY(const std::vector<Located> directory, read_directory(archive));
  std::uint64_t left = most_bytes;
  for (const Located& located : directory) {
    if (located.size > left) {
      return make_error(ErrorCode::kUnsupported, "zip: the entries take more than {} bytes",
                        most_bytes);
    }
    left -= located.size;
  }
  std::vector<ZipEntry> entries;
  for (const Located& located : directory) {
    Result<ZipEntry> entry = extract(archive, located);
    if (!entry.ok()) return entry.error().with_context(located.name);
    entries.push_back(std::move(*entry));
  }
  return entries;
}

Result<std::vector<ZipView>> view_zip(std::string_view archive) {
  TESSERA_TRY(const std::vector<Located> directory, read_directory(archive));
  std::vector<ZipView> views;
  for (const Located& entry : directory) {
    if (entry.method != kStored || entry.packed != entry.size) {
      return make_error(ErrorCode::kUnsupported, "zip: {} is compressed", entry.name);
    }
    TESSERA_TRY(const std::string_view bytes, data_of(archive, entry));
    views.push_back({entry.name, bytes});
  }
  return views;
}

std::string zip_bytes(const std::vector<ZipEntry>& entries, const ZipOptions& options) {
  std::string out;
  std::vector<Written> written;
  for (const ZipEntry& entry : entries) {
    const std::string deflated = options.compress ? deflate_entry(entry.bytes) : std::string();
    const std::string& data = deflated.empty() ? entry.bytes : deflated;
    const Written w{entry.name,
                    deflated.empty() ? kStored : kDeflated,
                    checksum(entry.bytes),
                    data.size(),
                    entry.bytes.size(),
                    out.size()};
    const bool in64 = w.needs64(options.zip64);
    const std::size_t start = out.size() + kLocalSize + w.name.size() + (in64 ? 20 : 0);
    const std::size_t padding = padding_of(start, w.method == kStored ? options.alignment : 1);
    out.reserve(start + padding + data.size());
    put(&out, kLocalHeader, 4);
    put_common(&out, w, in64, (in64 ? 20 : 0) + padding);
    out.append(w.name);
    if (in64) put_extra64(&out, w, false);
    put_padding(&out, padding);
    out.append(data);
    written.push_back(w);
  }
  put_directory(&out, written, options.zip64);
  return out;
}

}  // namespace tessera
