#include "tessera/artifact/c_source.h"

#include <algorithm>
#include <cctype>

#include <fmt/ranges.h>

#include "tessera/artifact/c_parts.h"
#include "tessera/support/check.h"

namespace tessera::artifact {
namespace {

std::string upper(const std::string& name) {
  std::string out = name;
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return out;
}

std::string tensor_macros(const std::string& name, const char* kind,
                          const std::vector<TensorDescription>& tensors) {
  std::string out = fmt::format("#define {}_NUM_{}S {}\n", upper(name), kind, tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    out += fmt::format("#define {}_{}_{}_BYTES {} /* {}: {} {} */\n", upper(name), kind, i,
                       tensors[i].bytes(), commented(tensors[i].name), to_text(tensors[i].dtype),
                       to_text(tensors[i].shape));
  }
  return out;
}

// What the functions say where processors and GPUs differ.
struct Words {
  const char *open, *memory_bytes, *run, *run_tensors;
};

constexpr Words kProcessor = {
    R"(options: NULL for one thread a core and embedded weights. TSR_UNSUPPORTED: the processor
 * lacks a feature, which the message names.)",
    ", with the context's number of workers",
    R"(Tensors
 * at multiples of 64 bytes are used in place, others are copied. memory: as many bytes as
 * memory_bytes says at a multiple of 64, or NULL for memory that the context owns.)",
    "stream: NULL."};

constexpr Words kGpu = {
    R"(Loads the driver, the code and the weights. options: NULL for the first device and embedded
 * weights. TSR_UNAVAILABLE: there is no driver or no device; TSR_UNSUPPORTED: it is too small.)",
    ": none",
    R"(They are
 * copied to the device and back. memory: unused.)",
    R"(Those of the host are copied,
 * those of the device used in place (of CUDA: at multiples of 64 bytes; others are copied). stream:
 * a CUstream or cl_command_queue of the caller, or NULL for one of the context. With one of the
 * caller and all tensors on the device the run is only enqueued; else it is done on return.)"};

std::string interface_text(const Metadata& m) {
  const Words& words = m.device == target::Kind::kCpu ? kProcessor : kGpu;
  return fmt::format(R"(
/* Readable without opening. */
const tsr_model_info* {0}_info(void);

/* {1} */
tsr_status {0}_open(const tsr_open_options* options, tsr_context** context);

/* Bytes of host memory that a run needs between inputs and outputs{2}. */
int64_t {0}_memory_bytes(const tsr_context* context);

/* inputs, outputs: one pointer per tensor, in the order of the info; outputs overlap nothing. {3}
 * One run of a context at a time; different contexts may run at the same time. */
tsr_status {0}_run(tsr_context* context, const void* const* inputs, void* const* outputs,
                   void* memory);

/* The same with tensors of DLPack, row-major without gaps. {4} */
tsr_status {0}_run_tensors(tsr_context* context, const tsr_dl_tensor* inputs,
                           const tsr_dl_tensor* outputs, void* stream);

void {0}_close(tsr_context* context);

/* All of the above as a table. */
const tsr_model_api* {0}_api(void);
)",
                     m.name, words.open, words.memory_bytes, words.run, words.run_tensors);
}

std::string kernel_declarations(const std::string& name, const exec::CompiledModel& model) {
  std::vector<std::size_t> tasks;
  for (const auto& step : model.steps) tasks.push_back(step.kernel);
  std::sort(tasks.begin(), tasks.end());
  tasks.erase(std::unique(tasks.begin(), tasks.end()), tasks.end());
  std::string out;
  for (const std::size_t task : tasks) {
    out += fmt::format(
        "extern int32_t {}(void* const*, void*, tsr_host*) "
        "__attribute__((visibility(\"hidden\")));\n",
        kernel_symbol(name, task));
  }
  return out + "\n";
}

