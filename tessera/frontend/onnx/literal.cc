#include "tessera/frontend/onnx/literal.h"

#include <charconv>
#include <vector>

namespace tessera::onnx {
namespace {

bool is_list(const std::string& text) {
  return text.size() >= 2 && text.front() == '[' && text.back() == ']';
}

std::vector<std::string> items(const std::string& text) {
  std::vector<std::string> out(1);
  for (const char c : is_list(text) ? text.substr(1, text.size() - 2) : text) {
    if (c == ',') {
      out.emplace_back();
    } else if (c != ' ') {
      out.back() += c;
    }
  }
  if (out.size() == 1 && out[0].empty()) out.clear();
  return out;
}

template <class T>
bool read(const std::string& text, T* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

Result<void> set(HostTensor& tensor, std::int64_t i, const std::string& text) {
  if (text == "true" || text == "false") {
    tensor.set_int(i, text == "true" ? 1 : 0);
    if (tensor.dtype() == DType::kBool) return {};
  } else if (is_float(tensor.dtype())) {
    double value = 0;
    if (read(text, &value)) return tensor.set_float(i, value), Result<void>();
  } else {
    std::int64_t value = 0;
    if (read(text, &value)) {
      tensor.set_int(i, value);
      if (tensor.get_int(i) == value) return {};
    }
  }
  return make_error(ErrorCode::kInvalidArgument, "'{}' is not a number of type {}", text,
                    to_text(tensor.dtype()));
}

}  // namespace

std::size_t count_numbers(const std::string& text) { return items(text).size(); }

Shape shape_of_text(const std::string& text) {
  const std::size_t count = count_numbers(text);
  if (count == 1 && !is_list(text)) return {};
  return {static_cast<std::int64_t>(count)};
}

Result<HostTensor> tensor_from_text(const std::string& text, const graph::TensorType& type) {
  const std::vector<std::string> given = items(text);
  TESSERA_TRY(const std::int64_t count, checked_elements(type.shape, type.dtype));
  const auto numbers = static_cast<std::int64_t>(given.size());
  if (numbers != count && numbers != 1) {
    return make_error(ErrorCode::kInvalidArgument, "{} numbers are given for {}", numbers,
                      graph::to_text(type));
  }
  HostTensor tensor(type.dtype, type.shape);
  for (std::int64_t i = 0; i < count; ++i) {
    TESSERA_DO(set(tensor, i, given[static_cast<std::size_t>(numbers == 1 ? 0 : i)]));
  }
  return tensor;
}

}  // namespace tessera::onnx
