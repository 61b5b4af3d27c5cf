// onnx_conformance DIR [--filter SUBSTRING] [--eager] [--json]: runs the ONNX backend cases below
// DIR by the interpreter. --eager imports with the values of all inputs. One line per case,
// `pass|fail|unsupported CASE REASON`, and a summary; exit status 1 when a case failed.
#include <algorithm>
#include <exception>
#include <filesystem>
#include <map>
#include <string>

#include <fmt/format.h>

#include "tessera/frontend/onnx/backend_case.h"

namespace {

using tessera::onnx::CaseResult;
using tessera::onnx::Verdict;

struct Flags {
  std::string folder, filter;
  bool eager = false, json = false;
};

bool read_flags(int argc, char** argv, Flags* flags) {
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--filter" && i + 1 < argc) {
      flags->filter = argv[++i];
    } else if (flag == "--eager") {
      flags->eager = true;
    } else if (flag == "--json") {
      flags->json = true;
    } else if (flags->folder.empty() && flag[0] != '-') {
      flags->folder = flag;
    } else {
      return false;
    }
  }
  return !flags->folder.empty();
}

std::string quote(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

void print_case(const Flags& flags, const std::string& name, const CaseResult& result) {
  if (flags.json) {
    fmt::print("{{\"case\": {}, \"verdict\": \"{}\", \"reason\": {}}}\n", quote(name),
               to_text(result.verdict), quote(result.reason));
  } else {
    std::string reason = result.reason;
    std::replace(reason.begin(), reason.end(), '\n', ';');
    fmt::print("{} {} {}\n", to_text(result.verdict), name, reason);
  }
  std::fflush(stdout);  // a case that crashes is the one after the last line
}

CaseResult run_case(const std::string& folder, const tessera::onnx::CaseOptions& options) {
  try {
    return tessera::onnx::run_backend_case(folder, options);
  } catch (const std::exception& bug) {
    return {Verdict::kFail, fmt::format("exception: {}", bug.what()), false};
  }
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  if (!read_flags(argc, argv, &flags)) {
    fmt::print(stderr, "usage: onnx_conformance DIR [--filter SUBSTRING] [--eager] [--json]\n");
    return 2;
  }
  const auto cases = tessera::onnx::find_backend_cases(flags.folder);
  if (!cases.ok()) {
    fmt::print(stderr, "onnx_conformance: {}\n", cases.error().message);
    return 2;
  }
  tessera::onnx::CaseOptions options;
  options.eager = flags.eager;
  std::map<Verdict, int> counts;
  for (const std::string& folder : *cases) {
    const std::string name = std::filesystem::path(folder).filename().string();
    if (name.find(flags.filter) == std::string::npos) continue;
    const CaseResult result = run_case(folder, options);
    ++counts[result.verdict];
    print_case(flags, name, result);
  }
  fmt::print(stderr, "{} pass, {} fail, {} unsupported\n", counts[Verdict::kPass],
             counts[Verdict::kFail], counts[Verdict::kUnsupported]);
  return counts[Verdict::kFail] == 0 ? 0 : 1;
}
