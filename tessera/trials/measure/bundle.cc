#include "tessera/trials/measure/bundle.h"

#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>
#include <set>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tessera/support/hash.h"

namespace tessera::measure {
namespace {

static_assert(std::endian::native == std::endian::little, "frames hold numbers as they are");

constexpr char kMagic[8] = {'T', 'S', 'R', 'B', 'N', 'D', 'L', '\n'};
constexpr std::uint64_t kMostFrame = std::uint64_t{1} << 30;

enum class FrameKind : std::uint64_t { kHeader = 1, kTask, kItem, kEnd };

struct FrameHead {
  std::uint64_t kind = 0, size = 0, checksum = 0;
};

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int fd() const { return fd_; }
  // Fewer bytes only at the end of the file, or when it cannot be read.
  std::size_t read_at(std::uint64_t at, char* out, std::size_t size) const {
    std::size_t done = 0;
    while (done < size) {
      const ssize_t n = pread(fd_, out + done, size - done, static_cast<off_t>(at + done));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      done += static_cast<std::size_t>(n);
    }
    return done;
  }

 private:
  int fd_;
};

std::uint64_t checksum(FrameKind kind, const std::string& body) {
  return hash_bytes(body, static_cast<std::uint64_t>(kind));
}

struct RawFrame {
  FrameKind kind = FrameKind::kEnd;
  std::string body;
  std::uint64_t end = 0;  // offset behind it
};

// nullopt: no whole frame is there.
std::optional<RawFrame> read_frame(const File& file, std::uint64_t at) {
  FrameHead head;
  if (file.read_at(at, reinterpret_cast<char*>(&head), sizeof(head)) != sizeof(head)) {
    return std::nullopt;
  }
  if (head.size > kMostFrame) return std::nullopt;
  struct stat info {};
  const std::uint64_t end = at + sizeof(head) + head.size;
  if (fstat(file.fd(), &info) != 0 || end > static_cast<std::uint64_t>(info.st_size)) {
    return std::nullopt;
  }
  RawFrame frame;
  frame.kind = static_cast<FrameKind>(head.kind);
  frame.end = end;
  frame.body.resize(head.size);
  if (file.read_at(at + sizeof(head), frame.body.data(), head.size) != head.size ||
      checksum(frame.kind, frame.body) != head.checksum) {
    return std::nullopt;
  }
  return frame;
}

template <class T>
bool decode_body(const RawFrame& frame, FrameKind kind, T* out) {
  Decoder decoder(frame.body);
  fields(decoder, *out);
  return frame.kind == kind && decoder.ok();
}

bool is_bundle(const File& file) {
  char magic[sizeof(kMagic)];
  return file.read_at(0, magic, sizeof(magic)) == sizeof(magic) &&
         std::memcmp(magic, kMagic, sizeof(magic)) == 0;
}

Error refuse(const std::string& path, const char* why) {
  return make_error(ErrorCode::kInvalidArgument, "{}: {}", path, why);
}

// What the frames of a file tell, up to the first that is not whole.
struct Contents {
  BundleHeader header;
  std::vector<BundleTask> tasks;
  std::vector<std::uint64_t> items;  // offsets
  std::set<std::pair<std::uint64_t, std::int64_t>> trials;
  bool finished = false;
  std::uint64_t end = sizeof(kMagic);
};

// False: a whole frame that does not make sense.
bool take(const RawFrame& frame, std::uint64_t at, Contents* c) {
  switch (frame.kind) {
    case FrameKind::kHeader:
      return at == sizeof(kMagic) && decode_body(frame, frame.kind, &c->header);
    case FrameKind::kTask:
      return decode_body(frame, frame.kind, &c->tasks.emplace_back());
    case FrameKind::kItem: {
      BundleItem item;
      if (!decode_body(frame, frame.kind, &item) || item.task >= c->tasks.size()) return false;
      c->items.push_back(at);
      return c->trials.emplace(item.task, item.trial).second;
    }
    case FrameKind::kEnd:
      c->finished = true;
      return true;
  }
  return false;
}

Result<Contents> read_contents(const File& file, const std::string& path) {
  Contents c;
  while (const std::optional<RawFrame> frame = read_frame(file, c.end)) {
    const bool first = c.end == sizeof(kMagic);
    const bool sensible =
        !c.finished && first == (frame->kind == FrameKind::kHeader) && take(*frame, c.end, &c);
    // Its header begins with the version, whatever else it has.
    if (c.header.version != BundleHeader().version) {
      return refuse(path, "was made by another version of this program");
    }
    if (!sensible) return refuse(path, "is damaged");
    c.end = frame->end;
  }
  return c;
}

}  // namespace

struct Bundle::Impl {
  Impl(int fd, std::string name) : file(fd), path(std::move(name)) {}
  File file;
  std::string path;
  Contents contents;
};

