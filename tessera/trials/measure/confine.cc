#include "tessera/trials/measure/confine.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tessera/machine/target/cpus.h"
#include "tessera/machine/target/target.h"
#include "tessera/trials/measure/file_access.h"

namespace tessera::measure {
namespace {

// Sanitizers map terabytes and call the system behind the program's back.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool kSanitized = false;
#endif

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr std::uint32_t kArchitecture = 0;
#endif

// In the order of how often they come: the filter is a list, and threads that are timed call futex.
constexpr int kAllowed[] = {
    SYS_futex,
    SYS_sched_yield,
    SYS_clock_gettime,
    SYS_nanosleep,
    SYS_clock_nanosleep,
    // The channel to the server, and /proc for the time that threads waited.
    SYS_read,
    SYS_write,
    SYS_readv,
    SYS_writev,
    SYS_recvfrom,
    SYS_recvmsg,
    SYS_sendto,
    SYS_sendmsg,
    SYS_ppoll,
    SYS_close,
    SYS_lseek,
    SYS_fstat,
    SYS_newfstatat,
    SYS_statx,
    SYS_getdents64,
    SYS_pread64,
    SYS_readlinkat,
    SYS_faccessat,
    SYS_fcntl,
    SYS_dup,
    // Memory.
    SYS_mmap,
    SYS_munmap,
    SYS_mprotect,
    SYS_mremap,
    SYS_madvise,
    SYS_brk,
    SYS_mincore,
    SYS_mbind,
    SYS_set_mempolicy,
    SYS_get_mempolicy,
    SYS_membarrier,
    // Threads and signals of this process.
    SYS_exit,
    SYS_exit_group,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
    SYS_restart_syscall,
    SYS_set_robust_list,
    SYS_set_tid_address,
    SYS_rseq,
    SYS_prctl,
    SYS_getpid,
    SYS_gettid,
    SYS_getppid,
    SYS_sched_getaffinity,
    SYS_getcpu,
    SYS_getrusage,
    // What compilers and the C library ask.
    SYS_uname,
    SYS_sysinfo,
    SYS_getrandom,
    SYS_gettimeofday,
    SYS_clock_getres,
    SYS_times,
    SYS_getcwd,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
#if defined(__x86_64__)
    SYS_poll,
    SYS_stat,
    SYS_lstat,
    SYS_access,
    SYS_readlink,
    SYS_time,
    SYS_getrlimit,
    SYS_setrlimit,
    SYS_arch_prctl,
#endif
};

// What no kernel does by accident, or what would outlive the candidate.
constexpr int kFatal[] = {
    SYS_socket,
    SYS_socketpair,
    SYS_connect,
    SYS_bind,
    SYS_listen,
    SYS_accept,
    SYS_accept4,
    SYS_execve,
    SYS_execveat,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_kill,
    SYS_tkill,
    SYS_pidfd_send_signal,
    SYS_unlinkat,
    SYS_renameat2,
    SYS_mkdirat,
    SYS_symlinkat,
    SYS_linkat,
    SYS_fchmod,
    SYS_fchmodat,
    SYS_fchown,
    SYS_fchownat,
    SYS_truncate,
    SYS_mknodat,
    SYS_mount,
    SYS_umount2,
    SYS_chroot,
    SYS_pivot_root,
    SYS_unshare,
    SYS_setns,
    SYS_bpf,
    SYS_io_uring_setup,
    SYS_userfaultfd,
#if defined(__x86_64__)
    SYS_fork,
    SYS_vfork,
    SYS_creat,
    SYS_unlink,
    SYS_rename,
    SYS_mkdir,
    SYS_rmdir,
    SYS_symlink,
    SYS_link,
    SYS_chmod,
    SYS_chown,
    SYS_lchown,
    SYS_mknod,
    SYS_renameat,
#elif defined(__aarch64__)
    SYS_renameat,
#endif
};

// What neither a driver nor an assembler needs.
constexpr int kNotForDevices[] = {
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_tkill,
    SYS_pidfd_send_signal,
    SYS_mount,
    SYS_umount2,
    SYS_chroot,
    SYS_unshare,
    SYS_pivot_root,
    SYS_setns,
    SYS_bpf,
    SYS_io_uring_setup,
};

constexpr std::uint32_t kAllow = SECCOMP_RET_ALLOW;
constexpr std::uint32_t kEnd = SECCOMP_RET_KILL_PROCESS;
constexpr std::uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;

// The program of the filter. Each call has its own return, so that no jump is longer than a byte.
class Filter {
 public:
  explicit Filter(Work work) {
    load(offsetof(seccomp_data, arch));
    add(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0);
    finish(kEnd);
    load(offsetof(seccomp_data, nr));
#if defined(__x86_64__)
    // The calls of programs with pointers of 32 bits have other numbers, which no list here has.
    constexpr std::uint32_t kX32 = 0x40000000;
    add(BPF_JMP | BPF_JGE | BPF_K, kX32, 0, 1);
    finish(work == Work::kCode ? kEnd : kRefuse);
#endif
    work == Work::kCode ? allow_code() : allow_device();
  }

  sock_fprog program() {
    return {.len = static_cast<unsigned short>(code_.size()), .filter = code_.data()};
  }

