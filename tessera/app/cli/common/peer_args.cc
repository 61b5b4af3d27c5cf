#include "tessera/app/cli/common/peer_args.h"

#include <set>

#include <fmt/ranges.h>

#include "tessera/app/bench/peer.h"
#include "tessera/app/bench/peer_driver.h"
#include "tessera/support/nearest_name.h"

namespace tessera::cli {

bool is_all(const std::vector<std::string>& names) {
  return names.size() == 1 && names[0] == "all";
}

bool is_none(const std::vector<std::string>& names) {
  return names.size() == 1 && names[0] == "none";
}

Result<void> check_peers(const std::vector<std::string>& names) {
  if (is_all(names) || is_none(names)) return {};
  std::set<std::string> known(app::peer_names().begin(), app::peer_names().end());
  known.insert(app::driver_peer_names().begin(), app::driver_peer_names().end());
  for (const std::string& name : names) {
    if (known.count(name) > 0) continue;
    if (name == "all" || name == "none") {
      return make_error(ErrorCode::kInvalidArgument, "--peers {}: '{}' stands alone",
                        fmt::join(names, ","), name);
    }
    return make_error(ErrorCode::kInvalidArgument, "no peer '{}'{} Peers: {}", name,
                      suggest_name(name, {known.begin(), known.end()}, "."), fmt::join(known, " "));
  }
  return {};
}

}  // namespace tessera::cli
