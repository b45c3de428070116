// Values that the units of a host's model pass to each other: one tensor, or several with names.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace troupe::models {

/// Tensors with names, in order. Floating-point ones have gradients if a trained parameter influences them; integers,
/// masks and the batch's own tensors have none. All of them are sent from one pipeline stage to the next.
class named_values {
 public:
  using entry = std::pair<std::string, at::Tensor>;
  /// Name of a unit's output if the unit returns one tensor without a name.
  static constexpr const char* hidden = "hidden";

  named_values() = default;
  /// Throws std::runtime_error if a name is empty or occurs twice.
  named_values(std::initializer_list<entry> all) : named_values(std::vector<entry>(all)) {}
  explicit named_values(std::vector<entry> all);
  explicit named_values(at::Tensor one) : all_{{hidden, std::move(one)}} {}

  /// Returns the tensor named `name`. Throws std::runtime_error, which lists the existing names, if there is none.
  const at::Tensor& operator[](std::string_view name) const;
  /// Returns the tensor if there is only one; throws std::runtime_error, which lists the names, if there are several.
  [[nodiscard]] const at::Tensor& only() const;
  /// Returns these values with the tensor `name` replaced, or added at the end. Used by units that pass on their inputs
  /// besides their result.
  [[nodiscard]] named_values with(std::string_view name, at::Tensor tensor) const;

  [[nodiscard]] size_t size() const { return all_.size(); }
  [[nodiscard]] auto begin() const { return all_.begin(); }
  [[nodiscard]] auto end() const { return all_.end(); }
  /// Returns text like "'hidden', 'mask'".
  [[nodiscard]] std::string names() const;

 private:
  std::vector<entry> all_;
};

/// Returns `given`, the result of a host's function (named values or one tensor), as named values.
template <class T>
named_values as_named(T&& given) {
  if constexpr (std::is_same_v<std::remove_cvref_t<T>, named_values>)
    return std::forward<T>(given);
  else
    return named_values(at::Tensor(std::forward<T>(given)));
}

/// Calls `f(first..., values)`, where the last argument of `f` is one tensor or named values.
template <class F, class... First>
named_values call_with(F& f, const named_values& x, First&... first) {
  if constexpr (std::is_invocable_v<F&, First&..., const at::Tensor&>)
    return as_named(f(first..., x.only()));
  else
    return as_named(f(first..., x));
}

}  // namespace troupe::models
