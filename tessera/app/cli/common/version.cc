#include "tessera/app/cli/common/version.h"

#include "commit.h"

namespace tessera::cli {

std::string version_text() {
  const std::string commit = TESSERA_COMMIT;
  return commit.empty() ? TESSERA_VERSION : TESSERA_VERSION " (" + commit + ")";
}

}  // namespace tessera::cli
