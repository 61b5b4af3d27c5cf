#include "tessera/trials/measure/file_access.h"

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tessera::measure {
namespace {

namespace fs = std::filesystem;

// The interface of the kernel; headers of older systems have none of it, or less.
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif
struct Ruleset {
  std::uint64_t handled_files = 0;
};
struct __attribute__((packed)) Beneath {
  std::uint64_t allowed = 0;
  std::int32_t folder = -1;
};
constexpr unsigned kAskVersion = 1;
constexpr int kBeneath = 1;
constexpr std::uint64_t kExecute = 1 << 0, kWrite = 1 << 1, kRead = 1 << 2, kList = 1 << 3;
constexpr std::uint64_t kFirstVersion = (1 << 13) - 1;  // of making and removing too
constexpr std::uint64_t kMove = 1 << 13;                // since version 2
constexpr std::uint64_t kTruncate = 1 << 14;            // since version 3
constexpr std::uint64_t kReading = kRead | kList;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

class Rules {
 public:
  Rules() {
    const long version =
        ::syscall(SYS_landlock_create_ruleset, nullptr, std::size_t{0}, kAskVersion);
    if (version < 1) return;
    Ruleset ruleset;
    ruleset.handled_files =
        kFirstVersion | (version >= 2 ? kMove : 0) | (version >= 3 ? kTruncate : 0);
    handled_ = ruleset.handled_files;
    fd_ = static_cast<int>(::syscall(SYS_landlock_create_ruleset, &ruleset, sizeof ruleset, 0U));
  }
  ~Rules() {
    if (fd_ >= 0) ::close(fd_);
  }
  Rules(const Rules&) = delete;
  Rules& operator=(const Rules&) = delete;

  // A path that is not there gets no rule, and so no access.
  void allow(const std::string& path, std::uint64_t access) {
    if (fd_ < 0 || path.empty()) return;
    Beneath rule;
    rule.folder = ::open(path.c_str(), O_PATH | O_CLOEXEC);
    if (rule.folder < 0) return;
    rule.allowed = access & handled_;
    // Of files the kernel takes no rights of folders.
    if (!fs::is_directory(path)) rule.allowed &= kExecute | kWrite | kRead | kTruncate;
    ::syscall(SYS_landlock_add_rule, fd_, kBeneath, &rule, 0U);
    ::close(rule.folder);
  }

  bool enforce() const { return fd_ >= 0 && ::syscall(SYS_landlock_restrict_self, fd_, 0U) == 0; }

 private:
  int fd_ = -1;
  std::uint64_t handled_ = 0;
};

// What the loader of libraries opens, besides those that are loaded already.
void allow_libraries(Rules* rules) {
  for (const char* folder : {"/usr", "/lib", "/lib64", "/etc/ld.so.cache"}) {
    rules->allow(folder, kReading);
  }
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const char* folder : {"../lib", "../lib64"}) {
    rules->allow((program / folder).string(), kReading);
  }
  std::stringstream list(variable("LD_LIBRARY_PATH"));
  for (std::string folder; std::getline(list, folder, ':');) rules->allow(folder, kReading);
}

// Where drivers keep what they compiled: a folder that is absent is made, or could not be allowed.
std::vector<std::string> driver_caches() {
  const std::string home = variable("HOME"), xdg = variable("XDG_CACHE_HOME"),
                    cuda = variable("CUDA_CACHE_PATH"), pocl = variable("POCL_CACHE_DIR");
  std::vector<std::string> out = {cuda, pocl};
  if (!home.empty() && cuda.empty()) out.push_back(home + "/.nv");
  if (!xdg.empty() && pocl.empty()) out.push_back(xdg + "/pocl");
  if (!home.empty() && xdg.empty() && pocl.empty()) out.push_back(home + "/.cache/pocl");
  std::error_code error;
  for (const std::string& folder : out) {
    if (!folder.empty()) fs::create_directories(folder, error);
  }
  return out;
}

}  // namespace

bool restrict_files(Work work) {
  Rules rules;
  if (work == Work::kCode) {
    for (const char* folder : {"/proc", "/sys"}) rules.allow(folder, kReading);
    allow_libraries(&rules);
    return rules.enforce();
  }
  rules.allow("/", kReading | kExecute);
  for (const std::string& folder : driver_caches()) rules.allow(folder, ~std::uint64_t{0});
  std::error_code error;
  rules.allow(fs::temp_directory_path(error).string(), ~std::uint64_t{0});
  rules.allow("/dev", ~std::uint64_t{0});
  // Drivers name their threads there; without, CUDA does not start.
  rules.allow("/proc/self", kReading | kWrite | kTruncate);
  return rules.enforce();
}

}  // namespace tessera::measure
