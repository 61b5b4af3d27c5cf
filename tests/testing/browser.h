// Pages and images in headless Chromium, where it is installed.
#pragma once

#include <optional>
#include <string>

namespace tessera::testing {

// The document that the page became when its scripts had run; nothing without Chromium. A browser
// that fails gives the empty text. `flags` go on its command line.
std::optional<std::string> browse(const std::string& html, const std::string& flags = "");

// A script that looks for texts of charts outside of their images, and what it found in the
// document: "charts 3, cut off 0", and the texts.
std::string cut_off_script();
std::string cut_off_texts(const std::string& document);

}  // namespace tessera::testing
