// What a recorded run says about itself.
#pragma once

#include <string>

namespace tessera::cli {

// The command as it was typed, without the option `flag` and its value: where a record is kept says
// nothing about it.
std::string command_line(const std::string& flag);

// "2026-01-31T12:00:00Z", now.
std::string utc_now();

}  // namespace tessera::cli
