// What a recorded run says about itself.
#pragma once

#include <string>
#include <vector>

namespace tessera::cli {

// The command as it was typed, without the option `flag` and its value: where a record is kept says
// nothing about it. The words of `others` are left out too: what the same command did besides.
std::string command_line(const std::string& flag, const std::vector<std::string>& others = {});

// "2026-01-31T12:00:00Z", now.
std::string utc_now();

}  // namespace tessera::cli
