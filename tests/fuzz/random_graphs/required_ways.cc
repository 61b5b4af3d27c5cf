#include "required_ways.h"

#include <charconv>
#include <sstream>

#include <fmt/format.h>

namespace tessera::fuzz {
namespace {

const std::map<std::string, int Counts::*> kWays = {{"compiled", &Counts::compiled},
                                                    {"plans", &Counts::plans},
                                                    {"artifacts", &Counts::artifacts},
                                                    {"opencl", &Counts::opencl},
                                                    {"parts", &Counts::parts}};

}  // namespace

bool read_required(const std::string& text, RequiredWays* out) {
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos) return false;
    const std::string way = part.substr(0, equals);
    int number = 0;
    const char* end = part.data() + part.size();
    const auto [at, error] = std::from_chars(part.data() + equals + 1, end, number);
    if (!kWays.contains(way) || error != std::errc() || at != end || number <= 0) return false;
    (*out)[way] = number;
  }
  return !out->empty();
}

std::string missing_ways(const RequiredWays& required, const Counts& counts) {
  std::string out;
  for (const auto& [way, number] : required) {
    const int ran = counts.*kWays.at(way);
    if (ran >= number) continue;
    out += fmt::format("{}{}: {} of {} required", out.empty() ? "" : ", ", way, ran, number);
  }
  return out;
}

}  // namespace tessera::fuzz
