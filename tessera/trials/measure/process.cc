#include "tessera/trials/measure/process.h"

#include <csignal>
#include <cstdlib>

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace tessera::measure {
namespace {

void close_all_but(int keep) {
  std::vector<int> doomed;
  if (DIR* folder = opendir("/proc/self/fd")) {
    while (const dirent* entry = readdir(folder)) {
      const int fd = std::atoi(entry->d_name);
      if (fd > STDERR_FILENO && fd != keep && fd != dirfd(folder)) doomed.push_back(fd);
    }
    closedir(folder);
  }
  for (const int fd : doomed) close(fd);
}

void silence_streams() {
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return;
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, fd);
  if (null > STDERR_FILENO) close(null);
}

void reset_signals() {
  for (int s = 1; s < NSIG; ++s) {
    if (s != SIGKILL && s != SIGSTOP) std::signal(s, SIG_DFL);
  }
  // What asks a whole group of processes to end is for the first of them, which ends the others.
  for (const int s : {SIGINT, SIGTERM, SIGHUP}) std::signal(s, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace

void become_worker(int keep, const char* name) {
  reset_signals();
  close_all_but(keep);
  silence_streams();
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  prctl(PR_SET_NAME, name, 0, 0, 0);
}

void die_with(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (getppid() != parent) _exit(0);  // it died before the request was in place
}

void use_processors(const std::vector<int>& processors) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (const int p : processors) {
    if (p < CPU_SETSIZE) CPU_SET(static_cast<std::size_t>(p), &mask);
  }
  sched_setaffinity(0, sizeof(mask), &mask);
}

const char* signal_name(int signal) {
  switch (signal) {
    case SIGSEGV:
      return "SIGSEGV";
    case SIGBUS:
      return "SIGBUS";
    case SIGILL:
      return "SIGILL";
    case SIGFPE:
      return "SIGFPE";
    case SIGABRT:
      return "SIGABRT";
    case SIGTRAP:
      return "SIGTRAP";
    case SIGKILL:
      return "SIGKILL";
    case SIGTERM:
      return "SIGTERM";
    case SIGHUP:
      return "SIGHUP";
    case SIGSYS:
      return "SIGSYS";
    case SIGXCPU:
      return "SIGXCPU";
    case SIGXFSZ:
      return "SIGXFSZ";
    default:
      return "a signal";
  }
}

}  // namespace tessera::measure
