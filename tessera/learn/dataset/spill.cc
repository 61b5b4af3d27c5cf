#include "tessera/learn/dataset/spill.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

namespace tessera::dataset {
namespace {

constexpr std::size_t kChunk = std::size_t{64} << 10;
constexpr std::size_t kInMemory = std::size_t{16} << 20;

struct Chunk {
  off_t at = 0;
  std::size_t stored = 0, bytes = 0;  // in the file; of the entries
};

struct Group {
  std::string pending;
  std::vector<Chunk> chunks;
};

void append_size(std::size_t size, std::string* out) {
  char bytes[sizeof size];
  std::memcpy(bytes, &size, sizeof size);
  out->append(bytes, sizeof bytes);
}

Result<void> visit_entries(std::string_view bytes,
                           const std::function<Result<void>(std::string_view)>& visit) {
  while (!bytes.empty()) {
    std::size_t size = 0;
    std::memcpy(&size, bytes.data(), sizeof size);
    TESSERA_DO(visit(bytes.substr(sizeof size, size)));
    bytes.remove_prefix(sizeof size + size);
  }
  return {};
}

}  // namespace

struct Spill::Impl {
  ~Impl() {
    if (fd >= 0) ::close(fd);
  }

  Error failed(const char* what) const {
    return make_error(ErrorCode::kIo, "cannot {} a file in {}: {}", what, folder,
                      std::strerror(errno));
  }

  Result<void> write(Group* group) {
    if (group->pending.empty()) return {};
    uLongf size = compressBound(group->pending.size());
    std::string stored(size, '\0');
    const int packed =
        compress2(reinterpret_cast<Bytef*>(stored.data()), &size,
                  reinterpret_cast<const Bytef*>(group->pending.data()), group->pending.size(), 1);
    TESSERA_CHECK(packed == Z_OK, "deflate stopped: {}", packed);
    for (std::size_t done = 0; done < size;) {
      const ssize_t count =
          ::pwrite(fd, stored.data() + done, size - done, end + static_cast<off_t>(done));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return failed("write");
      done += static_cast<std::size_t>(count);
    }
    group->chunks.push_back({end, size, group->pending.size()});
    end += static_cast<off_t>(size);
    in_memory -= group->pending.size();
    group->pending = {};  // and its memory
    return {};
  }

  Result<std::string> read(const Chunk& chunk) const {
    std::string stored(chunk.stored, '\0');
    for (std::size_t done = 0; done < stored.size();) {
      const ssize_t count = ::pread(fd, stored.data() + done, stored.size() - done,
                                    chunk.at + static_cast<off_t>(done));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return failed("read");
      done += static_cast<std::size_t>(count);
    }
    std::string bytes(chunk.bytes, '\0');
    uLongf size = bytes.size();
    const int status = uncompress(reinterpret_cast<Bytef*>(bytes.data()), &size,
                                  reinterpret_cast<const Bytef*>(stored.data()), stored.size());
    if (status == Z_OK && size == bytes.size()) return bytes;
    return make_error(ErrorCode::kIo, "a file in {} changed while it was used", folder);
  }

  std::string folder;
  int fd = -1;
  off_t end = 0;
  std::vector<Group> groups;
  std::size_t in_memory = 0;
};

Spill::Spill(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Spill::Spill(Spill&&) noexcept = default;
Spill::~Spill() = default;

Result<Spill> Spill::create(const std::string& folder) {
  auto impl = std::make_unique<Impl>();
  impl->folder = folder;
  std::string name = folder + "/spill.XXXXXX";
  impl->fd = ::mkostemp(name.data(), O_CLOEXEC);
  if (impl->fd < 0) return impl->failed("make");
  ::unlink(name.c_str());
  return Spill(std::move(impl));
}

Result<void> Spill::add(std::size_t group, std::string_view entry) {
  if (group >= impl_->groups.size()) impl_->groups.resize(group + 1);
  Group& g = impl_->groups[group];
  const std::size_t before = g.pending.size();
  append_size(entry.size(), &g.pending);
  g.pending += entry;
  impl_->in_memory += g.pending.size() - before;
  if (g.pending.size() >= kChunk) TESSERA_DO(impl_->write(&g));
  if (impl_->in_memory < kInMemory) return {};
  for (Group& each : impl_->groups) TESSERA_DO(impl_->write(&each));
  return {};
}

Result<void> Spill::visit(std::size_t group,
                          const std::function<Result<void>(std::string_view)>& visit) const {
  if (group >= impl_->groups.size()) return {};
  const Group& g = impl_->groups[group];
  for (const Chunk& chunk : g.chunks) {
    TESSERA_TRY(const std::string bytes, impl_->read(chunk));
    TESSERA_DO(visit_entries(bytes, visit));
  }
  return visit_entries(g.pending, visit);
}

}  // namespace tessera::dataset
