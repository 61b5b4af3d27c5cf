#include "tessera/backend/artifact/cmake_config.h"

#include <fmt/format.h>

namespace tessera::artifact {

std::string cmake_config_name(const Metadata& m) { return m.name + "Config.cmake"; }

std::string cmake_config_text(const Metadata& m) {
  const bool shared = m.library.ends_with(".so");
  const bool archive = m.library.ends_with(".a");
  std::string text = fmt::format(
      "# find_package({0} CONFIG PATHS FOLDER) gives {0}::{0}, to be linked with.\n"
      "if(TARGET {0}::{0})\n  return()\nendif()\n",
      m.name);
  if (!shared) text += "find_package(Threads REQUIRED)\n";
  text += fmt::format("add_library({0}::{0} {1} IMPORTED)\n", m.name,
                      shared    ? "SHARED"
                      : archive ? "STATIC"
                                : "INTERFACE");
  text += fmt::format(
      "set_target_properties({0}::{0} PROPERTIES\n"
      "  INTERFACE_INCLUDE_DIRECTORIES \"${{CMAKE_CURRENT_LIST_DIR}}\"\n",
      m.name);
  const std::string file = "${CMAKE_CURRENT_LIST_DIR}/" + m.library;
  if (shared || archive) text += fmt::format("  IMPORTED_LOCATION \"{}\"\n", file);
  if (shared) text += fmt::format("  IMPORTED_SONAME {}\n", m.library);
  if (!shared) {
    text += fmt::format("  INTERFACE_LINK_LIBRARIES \"{}Threads::Threads;m;dl\"\n",
                        archive ? "" : file + ";");
  }
  text.back() = ')';
  return text + "\n";
}

}  // namespace tessera::artifact
