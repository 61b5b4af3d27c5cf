/* The functions that an artifact exports. ObjectLinker gives them the model's name: tsr_entry_open
 * is NAME_open. */
#define TSR_EXPORT __attribute__((visibility("default")))
#define TSR_TABLE __attribute__((visibility("hidden")))

/* Written by program_tables. */
extern const TSR_PROGRAM tsr_the_program TSR_TABLE;
extern const tsr_model_info tsr_the_info TSR_TABLE;

TSR_EXPORT const tsr_model_info* tsr_entry_info(void) { return &tsr_the_info; }

TSR_EXPORT tsr_status tsr_entry_open(const tsr_open_options* options, tsr_context** context) {
  return tsr_open(&tsr_the_program, options, context);
}

#ifdef TSR_VARIANTS
TSR_EXPORT tsr_status tsr_entry_open_variant(int32_t number, const tsr_open_options* options,
                                             tsr_context** context) {
  return tsr_open_variant(&tsr_the_program, number, options, context);
}

TSR_EXPORT int32_t tsr_entry_variant(const tsr_context* context) {
  const tsr_program* p = &tsr_the_program;
  int32_t number = 1;
  for (; p && p != context->program; p = p->next) ++number;
  return p ? number : 0;
}
#endif

TSR_EXPORT int64_t tsr_entry_memory_bytes(const tsr_context* context) {
  return tsr_memory_bytes(context);
}

TSR_EXPORT tsr_status tsr_entry_run(tsr_context* context, const void* const* inputs,
                                    void* const* outputs, void* memory) {
  return tsr_run(context, inputs, outputs, memory);
}

TSR_EXPORT tsr_status tsr_entry_run_tensors(tsr_context* context, const tsr_dl_tensor* inputs,
                                            const tsr_dl_tensor* outputs, void* stream) {
  return tsr_run_tensors(context, inputs, outputs, stream);
}

TSR_EXPORT void tsr_entry_close(tsr_context* context) { tsr_close(context); }

TSR_EXPORT const tsr_model_api* tsr_entry_api(void) {
  static const tsr_model_api api = {TSR_ARTIFACT_ABI,       &tsr_the_info, tsr_entry_open,
                                    tsr_entry_memory_bytes, tsr_entry_run, tsr_entry_close,
                                    tsr_entry_run_tensors};
  return &api;
}
