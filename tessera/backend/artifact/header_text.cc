#include "tessera/backend/artifact/header_text.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "tessera/backend/artifact/embedded_files.h"

namespace tessera::artifact {
namespace {

std::string upper(const std::string& name) {
  std::string out = name;
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return out;
}

// For comments: nothing that could end them.
std::string commented(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                       std::string_view("_.:,+-=[] ").find(c) != std::string_view::npos;
    out.push_back(plain ? c : '_');
  }
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
  bool caller_memory;  // a run may use memory of the caller
  const char* variants;
};

constexpr Words kProcessor = {
    R"(options: NULL for one thread a core and embedded weights. TSR_UNSUPPORTED: the processor
 * lacks a feature, which the message names.)",
    ", with the context's number of workers",
    R"(Tensors
 * at multiples of 64 bytes are used in place, others are copied. memory: as many bytes as
 * memory_bytes says at a multiple of 64, or NULL for memory that the context owns.)",
    "stream: NULL.",
    true,
    R"(
/* The library may hold several variants of the model, for processors with different features. open
 * takes the first that the processor fits; this one takes that with the number, counted from 1. */
tsr_status {0}_open_variant(int32_t number, const tsr_open_options* options, tsr_context** context);
int32_t {0}_variant(const tsr_context* context);
)"};

constexpr Words kGpu = {
    R"(Loads the driver, the code and the weights. options: NULL for the first device and embedded
 * weights. TSR_UNAVAILABLE: there is no driver or no device; TSR_UNSUPPORTED: it is too small.)",
    ": none",
    R"(They are
 * copied to the device and back. memory: unused.)",
    R"(Those of the host are copied,
 * those of the device used in place (of CUDA: at multiples of 64 bytes; others are copied). stream:
 * a CUstream or cl_command_queue of the caller, or NULL for one of the context. With one of the
 * caller and all tensors on the device the run is only enqueued; else it is done on return.)",
    false,
    ""};

const Words& words_of(const Metadata& m) {
  return target::row_of(m.device).launches ? kGpu : kProcessor;
}

std::string interface_text(const Metadata& m) {
  const Words& words = words_of(m);
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
                     m.name, words.open, words.memory_bytes, words.run, words.run_tensors) +
         fmt::format(fmt::runtime(words.variants), m.name);
}

// Without what the text in front of it already gives.
std::string without_own_includes(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1);
    const std::string_view line = text.substr(0, end + 1);
    if (!line.starts_with("#include \"")) out += line;
    text.remove_prefix(line.size());
  }
  return out;
}

}  // namespace

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
  for (const char* file : {"abi.h", "types.h"}) {
    out += without_own_includes(embedded_file(file)) + "\n";
  }
  const std::string guard = fmt::format("TESSERA_MODEL_{}_H_", upper(m.name));
  out += fmt::format("#ifndef {0}\n#define {0}\n\n#ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n",
                     guard);
  out += tensor_macros(m.name, "INPUT", m.inputs) + tensor_macros(m.name, "OUTPUT", m.outputs);
  out += fmt::format(
      "/* Host memory of a run with `workers` threads. */\n"
      "#define {}_MEMORY_BYTES(workers) ((int64_t){} + (int64_t)(workers) * {})\n",
      upper(m.name), words_of(m).caller_memory ? m.arena_bytes + m.shared_bytes : 0,
      m.worker_bytes);
  out += interface_text(m);
  out += "\n#ifdef __cplusplus\n}\n#endif\n#endif\n";
  return out;
}

}  // namespace tessera::artifact
