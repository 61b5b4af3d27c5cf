#include "tessera/app/cli/bench/record.h"

#include <cctype>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>

#include <fmt/chrono.h>
#include <unistd.h>

#include "tessera/app/cli/common/command_line.h"
#include "tessera/app/cli/common/version.h"
#include "tessera/support/files.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;

// "NVIDIA_H200" as the name of a file: nvidia-h200.
std::string slug(std::string text) {
  for (char& c : text) {
    c = std::isalnum(static_cast<unsigned char>(c)) != 0
            ? static_cast<char>(std::tolower(static_cast<unsigned char>(c)))
            : '-';
  }
  return text;
}

// As the kernel calls the processor; empty where it does not.
std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "";
}

Json machine_json(const target::Target& target) {
  const target::Target& host = target::host();
  const std::string processor = processor_name();
  const std::string cores = processor.empty()
                                ? fmt::format("{} cores ({})", host.cores, host.cpu)
                                : fmt::format("{}, {} cores ({})", processor, host.cores, host.cpu);
  if (target.is_gpu()) {
    return {{"name", slug(target.name)},
            {"description", fmt::format("{}, beside {}", target.name, cores)},
            {"target", target::to_text(target)}};
  }
  return {{"name", slug(fmt::format("{}-{}", host.cpu, host.cores))},
          {"description", cores},
          {"target", target::to_text(target)}};
}

}  // namespace

Result<RunRecord> RunRecord::begin(const std::string& folder, const target::Target& target) {
  const Json machine = machine_json(target);
  const std::tm now = fmt::gmtime(std::time(nullptr));
  const fs::path into = fs::path(folder) / machine.at("name").text();
  std::error_code error;
  fs::create_directories(into, error);
  if (error) return make_error(ErrorCode::kIo, "{}: {}", into.string(), error.message());
  RunRecord record;
  record.path_ = (into / fmt::format("{:%Y%m%d-%H%M%S}-{}.json", now, ::getpid())).string();
  record.run_ = {{"format", 1},
                 {"machine", machine},
                 {"version", version_text()},
                 {"date", utc_now()},
                 {"command", command_line("--record")},
                 {"results", Json::array()}};
  return record;
}

Result<void> RunRecord::add(Json result) {
  run_["results"].push_back(std::move(result));
  const std::string text = run_.dump(1);
  return write_file(path_, {text, "\n"});
}

}  // namespace tessera::cli