std::string program_tables(const std::string& name, const exec::CompiledModel& model,
                           const Weights& weights) {
  std::string places, steps;
  std::size_t count = 0;
  for (const exec::CompiledModel::Step& step : model.steps) {
    TESSERA_CHECK(step.kind == task::GroupKind::kKernel, "{} is not a kernel", step.name);
    for (const exec::Storage& s : step.params)
      places += "    " + place_text(place_of(s, model, weights)) + ",\n";
    steps += fmt::format("    {{{}, {}, {}, {}}},\n", kernel_symbol(name, step.kernel), count,
                         step.params.size(), c_string(step.name));
    count += step.params.size();
  }
  // A table of C has at least one row; the counts say how many are used.
  if (places.empty()) places = "    {0, 0, 0, 0},\n";
  if (steps.empty()) steps = "    {0, 0, 0, 0},\n";
  return fmt::format(
      "static const tsr_place tsr_places[] = {{\n{}}};\n\n"
      "static const tsr_step tsr_steps[] = {{\n{}}};\n\n",
      places, steps);
}

}  // namespace

std::string kernel_symbol(const std::string& name, std::size_t task) {
  return fmt::format("{}_kernel{}", name, task);
}

std::string weights_symbol(const std::string& name) { return name + "_weights"; }

std::string identifier(const std::string& text) {
  std::string out;
  for (const char c : text) {
    out.push_back(std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_');
  }
  if (out.empty() || std::isdigit(static_cast<unsigned char>(out[0])) != 0) out = "model_" + out;
  return out.substr(0, 100);
}

std::string header_text(const Metadata& m) {
  std::string out =
      fmt::format("/* Model {}, compiled by Tessera {} for {}. Generated: do not edit. */\n",
                  commented(m.name), m.tessera_version, commented(m.triple));
  out += runtime_text({"abi.h", "types.h"});
  const std::string guard = fmt::format("TESSERA_MODEL_{}_H_", upper(m.name));
  out += fmt::format("#ifndef {0}\n#define {0}\n\n#ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n",
                     guard);
  out += tensor_macros(m.name, "INPUT", m.inputs) + tensor_macros(m.name, "OUTPUT", m.outputs);
  out += fmt::format(
      "/* Host memory of a run with `workers` threads. */\n"
      "#define {}_MEMORY_BYTES(workers) ((int64_t){} + (int64_t)(workers) * {})\n",
      upper(m.name), m.device == target::Kind::kCpu ? m.arena_bytes + m.shared_bytes : 0,
      m.worker_bytes);
  out += interface_text(m);
  out += "\n#ifdef __cplusplus\n}\n#endif\n#endif\n";
  return out;
}

std::string source_text(const Metadata& m, const exec::CompiledModel& model,
                        const Weights& weights) {
  std::size_t most = 0;
  for (const auto& step : model.steps) most = std::max(most, step.params.size());
  std::string features;
  for (const std::string& feature : m.features) features += c_string(feature) + ", ";
  return source_begin(m, weights) + kernel_declarations(m.name, model) +
         copies_table(model, weights) + program_tables(m.name, model, weights) +
         fmt::format(
             "static const char* const tsr_required_features[] = {{{}0}};\n\n"
             "static const tsr_program tsr_the_program = {{\n"
             "    {},\n    tsr_required_features, tsr_steps, {}, tsr_places, {}}};\n",
             features, common_row(m, model, weights), model.steps.size(), most) +
         entry_points(m.name);
}

std::string blob_assembly(const std::string& symbol, const std::string& file) {
  return fmt::format(
      "    .section .rodata.{0},\"a\",%progbits\n"
      "    .globl {0}\n    .hidden {0}\n    .type {0}, %object\n    .balign 64\n{0}:\n"
      "    .incbin \"{1}\"\n    .size {0}, . - {0}\n"
      "    .section .note.GNU-stack,\"\",%progbits\n",
      symbol, file);
}

}  // namespace tessera::artifact