 private:
  void add(int code, std::uint32_t k, int on_true = 0, int on_false = 0) {
    code_.push_back({static_cast<std::uint16_t>(code), static_cast<std::uint8_t>(on_true),
                     static_cast<std::uint8_t>(on_false), k});
  }
  void load(std::size_t offset) {
    add(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset));
  }
  void finish(std::uint32_t action) { add(BPF_RET | BPF_K, action); }
  void answer(int number, std::uint32_t action) {
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(number), 0, 1);
    finish(action);
  }
  // `otherwise` unless the masked low half of the argument is `wanted`.
  void unless(int number, int argument, std::uint32_t mask, std::uint32_t wanted,
              std::uint32_t otherwise = kEnd) {
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(number), 0, 5);
    load(offsetof(seccomp_data, args) + 8 * static_cast<std::size_t>(argument));
    add(BPF_ALU | BPF_AND | BPF_K, mask);
    add(BPF_JMP | BPF_JEQ | BPF_K, wanted, 0, 1);
    finish(kAllow);
    finish(otherwise);
  }
  // Of this process (0, or its number), or `otherwise`.
  void own(int number, std::uint32_t otherwise) {
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(number), 0, 5);
    load(offsetof(seccomp_data, args));
    add(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0);
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(getpid()), 0, 1);
    finish(kAllow);
    finish(otherwise);
  }

  void allow_code() {
    for (const int number : kAllowed) answer(number, kAllow);
    own(SYS_sched_setaffinity, kEnd);
    own(SYS_prlimit64, kEnd);
    // Without writing, and into threads only; clone3 hides its flags, and the C library then asks
    // clone.
    unless(SYS_openat, 2, O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0);
#if defined(__x86_64__)
    unless(SYS_open, 1, O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0);
#endif
    unless(SYS_clone, 0, CLONE_THREAD, CLONE_THREAD);
    unless(SYS_tgkill, 0, ~0U, static_cast<std::uint32_t>(getpid()));
    answer(SYS_clone3, SECCOMP_RET_ERRNO | ENOSYS);
    for (const int number : kFatal) answer(number, kEnd);
    finish(kRefuse);
  }

  // Programs that a driver starts inherit it, and end themselves by other numbers.
  void allow_device() {
    for (const int number : kNotForDevices) answer(number, kRefuse);
    own(SYS_sched_setaffinity, kRefuse);
    own(SYS_prlimit64, kRefuse);
    unless(SYS_kill, 0, ~0U, static_cast<std::uint32_t>(getpid()), kRefuse);  // 0: of its group
    unless(SYS_socket, 0, ~0U, AF_UNIX, kRefuse);
    finish(kAllow);
  }

  std::vector<sock_filter> code_;
};

// 0, or the error.
int install_filter(Work work) {
  if (kSanitized || kArchitecture == 0) return ENOTSUP;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno;
  restrict_files(work);
  Filter filter(work);
  const sock_fprog program = filter.program();
  // Without this flag, older kernels slow the stores of a filtered process, and so what is timed.
  constexpr unsigned kFlags = SECCOMP_FILTER_FLAG_SPEC_ALLOW;
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, kFlags, &program) == 0 ? 0 : errno;
}

std::string reason(int error) {
  if (error == 0) return "";
  if (kSanitized) return "built with a sanitizer";
  return std::strerror(error);
}

void limit(decltype(RLIMIT_CORE) what, rlim_t most) {
  rlimit now{};
  if (getrlimit(what, &now) != 0) return;
  const rlim_t value = std::min(most, now.rlim_max);
  const rlimit both{value, value};
  setrlimit(what, &both);
}

}  // namespace

Work work_of(const target::Target& target) {
  return target.row().launches ? Work::kDevice : Work::kCode;
}

std::string confine_process(Work work) {
  limit(RLIMIT_CORE, 0);
  // A driver maps the memory of its device, and keeps what it compiled.
  if (work == Work::kDevice) return reason(install_filter(work));
  limit(RLIMIT_FSIZE, 0);
  limit(RLIMIT_NOFILE, 256);
  if (const auto memory = static_cast<rlim_t>(target::usable_memory()); !kSanitized && memory > 0) {
    limit(RLIMIT_DATA, std::max<rlim_t>(memory / 4 * 3, rlim_t{1} << 30));
  }
  return reason(install_filter(work));
}

void limit_cpu_time(double seconds) {
  rusage used{};
  rlimit now{};
  if (getrusage(RUSAGE_SELF, &used) != 0 || getrlimit(RLIMIT_CPU, &now) != 0) return;
  const double until =
      static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + std::ceil(seconds) + 2;
  now.rlim_cur = std::min(static_cast<rlim_t>(until), now.rlim_max);
  setrlimit(RLIMIT_CPU, &now);
}

const std::string& confinement_note() {
  static const std::string note = [] {
    const pid_t child = fork();
    if (child == 0) _exit(install_filter(Work::kCode));
    int status = 0;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    const int error = child < 0 ? EAGAIN : WIFEXITED(status) ? WEXITSTATUS(status) : ENOTSUP;
    if (error == 0) return std::string();
    return fmt::format("candidates run under limits, but without a filter of system calls: {}",
                       reason(error));
  }();
  return note;
}

}  // namespace tessera::measure
