// What units of a host's model hand on to each other: one tensor, or several by name.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace troupe::models {

/// Tensors by name, in order. Floating ones have gradients where something before them is trained; integers, masks and
/// the batch's own have none. All of them cross between the stages of a pipeline.
class named_values {
 public:
  using entry = std::pair<std::string, at::Tensor>;
  /// The name of a tensor that a unit gives alone.
  static constexpr const char* hidden = "hidden";

  named_values() = default;
  /// Throws std::runtime_error where a name is empty or stands twice.
  named_values(std::initializer_list<entry> all) : named_values(std::vector<entry>(all)) {}
  explicit named_values(std::vector<entry> all);
  explicit named_values(at::Tensor one) : all_{{hidden, std::move(one)}} {}

  /// Throws std::runtime_error, which names those that there are.
  const at::Tensor& operator[](std::string_view name) const;
  /// The only one; throws likewise where there are others.
  [[nodiscard]] const at::Tensor& only() const;
  /// The same with `name` replaced, or added behind the others: what a unit hands on beside its own result.
  [[nodiscard]] named_values with(std::string_view name, at::Tensor tensor) const;

  [[nodiscard]] size_t size() const { return all_.size(); }
  [[nodiscard]] auto begin() const { return all_.begin(); }
  [[nodiscard]] auto end() const { return all_.end(); }
  /// "'hidden', 'mask'"
  [[nodiscard]] std::string names() const;

 private:
  std::vector<entry> all_;
};

/// What a host's function gave: named values, or one tensor.
template <class T>
named_values as_named(T&& given) {
  if constexpr (std::is_same_v<std::remove_cvref_t<T>, named_values>)
    return std::forward<T>(given);
  else
    return named_values(at::Tensor(std::forward<T>(given)));
}

/// Calls `f(first..., values)`, where `f` takes one tensor as its last argument or named values.
template <class F, class... First>
named_values call_with(F& f, const named_values& x, First&... first) {
  if constexpr (std::is_invocable_v<F&, First&..., const at::Tensor&>)
    return as_named(f(first..., x.only()));
  else
    return as_named(f(first..., x));
}

}  // namespace troupe::models
