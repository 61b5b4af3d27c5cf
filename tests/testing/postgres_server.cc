#include "tests/testing/postgres_server.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kNobody = 65534;  // postgres refuses to run as root

// The folder with initdb and postgres, of the newest version that is installed.
std::string programs_folder() {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/usr/lib/postgresql", error)) {
    const std::string folder = entry.path() / "bin";
    if (fs::exists(folder + "/initdb", error) && fs::exists(folder + "/postgres", error)) {
      found.push_back(folder);
    }
  }
  std::ranges::sort(found);
  return found.empty() ? "" : found.back();
}

bool become_nobody() {
  return ::geteuid() != 0 ||
         (::setgroups(0, nullptr) == 0 && ::setgid(kNobody) == 0 && ::setuid(kNobody) == 0);
}

// Not where a container has one user only.
bool may_become_nobody() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(become_nobody() ? 0 : 1);
  int status = 0;
  return ::waitpid(child, &status, 0) == child && status == 0;
}

// As nobody where this is root; its output goes to `output`.
pid_t start_program(const std::vector<std::string>& words, const std::string& output, int dies_by) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t child = ::fork();
  if (child != 0) return child;
  const int file = ::open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  ::dup2(file, STDOUT_FILENO);
  ::dup2(file, STDERR_FILENO);
  if (!become_nobody()) ::_exit(126);
  ::prctl(PR_SET_PDEATHSIG, dies_by);  // when the thread that started it ends
  ::setenv("LC_ALL", "C", 1);
  if (::chdir("/") != 0) ::_exit(126);
  ::execv(arguments[0], arguments.data());
  ::_exit(127);
}

bool run_program(const std::vector<std::string>& words, const std::string& output) {
  int status = 0;
  const pid_t child = start_program(words, output, SIGKILL);
  return ::waitpid(child, &status, 0) == child && status == 0;
}

constexpr const char* kWhoMayCome = "local all locked scram-sha-256\nlocal all all trust\n";

}  // namespace

PostgresServer* PostgresServer::get() {
  if (!why_absent().empty()) return nullptr;
  static const std::unique_ptr<PostgresServer> server = start_from(programs_folder());
  if (server == nullptr) ADD_FAILURE() << "the PostgreSQL server did not start";
  return server.get();
}

std::string PostgresServer::why_absent() {
  static const std::string why = [] {
    if (programs_folder().empty()) return "no PostgreSQL server is installed (package postgresql)";
    return may_become_nobody() ? "" : "root may not become another user here";
  }();
  return why;
}

std::unique_ptr<PostgresServer> PostgresServer::start_from(const std::string& programs) {
  std::unique_ptr<PostgresServer> made(new PostgresServer);
  if (made->make(programs)) return made;
  ADD_FAILURE() << "the PostgreSQL server of " << programs << " does not start:\n" << made->log();
  return nullptr;
}

std::string PostgresServer::log() const {
  std::ifstream file(folder_ + "/log");
  return {std::istreambuf_iterator<char>(file), {}};
}

bool PostgresServer::make(const std::string& programs) {
  programs_ = programs;
  // Not below TMPDIR: names of sockets are short.
  char name[] = "/tmp/tessera-pg-XXXXXX";
  if (::mkdtemp(name) == nullptr) return false;
  folder_ = name;
  fs::permissions(folder_, fs::perms::owner_all | fs::perms::group_all | fs::perms::others_all);
  if (!run_program({programs_ + "/initdb", "-D", folder_ + "/data", "-U", "tessera", "-A", "trust",
                    "-E", "UTF8", "--locale=C", "--no-sync"},
                   folder_ + "/log")) {
    return false;
  }
  std::ofstream(folder_ + "/data/pg_hba.conf") << kWhoMayCome;
  return start();
}

PostgresServer::~PostgresServer() {
  crash();
  std::error_code error;
  if (!folder_.empty()) fs::remove_all(folder_, error);
}

bool PostgresServer::answers() const { return !sql("postgres", "SELECT 1").empty(); }

bool PostgresServer::start() {
  process_ = start_program({programs_ + "/postgres", "-D", folder_ + "/data", "-k", folder_, "-h",
                            "", "-c", "max_connections=60", "-c", "shared_buffers=16MB"},
                           folder_ + "/log", SIGQUIT);
  for (int i = 0; i < 1200; ++i) {
    if (answers()) return true;
    if (::waitpid(process_, nullptr, WNOHANG) == process_) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(25));
  }
  process_ = 0;
  return false;
}

void PostgresServer::end(int signal) {
  if (process_ <= 0) return;
  ::kill(process_, signal);
  ::waitpid(process_, nullptr, 0);
  process_ = 0;
}

void PostgresServer::crash() { end(SIGQUIT); }

void PostgresServer::stop() { end(SIGINT); }

std::string PostgresServer::url(const std::string& database, const std::string& user) const {
  return "postgresql:///" + database + "?host=" + folder_ + "&user=" + user;
}

std::string PostgresServer::make_database(const std::string& name) {
  const std::string database = name + std::to_string(++databases_);
  sql("postgres", "CREATE DATABASE " + database + " TEMPLATE template0");
  return url(database);
}

std::string PostgresServer::sql(const std::string& database, const std::string& statement) const {
  const std::string output = folder_ + "/answer";
  std::error_code error;
  fs::remove(output, error);
  if (!run_program({programs_ + "/psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h",
                    folder_, "-U", "tessera", "-d", database, "-c", statement},
                   output)) {
    return "";
  }
  std::ifstream file(output);
  std::string line, last = "done";
  while (std::getline(file, line)) last = line;
  return last;
}

}  // namespace tessera::testing
