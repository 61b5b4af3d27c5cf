// Questions and answers in JSON, one on each line. For sources that may use the JSON library.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "tessera/support/line_program.h"

namespace tessera {

// What `read` makes of the answer to `question`. An answer that is not JSON, or that `read` throws
// at, ends the conversation with an error that shows it.
template <class Read>
auto converse(LineProgram& program, const nlohmann::json& question, const Read& read)
    -> Result<decltype(read(question))> {
  // Bytes that are no UTF-8, in names of users, are replaced.
  using Json = nlohmann::json;
  TESSERA_TRY(const std::string reply,
              program.ask(question.dump(-1, ' ', false, Json::error_handler_t::replace)));
  try {
    return read(nlohmann::json::parse(reply));
  } catch (const std::exception& e) {
    constexpr std::size_t kShown = 80;
    const std::string shown = reply.size() > kShown ? reply.substr(0, kShown) + "..." : reply;
    return program.fail(fmt::format("answered '{}': {}", shown, e.what()));
  }
}

}  // namespace tessera
