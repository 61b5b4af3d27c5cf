// How models are stored: a few lines of text that say what they are, then their bytes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/support/result.h"

namespace tessera::model {

struct ModelFile {
  std::string kind;       // name in the model table
  std::string objective;  // "rank", "regression"
  std::string schema;     // digest of the features; empty: any
  std::size_t columns = 0;
  std::vector<std::string> parts;            // bytes of each member
  std::map<std::string, std::string> notes;  // one line each, names without spaces; as of networks
};

// A file without notes is of format 1, which older programs read.
Result<void> write_model_file(const std::string& path, const ModelFile& file);
// Replaces the notes of a file that was written. Errors as those of reading and writing.
Result<void> set_notes(const std::string& path, std::map<std::string, std::string> notes);
// kIo when it cannot be read or is damaged, kInvalidArgument when it is not a model file or one of
// a newer format.
Result<ModelFile> read_model_file(const std::string& path);
// The same, refusing files of another kind or made for features of another schema.
Result<ModelFile> read_model_file(const std::string& path, const std::string& kind,
                                  const std::string& schema);

}  // namespace tessera::model
