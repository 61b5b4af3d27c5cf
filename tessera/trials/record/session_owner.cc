#include "tessera/trials/record/session_owner.h"

#include <array>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <unistd.h>

namespace tessera::record {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0' ? name.data() : "-";
}

// In ticks since the machine started, which tells processes of the same number apart; empty: there
// is no such process.
std::string start_of(const std::string& process) {
  constexpr int kFieldsAfterName = 20;  // of /proc/PID/stat, to the 22nd
  std::ifstream file("/proc/" + process + "/stat");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return "";
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  for (int i = 0; i < kFieldsAfterName; ++i) {
    fields >> field;
    if (i == 0 && field == "Z") return "";  // dead, and not yet asked how it ended
  }
  return field;
}

}  // namespace

std::string running_here() {
  const std::string process = std::to_string(::getpid());
  return fmt::format("running {} {} {}", process, start_of(process), host_name());
}

std::string state_now(const std::string& kept, std::int64_t silent_s) {
  std::istringstream words(kept);
  std::string state, process, start, host;
  words >> state >> process >> start >> host;
  if (state != "running") return kept;
  const bool here = host == host_name();
  const bool alive =
      !host.empty() && (here ? start_of(process) == start : silent_s < kSessionGoneS);
  return alive ? "running" : "killed";
}

}  // namespace tessera::record