Bundle::Bundle(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Bundle::Bundle(Bundle&&) noexcept = default;
Bundle& Bundle::operator=(Bundle&&) noexcept = default;
Bundle::~Bundle() = default;

const BundleHeader& Bundle::header() const { return impl_->contents.header; }
const std::vector<BundleTask>& Bundle::tasks() const { return impl_->contents.tasks; }
std::size_t Bundle::size() const { return impl_->contents.items.size(); }

Result<Bundle> Bundle::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return make_error(ErrorCode::kIo, "{}: {}", path, std::strerror(errno));
  auto impl = std::make_unique<Impl>(fd, path);
  if (!is_bundle(impl->file)) return refuse(path, "is not a bundle");
  TESSERA_TRY(impl->contents, read_contents(impl->file, path));
  struct stat info {};
  if (fstat(fd, &info) != 0) return refuse(path, "cannot be read");
  if (!impl->contents.finished) {
    return refuse(path, "is cut off or damaged: build it to its end (tessera dataset build)");
  }
  if (impl->contents.end != static_cast<std::uint64_t>(info.st_size)) {
    return refuse(path, "is damaged");
  }
  return Bundle(std::move(impl));
}

Result<BundleItem> Bundle::item(std::size_t index) const {
  const std::optional<RawFrame> frame = read_frame(impl_->file, impl_->contents.items.at(index));
  BundleItem item;
  if (!frame || !decode_body(*frame, FrameKind::kItem, &item)) {
    return refuse(impl_->path, "is damaged");
  }
  return item;
}

struct BundleWriter::Impl {
  Impl(int fd, std::string name) : file(fd), path(std::move(name)) {}
  File file;
  std::string path;
  Contents contents;
  std::vector<std::string> keys;

  Result<void> append(std::string_view bytes) {
    std::size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t n = write(file.fd(), bytes.data() + done, bytes.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return make_error(ErrorCode::kIo, "{}: {}", path, std::strerror(errno));
      done += static_cast<std::size_t>(n);
    }
    contents.end += bytes.size();
    return {};
  }

  Result<void> append_frame(FrameKind kind, const std::string& body) {
    if (contents.finished) {
      return refuse(path, "has an end but lacks candidates; remove it to build it again");
    }
    const FrameHead head{static_cast<std::uint64_t>(kind), body.size(), checksum(kind, body)};
    std::string bytes(reinterpret_cast<const char*>(&head), sizeof(head));
    return append(bytes + body);
  }

  Result<void> begin(const BundleHeader& header) {
    if (ftruncate(file.fd(), 0) != 0) {
      return make_error(ErrorCode::kIo, "{}: {}", path, std::strerror(errno));
    }
    contents = {};
    contents.end = 0;
    contents.header = header;
    TESSERA_DO(append({kMagic, sizeof(kMagic)}));
    return append_frame(FrameKind::kHeader, encode(header));
  }
};

BundleWriter::BundleWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
BundleWriter::BundleWriter(BundleWriter&&) noexcept = default;
BundleWriter& BundleWriter::operator=(BundleWriter&&) noexcept = default;
BundleWriter::~BundleWriter() = default;

bool BundleWriter::finished() const { return impl_->contents.finished; }
const std::vector<std::string>& BundleWriter::task_keys() const { return impl_->keys; }
bool BundleWriter::has(std::uint64_t task, std::int64_t trial) const {
  return impl_->contents.trials.count({task, trial}) != 0;
}

Result<BundleWriter> BundleWriter::open(const std::string& path, const BundleHeader& header) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0) return make_error(ErrorCode::kIo, "{}: {}", path, std::strerror(errno));
  auto impl = std::make_unique<Impl>(fd, path);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    return make_error(ErrorCode::kUnavailable, "{}: another process builds it", path);
  }
  struct stat info {};
  if (fstat(fd, &info) != 0)
    return make_error(ErrorCode::kIo, "{}: {}", path, std::strerror(errno));
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size >= sizeof(kMagic) && !is_bundle(impl->file)) {
    return refuse(path, "is not a bundle; it is left as it is");
  }
  if (size >= sizeof(kMagic)) {
    TESSERA_TRY(impl->contents, read_contents(impl->file, path));
  }
  // A header that was never whole says nothing worth keeping.
  if (impl->contents.end == sizeof(kMagic)) {
    TESSERA_DO(impl->begin(header));
    return BundleWriter(std::move(impl));
  }
  if (!(impl->contents.header == header)) {
    return refuse(path, "holds candidates of another sample or target; remove it to start again");
  }
  if (impl->contents.end != size && ftruncate(fd, static_cast<off_t>(impl->contents.end)) != 0) {
    return make_error(ErrorCode::kIo, "{}: {}", path, std::strerror(errno));
  }
  for (const BundleTask& t : impl->contents.tasks) impl->keys.push_back(t.key);
  return BundleWriter(std::move(impl));
}

Result<void> BundleWriter::add(const BundleTask& task) {
  TESSERA_DO(impl_->append_frame(FrameKind::kTask, encode(task)));
  impl_->keys.push_back(task.key);
  return {};
}

Result<void> BundleWriter::add(const BundleItem& item) {
  TESSERA_DO(impl_->append_frame(FrameKind::kItem, encode(item)));
  impl_->contents.trials.emplace(item.task, item.trial);
  return {};
}

Result<void> BundleWriter::finish() {
  if (impl_->contents.finished) return {};
  TESSERA_DO(impl_->append_frame(FrameKind::kEnd, {}));
  impl_->contents.finished = true;
  return {};
}

}  // namespace tessera::measure
