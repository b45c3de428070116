// A value to be pickled as torch.save does: plain values, containers, shapes, objects by the name of their class, and
// tensors as views of numbered storages. Owns the tree and its pickle; leaves the storages' bytes to
// archive_writer.hpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "formats/torch/pickle_writer.hpp"

namespace troupe::formats {

/// A contiguous tensor: elements [first, first + numel) of a storage.
struct torch_view {
  uint32_t storage = 0;  ///< index in the list of storages that is written with the value
  uint64_t first = 0;
  std::vector<int64_t> shape;
};

/// A value that torch.save can write: plain values, tensors, lists, dicts.
class torch_value {
 public:
  torch_value() = default;  ///< the value None
  torch_value(bool v) : scalar_(v) {}
  torch_value(int64_t v) : scalar_(v) {}
  torch_value(int v) : scalar_(int64_t{v}) {}
  torch_value(double v) : scalar_(v) {}
  torch_value(std::string v) : scalar_(std::move(v)) {}
  torch_value(const char* v) : scalar_(std::string(v)) {}
  torch_value(torch_view v) : kind_(kind::tensor), view_(std::move(v)) {}

  static torch_value list(std::vector<torch_value> items = {});
  static torch_value tuple(std::vector<torch_value> items);
  static torch_value dict() { return {kind::dict, {}}; }
  static torch_value ordered_dict() { return {kind::ordered_dict, {}}; }
  static torch_value size(const std::vector<int64_t>& shape);  ///< returns a torch.Size with the given numbers
  /// Returns a value that becomes the result of calling `name` of `module` with `arguments` when Python loads the file.
  static torch_value call(std::string module, std::string name, std::vector<torch_value> arguments);
  /// Returns a reference to the object `name` of `module`, such as `torch.float16`.
  static torch_value global(std::string module, std::string name);
  /// Returns an object of a class that is constructed without arguments; set() adds its attributes. torch.load opens
  /// such files only after torch.serialization.add_safe_globals of the class.
  static torch_value object(std::string module, std::string name);

  /// Adds a key to a dict or an attribute to an object. Keys are not compared.
  torch_value& set(torch_value key, torch_value value);
  /// Appends an element to a list.
  torch_value& push(torch_value value);
  /// Sets the argument of an object's __setstate__, for classes that do not take attributes.
  torch_value& set_state(torch_value state) { return set_metadata(std::move(state)); }
  /// Sets the attribute `_metadata` of an ordered dict, which the state dict of a module has.
  torch_value& set_metadata(torch_value value);

  /// Returns the members of a dict: key, value, key, value ...
  [[nodiscard]] std::span<const torch_value> items() const { return items_; }
  /// Returns the text of a text value.
  [[nodiscard]] const std::string& text() const { return std::get<std::string>(scalar_); }
  [[nodiscard]] bool is_none() const {
    return kind_ == kind::scalar && std::holds_alternative<std::monostate>(scalar_);
  }
  /// Appends every tensor in this value to `out`, in the order in which torch.save writes them.
  void collect_views(std::vector<const torch_view*>& out) const;

  /// Writes this value's part of the pickle. `put_tensor` writes a view.
  template <class PutTensor>
  void write(pickle_writer& out, const PutTensor& put_tensor) const;

 private:
  enum class kind : uint8_t { scalar, list, tuple, dict, ordered_dict, call, global, object, tensor };
  torch_value(kind k, std::vector<torch_value> items) : kind_(k), items_(std::move(items)) {}
  void write_scalar(pickle_writer& out) const;

  kind kind_ = kind::scalar;
  std::variant<std::monostate, bool, int64_t, double, std::string> scalar_;
  std::string module_, name_;
  std::vector<torch_value> items_;     ///< elements; for dicts and objects: key, value, key, value ...
  std::vector<torch_value> metadata_;  ///< `_metadata` or argument of __setstate__; at most one element
  torch_view view_;
};

template <class PutTensor>
void torch_value::write(pickle_writer& out, const PutTensor& put_tensor) const {
  const auto items = [&] {
    out.mark();
    for (const auto& item : items_) item.write(out, put_tensor);
  };
  const auto no_arguments = [&] {
    out.mark();
    out.end_tuple();
  };
  switch (kind_) {
    case kind::scalar:
      return write_scalar(out);
    case kind::tensor:
      return put_tensor(out, view_);
    case kind::global:
      return out.global(module_, name_);
    case kind::tuple:
      items();
      return out.end_tuple();
    case kind::list:
      out.empty_list();
      items();
      return out.end_items();
    case kind::call:
      out.global(module_, name_);
      items();
      out.end_tuple();
      return out.call();
    case kind::dict:
      out.empty_dict();
      items();
      return out.end_pairs();
    case kind::ordered_dict:
      out.global("collections", "OrderedDict");
      no_arguments();
      out.call();
      items();
      out.end_pairs();
      if (metadata_.empty()) return;
      out.empty_dict();
      out.mark();
      out.text("_metadata");
      metadata_.front().write(out, put_tensor);
      out.end_pairs();
      return out.set_state();
    case kind::object:
      out.global(module_, name_);
      no_arguments();
      out.make();
      if (!metadata_.empty()) {
        metadata_.front().write(out, put_tensor);
        return out.set_state();
      }
      out.empty_dict();
      items();
      out.end_pairs();
      return out.set_state();
  }
}

}  // namespace troupe::formats
