// Puts a folder in the place of another.
#pragma once

#include <filesystem>

#include "tessera/support/result.h"

namespace tessera::dataset {

// `staged` becomes `folder`; what was there is removed at the end. Both on one file system. On an
// error what was there is there again, or the message says where it is.
Result<void> replace_folder(const std::filesystem::path& staged,
                            const std::filesystem::path& folder);

}  // namespace tessera::dataset
