// What a decoder remembers of a text, in a file: the text need not be read again.
#pragma once

#include <string>
#include <vector>

#include "tessera/app/generate/decoder.h"

namespace tessera::app {

// `model`: digest of the model (file_digest), which the file is of. `tokens`: what was read.
Result<void> save_memory(const std::string& path, const Decoder& decoder,
                         const std::vector<std::int32_t>& tokens, const std::string& model);
// The tokens that `decoder` remembers from now on. Errors name the file; kInvalidArgument: it is of
// another model, or no such file at all, or there is no room for its tokens.
Result<std::vector<std::int32_t>> load_memory(const std::string& path, Decoder& decoder,
                                              const std::string& model);

}  // namespace tessera::app
