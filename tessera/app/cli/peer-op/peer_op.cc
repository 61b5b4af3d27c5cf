// tessera peer-op: one operation of a peer library in a process of its own, for `bench`.
#include <unistd.h>

#include "tessera/app/bench/peer_program.h"
#include "tessera/app/cli/common/command.h"

namespace tessera::cli {

void add_peer_op(Flags& app, std::function<int()>* run) {
  Flags* sub = app.add_subcommand("peer-op", "Serve an operation of a peer to `bench`");
  sub->hide();  // not for people
  sub->callback([run] {
    *run = [] {
      const Result<void> served = app::serve_peer_program(STDIN_FILENO);
      return served.ok() ? kOk : report(served.error());
    };
  });
}

}  // namespace tessera::cli
