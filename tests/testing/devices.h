// Whether tests on devices may be skipped.
#pragma once

#include <filesystem>
#include <string_view>

#include <gtest/gtest.h>

#include "tessera/support/result.h"

namespace tessera::testing {

// PoCL runs OpenCL on the cores of any machine.
inline bool opencl_is_installed() {
  return std::filesystem::exists("/etc/OpenCL/vendors/pocl.icd");
}

// Whether a device could be opened or asked for, of the kind "cuda" or "opencl". Where PoCL is
// installed OpenCL must not fail.
template <class T>
bool has_device(std::string_view kind, const Result<T>& found) {
  if (found.ok()) return true;
  EXPECT_FALSE(kind == "opencl" && opencl_is_installed()) << found.error().message;
  return false;
}

}  // namespace tessera::testing
