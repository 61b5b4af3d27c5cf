// An operation of a peer in a program that is started afresh. Libraries for GPUs need this: their
// driver does not work in a process that was forked after it had been used.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/app/bench/peer_process.h"

namespace tessera::app {

// As start_peer_op, by this program: `tessera peer-op`.
Result<std::unique_ptr<PeerProcess>> start_peer_program(const std::string& name,
                                                        const std::string& spec, int threads,
                                                        const std::vector<HostTensor>& inputs,
                                                        const Shape& output);

// The other end: takes the job from the socket and serves until it is closed. kInvalidArgument: the
// socket is none, or sends something else.
Result<void> serve_peer_program(int socket);

}  // namespace tessera::app
