// ONNX Runtime on a whole model file: the functions of peers/peer.h for models.
#include <cstdio>
#include <exception>
#include <map>
#include <string>

#include "peers/ort_library.h"
#include "peers/peer.h"

using namespace tessera::peers;  // NOLINT(google-build-using-namespace): this file is C functions
using ort::Handle;
using ort::Library;

struct TesseraPeerModel {
  Handle<ort::SessionOptions> options;
  Handle<ort::MemoryInfo> memory;
  Handle<ort::Session> session;
  std::map<std::string, Handle<ort::Value>> inputs, outputs;
  std::string error;
};

namespace {

int bind(TesseraPeerModel* model, std::map<std::string, Handle<ort::Value>>* values,
         const TesseraPeerTensor* tensor) {
  try {
    ort::Value* value = nullptr;
    Library::get().call(ort::kCreateTensorWithDataAsOrtValue,
                        static_cast<const ort::MemoryInfo*>(model->memory.get()), tensor->data,
                        tensor->bytes, tensor->dims, tensor->rank, tensor->onnx_type, &value);
    (*values)[tensor->name].reset(value);
    return 0;
  } catch (const std::exception& e) {
    model->error = e.what();
    return 1;
  }
}

}  // namespace

TesseraPeerModel* tessera_peer_open_model(const char* path, int threads, char* reason,
                                          size_t reason_bytes) {
  try {
    const Library& library = Library::get();
    if (!library.is_open()) {
      std::snprintf(reason, reason_bytes, "ONNX Runtime not found at %s; see peers/fetch_ort.sh",
                    library.places().c_str());
      return nullptr;
    }
    auto model = std::make_unique<TesseraPeerModel>();
    model->options = ort::make_session_options(threads);
    model->memory = ort::make_memory_info();
    ort::Session* session = nullptr;
    library.call(ort::kCreateSession, static_cast<const ort::Env*>(library.env()), path,
                 static_cast<const ort::SessionOptions*>(model->options.get()), &session);
    model->session.reset(session);
    return model.release();
  } catch (const std::exception& e) {
    std::snprintf(reason, reason_bytes, "%s", e.what());
    return nullptr;
  }
}

int tessera_peer_model_bind_input(TesseraPeerModel* model, const TesseraPeerTensor* tensor) {
  return bind(model, &model->inputs, tensor);
}

int tessera_peer_model_bind_output(TesseraPeerModel* model, const TesseraPeerTensor* tensor) {
  return bind(model, &model->outputs, tensor);
}

int tessera_peer_model_run(TesseraPeerModel* model) {
  try {
    std::vector<const char*> input_names, output_names;
    std::vector<const ort::Value*> inputs;
    std::vector<ort::Value*> outputs;
    for (const auto& [name, value] : model->inputs) {
      input_names.push_back(name.c_str());
      inputs.push_back(value.get());
    }
    for (const auto& [name, value] : model->outputs) {
      output_names.push_back(name.c_str());
      outputs.push_back(value.get());
    }
    Library::get().call(
        ort::kRun, model->session.get(), static_cast<const ort::RunOptions*>(nullptr),
        static_cast<const char* const*>(input_names.data()),
        static_cast<const ort::Value* const*>(inputs.data()), inputs.size(),
        static_cast<const char* const*>(output_names.data()), outputs.size(), outputs.data());
    return 0;
  } catch (const std::exception& e) {
    model->error = e.what();
    return 1;
  }
}

const char* tessera_peer_model_error(const TesseraPeerModel* model) { return model->error.c_str(); }

void tessera_peer_close_model(TesseraPeerModel* model) { delete model; }
