// A GGUF file: metadata by key, and tensors that stay where they lie.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tessera/frontend/gguf/block_type.h"
#include "tessera/support/host_tensor.h"
#include "tessera/support/result.h"

namespace tessera::gguf {

// Integers of all widths are std::int64_t, floats double. Texts lie in the file.
struct Value {
  std::variant<bool, std::int64_t, double, std::string_view, std::vector<bool>,
               std::vector<std::int64_t>, std::vector<double>, std::vector<std::string_view>,
               std::vector<Value>>
      value;
};

struct Tensor {
  std::string_view name;
  const BlockType* type = nullptr;
  Shape shape;             // row-major: the elements of a row, the last dimension, lie side by side
  std::string_view bytes;  // whole blocks

  std::int64_t size() const { return elements(shape); }
};

// What is in a file, by the names that this format has for it.
struct Contents {
  std::string name;                   // for messages
  std::shared_ptr<const void> owner;  // as long as it lives, texts and bytes stay where they are
  std::map<std::string_view, Value> metadata;
  std::vector<Tensor> tensors;
  // What the file itself calls a key or a tensor; empty where it is a GGUF file.
  std::function<std::string(std::string_view)> spelled;
};

// Copies share the bytes.
class File {
 public:
  // Of a file of another format. kInvalidArgument: two tensors of a name, or none at all.
  static Result<File> of(Contents contents);
  // kIo: it cannot be read. kInvalidArgument, kUnsupported: what is wrong with it.
  static Result<File> open(const std::string& path);
  // Of bytes that stay where they are as long as `owner` lives; `name` is for messages.
  static Result<File> parse(std::string_view bytes, std::shared_ptr<const void> owner,
                            std::string name);

  const std::string& name() const { return name_; }
  // The key or the name of a tensor as who wrote the file knows it, for messages.
  std::string spelled(std::string_view name) const {
    return spelled_ ? spelled_(name) : std::string(name);
  }
  int version() const { return version_; }  // 0: another format
  const std::map<std::string_view, Value>& metadata() const { return metadata_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  const Tensor* find_tensor(std::string_view name) const;  // null: there is none
  const std::shared_ptr<const void>& owner() const { return owner_; }

  bool has(std::string_view key) const { return metadata_.contains(key); }
  // Fail, naming file and key, where the key is missing or its value of another kind.
  Result<std::int64_t> integer(std::string_view key) const;
  Result<double> number(std::string_view key) const;  // integers, too
  Result<bool> flag(std::string_view key) const;
  Result<std::string_view> text(std::string_view key) const;
  Result<std::span<const std::int64_t>> integers(std::string_view key) const;
  Result<std::span<const double>> numbers(std::string_view key) const;
  Result<std::span<const std::string_view>> texts(std::string_view key) const;
  // The same with what a missing key stands for.
  Result<std::int64_t> integer(std::string_view key, std::int64_t otherwise) const;
  Result<double> number(std::string_view key, double otherwise) const;
  Result<bool> flag(std::string_view key, bool otherwise) const;
  Result<std::string_view> text(std::string_view key, std::string_view otherwise) const;

 private:
  friend class Parser;
  template <class T>
  Result<const T*> find(std::string_view key, const char* kind) const;

  std::string name_;
  std::shared_ptr<const void> owner_;
  int version_ = 0;
  std::map<std::string_view, Value> metadata_;
  std::vector<Tensor> tensors_;  // in the order of their data
  std::map<std::string_view, std::size_t> by_name_;
  std::function<std::string(std::string_view)> spelled_;
};

// The elements as f32. kUnsupported: of a type that is only named.
Result<HostTensor> widened(const Tensor& tensor);

// Whether the bytes begin as those of a GGUF file do.
bool is_gguf(std::string_view bytes);

}  // namespace tessera::gguf
