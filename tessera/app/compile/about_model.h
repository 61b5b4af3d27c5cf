// Errors that say which model they are about.
#pragma once

#include <string>

#include "tessera/support/result.h"

namespace tessera::app {

// The error with the model's name before it, unless it has it already.
Error about_model(const Error& error, const std::string& model);

}  // namespace tessera::app
