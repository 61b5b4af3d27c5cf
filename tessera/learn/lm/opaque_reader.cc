#include "tessera/learn/lm/opaque_reader.h"

#include "tessera/learn/lm/columns.h"

namespace tessera::lm {

void hide_numbers(Subject* subject) {
  for (Word& word : subject->prompt) make_opaque(&word);
  for (Question& question : subject->questions) {
    make_opaque(&question.word);
    for (Value& value : question.values) make_opaque(&value);
  }
}

Result<void> OpaqueReader::begin(const Subject& subject, int rows, float quality) {
  subject_ = subject;
  hide_numbers(&subject_);
  return reader_->begin(subject_, rows, quality);
}

}  // namespace tessera::lm
