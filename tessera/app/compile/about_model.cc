#include "tessera/app/compile/about_model.h"

namespace tessera::app {

Error about_model(const Error& error, const std::string& model) {
  const bool named = error.message.starts_with(model + ":") ||
                     error.message.find("'" + model + "'") != std::string::npos;
  return named ? error : error.with_context(model);
}

}  // namespace tessera::app
