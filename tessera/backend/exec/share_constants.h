// The constants of all models of this process: equal ones are held once, as long as a model has
// them.
#pragma once

#include <string>

#include "tessera/support/host_tensor.h"

namespace tessera::exec {

// Smaller constants are every model's own: what they lie in may be much larger (gather_constants).
inline constexpr std::size_t kSharedConstant = std::size_t{16} << 10;
inline bool is_shared(const HostTensor& constant) { return constant.bytes() >= kSharedConstant; }

// Of its bytes, by which equal ones are found (Checksum).
std::string constant_digest(const HostTensor& constant);

// Makes `constant`, which has that digest, read the same bytes of another model; false where there
// are none. Bytes are compared, too: whoever wants two equal digests can make them.
bool take_shared_constant(const std::string& digest, HostTensor* constant);
// Lets others take it. Nobody writes to it any more.
void offer_constant(const std::string& digest, const HostTensor& constant);

}  // namespace tessera::exec
