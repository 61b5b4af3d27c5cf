// The functions of tessera.h for language models.
#pragma once

#include "tessera/app/capi/include/tessera/tessera.h"

namespace tessera::capi {

tsr_status open_text(const char* model, const tsr_text_options* given, tsr_text** result);
tsr_status another_text(const tsr_text* text, tsr_text** result);
void free_text(tsr_text* text);
tsr_status text_info(const tsr_text* text, tsr_text_info* info);
tsr_status encode(const tsr_text* text, const char* bytes, size_t count, int32_t* tokens,
                  size_t room, size_t* result);
tsr_status token_bytes(const tsr_text* text, int32_t token, const char** bytes, size_t* count,
                       int32_t* ends);
tsr_status step(tsr_text* text, const int32_t* tokens, size_t count, const float** logits);
tsr_status rewind_text(tsr_text* text, int64_t position);
tsr_status warm_up_text(tsr_text* text, int64_t tokens);
tsr_status pick(tsr_text* text, const tsr_sampling* given, int32_t* token);
tsr_status encode_prompt(const tsr_text* text, const char* bytes, size_t count, int32_t* tokens,
                         size_t room, size_t* result);
tsr_status encode_chat(const tsr_text* text, const tsr_message* messages, size_t num_messages,
                       int32_t* tokens, size_t room, size_t* result);

}  // namespace tessera::capi
