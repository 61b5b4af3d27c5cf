#include "tessera/trials/measure/guarded_buffer.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

#include "tessera/machine/runtime/aligned_buffer.h"
#include "tessera/support/ceil_div.h"

namespace tessera::measure {
namespace {

constexpr std::byte kPattern{0xa5};
// Without access, on either side: address space only, so that far accesses fall into it too.
constexpr std::size_t kNoAccess = std::size_t{1} << 20;

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

// Read by the signal handler, so neither locked nor allocated. A buffer beyond the last row is only
// guarded by its zones.
struct Region {
  std::atomic<std::uintptr_t> begin{0}, end{0};
};
std::array<Region, 1024> regions;

void add_region(const void* begin, std::size_t bytes) {
  for (Region& r : regions) {
    if (r.end.load() != 0) continue;
    r.begin = reinterpret_cast<std::uintptr_t>(begin);
    r.end = reinterpret_cast<std::uintptr_t>(begin) + bytes;
    return;
  }
}

void remove_region(const void* begin) {
  for (Region& r : regions) {
    if (r.begin.load() != reinterpret_cast<std::uintptr_t>(begin)) continue;
    r.end = 0;
    r.begin = 0;
  }
}

void on_fault(int signal, siginfo_t* info, void*) {
  const auto at = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (const Region& r : regions) {
    if (at >= r.begin.load() && at < r.end.load()) _exit(kGuardExit);
  }
  std::signal(signal, SIG_DFL);  // the instruction faults again
}

}  // namespace

Result<GuardedBuffer> GuardedBuffer::make(std::size_t bytes) {
  const std::size_t page = page_bytes();
  const bool huge = bytes >= runtime::AlignedBuffer::kHugePageBytes;
  const std::size_t align = huge ? runtime::AlignedBuffer::kHugePageBytes : page;
  const std::size_t zone = round_up(kZone, page);
  if (bytes > (std::size_t{1} << 46))
    return make_error(ErrorCode::kRunFailed, "{} bytes are too many for a buffer", bytes);
  const std::size_t body = round_up(bytes + zone, align);
  GuardedBuffer buffer;
  buffer.mapped_ = align + kNoAccess + zone + body + kNoAccess;
  void* p =
      mmap(nullptr, buffer.mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) {
    buffer.mapped_ = 0;
    return make_error(ErrorCode::kRunFailed, "no memory for a buffer of {} bytes", bytes);
  }
  buffer.base_ = static_cast<std::byte*>(p);
  const auto first = reinterpret_cast<std::uintptr_t>(buffer.base_) + kNoAccess + zone;
  buffer.data_ = reinterpret_cast<std::byte*>(round_up(first, align));
  buffer.bytes_ = bytes;
  buffer.end_ = buffer.data_ + body;
  if (mprotect(buffer.data_ - zone, zone + body, PROT_READ | PROT_WRITE) != 0)
    return make_error(ErrorCode::kRunFailed, "no memory for a buffer of {} bytes", bytes);
  if (huge) madvise(buffer.data_, body, MADV_HUGEPAGE);
  buffer.repair();
  add_region(buffer.base_, buffer.mapped_);
  return buffer;
}

GuardedBuffer::~GuardedBuffer() {
  if (base_ == nullptr) return;
  remove_region(base_);
  munmap(base_, mapped_);
}

GuardedBuffer::GuardedBuffer(GuardedBuffer&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)),
      mapped_(std::exchange(other.mapped_, 0)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      end_(std::exchange(other.end_, nullptr)) {}

GuardedBuffer& GuardedBuffer::operator=(GuardedBuffer&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(mapped_, other.mapped_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(end_, other.end_);
  return *this;
}

void GuardedBuffer::protect() {
  const std::size_t zone = round_up(kZone, page_bytes());
  mprotect(data_ - zone, zone + static_cast<std::size_t>(end_ - data_), PROT_READ);
}

void GuardedBuffer::repair() {
  const std::size_t zone = round_up(kZone, page_bytes());
  std::memset(data_ - zone, static_cast<int>(kPattern), zone);
  const std::size_t rest = static_cast<std::size_t>(end_ - data_) - bytes_;
  // Of a huge page only the first part is filled and compared: the rest of it would cost time and
  // memory, and the page after it faults.
  std::memset(data_ + bytes_, static_cast<int>(kPattern), std::min(rest, 2 * zone));
}

std::string GuardedBuffer::damage() const {
  if (base_ == nullptr) return "";
  const std::size_t zone = round_up(kZone, page_bytes());
  const auto scan = [](const std::byte* from, std::size_t n) {
    std::pair<std::size_t, std::size_t> hit{n, 0};
    for (std::size_t i = 0; i < n; ++i) {
      if (from[i] == kPattern) continue;
      hit.first = std::min(hit.first, i);
      hit.second = i + 1;
    }
    return hit;
  };
  const auto before = scan(data_ - zone, zone);
  if (before.first < zone) {
    return fmt::format("the {} bytes from {} before the start", before.second - before.first,
                       zone - before.first);
  }
  const std::size_t rest = std::min(static_cast<std::size_t>(end_ - data_) - bytes_, 2 * zone);
  const auto after = scan(data_ + bytes_, rest);
  if (after.first < rest) {
    return fmt::format("the {} bytes from {} beyond the end", after.second - after.first,
                       after.first);
  }
  return "";
}

void watch_guards() {
  // The main thread may overflow its stack; others handle faults on their own.
  static std::array<char, 1 << 16> stack;
  stack_t alternative{};
  alternative.ss_sp = stack.data();
  alternative.ss_size = stack.size();
  sigaltstack(&alternative, nullptr);
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace tessera::measure
