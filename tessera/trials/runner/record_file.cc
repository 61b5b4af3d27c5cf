#include "tessera/trials/runner/record_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "tessera/support/files.h"
#include "tessera/support/hash.h"

namespace tessera::runner {
namespace {

std::uint64_t identity(const record::Record& r) {
  return hash_bytes(fmt::format("{} {} {} {}", r.task, r.threads, r.target, r.schedule_digest));
}

}  // namespace

RecordFile::RecordFile(RecordFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      sessions_(other.sessions_),
      tasks_(std::move(other.tasks_)),
      known_(std::move(other.known_)),
      best_(std::move(other.best_)) {}

RecordFile::~RecordFile() {
  if (fd_ >= 0) close(fd_);
}

Result<RecordFile> RecordFile::open(const std::string& path) {
  RecordFile file(path);
  file.fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file.fd_ < 0) return make_error(ErrorCode::kIo, "{}: {}", path, std::strerror(errno));
  if (flock(file.fd_, LOCK_EX | LOCK_NB) != 0) {
    return make_error(ErrorCode::kUnavailable, "{}: another process adds to it", path);
  }
  TESSERA_DO(file.read());
  return file;
}

Result<void> RecordFile::read() {
  TESSERA_TRY(const std::string text, read_file(path_));
  std::size_t at = 0;
  for (std::size_t line = 1; at < text.size(); ++line) {
    const std::size_t end = text.find('\n', at);
    if (end == std::string::npos) break;
    const Result<record::Row> row =
        record::row_from_json_line(std::string_view(text).substr(at, end - at));
    if (!row.ok()) return row.error().with_context(fmt::format("{}:{}", path_, line));
    know(*row);
    at = end + 1;
  }
  if (at < text.size() && ftruncate(fd_, static_cast<off_t>(at)) != 0) {
    return make_error(ErrorCode::kIo, "{}: {}", path_, std::strerror(errno));
  }
  return {};
}

void RecordFile::know(const record::Row& row) {
  if (const auto* session = std::get_if<record::SessionRow>(&row)) {
    sessions_ = std::max(sessions_, session->id);
  } else if (const auto* task = std::get_if<record::TaskRow>(&row)) {
    tasks_.insert(task->key);
  } else {
    const auto& r = std::get<record::Record>(row);
    known_.insert(identity(r));
    double& best = best_[{r.task, r.threads}];
    if (r.seconds > 0 && (best == 0 || r.seconds < best)) best = r.seconds;
  }
}

bool RecordFile::has(const record::Record& like) const { return known_.count(identity(like)) != 0; }

double RecordFile::best_seconds(const std::string& task, int threads) const {
  const auto found = best_.find({task, threads});
  return found == best_.end() ? 0 : found->second;
}

Result<void> RecordFile::append(const record::Row& row) {
  const auto* task = std::get_if<record::TaskRow>(&row);
  if (task != nullptr && tasks_.count(task->key) != 0) return {};
  const std::string line = record::to_json_line(row) + "\n";
  std::size_t done = 0;
  while (done < line.size()) {
    const ssize_t n = write(fd_, line.data() + done, line.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return make_error(ErrorCode::kIo, "{}: {}", path_, std::strerror(errno));
    done += static_cast<std::size_t>(n);
  }
  know(row);
  return {};
}

}  // namespace tessera::runner
