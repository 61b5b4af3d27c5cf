// The text form of the IR: parse(to_text(x)) equals x, always.
#pragma once

#include <string>
#include <string_view>

#include "tessera/lang/ir/launch.h"
#include "tessera/lang/ir/stmt.h"
#include "tessera/support/result.h"

namespace tessera::ir {

std::string to_text(const Expr& e);
std::string to_text(const Stmt& s);
std::string to_text(const Func& f);
std::string to_text(const DeviceProgram& p);

// Errors name line and column.
Result<Func> parse_func(std::string_view text);
Result<DeviceProgram> parse_device_program(std::string_view text);

}  // namespace tessera::ir
