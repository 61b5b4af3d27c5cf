// Compiles or loads a model and runs it once on zeros of f32: run_model MODEL [FOLDER]. MODEL is an
// ONNX file, zoo:NAME, or the folder of an artifact; a second argument saves the model there.
#include <filesystem>
#include <iostream>
#include <vector>

#include <tessera/tessera.hpp>

namespace {

void print(const char* kind, const tsr::TensorInfo& t) {
  std::cout << kind << ' ' << t.name << ": " << t.dtype;
  for (const std::int64_t size : t.shape) std::cout << ' ' << size;
  std::cout << '\n';
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::cerr << "usage: run_model MODEL [FOLDER]\n";
    return 2;
  }
  const tsr::Model model = std::filesystem::is_directory(argv[1]) ? tsr::Model::load(argv[1])
                                                                  : tsr::Model::compile(argv[1]);
  if (argc > 2) model.save(argv[2]);
  for (const tsr::TensorInfo& t : model.inputs()) print("input", t);
  for (const tsr::TensorInfo& t : model.outputs()) print("output", t);

  std::vector<std::vector<float>> inputs, outputs;
  std::vector<tsr::View> in, out;
  for (const tsr::TensorInfo& t : model.inputs()) inputs.emplace_back(t.bytes / sizeof(float));
  for (const tsr::TensorInfo& t : model.outputs()) outputs.emplace_back(t.bytes / sizeof(float));
  for (std::vector<float>& x : inputs) in.push_back(tsr::view(x));
  for (std::vector<float>& y : outputs) out.push_back(tsr::view(y));
  model.session().run(in, out);
  std::cout << outputs[0][0] << '\n';
  return 0;
} catch (const tsr::Error& e) {
  std::cerr << "run_model: " << e.what() << " (code " << e.code() << ")\n";
  return 1;
}
