// Functions of a host's model, converted to one type whether they take one tensor or several by name.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include "models/host/named_values.hpp"
#include "models/inject/cross_entropy.hpp"

namespace troupe::models {

/// One micro-batch of one rank, made by the host: tensors of any shapes and types, on the CPU. Floating-point tensors
/// are converted to the run's type.
struct host_batch {
  at::Tensor input, target;
  /// Further inputs of the first unit, by name; `input` has the name "input".
  named_values others{};
};

/// A unit's forward, made from a host's function that takes one tensor or named values and returns one tensor or named
/// values. If the function can take one tensor, it is called with one tensor, and the call throws if the unit before
/// returned several named values.
class unit_forward {
 public:
  unit_forward(std::nullptr_t = nullptr) {}  // NOLINT(google-explicit-constructor)
  template <class F>
  requires(!std::is_same_v<F, unit_forward> &&
           (std::is_invocable_v<F&, const at::Tensor&> || std::is_invocable_v<F&, const named_values&>))
      unit_forward(F f)  // NOLINT(google-explicit-constructor)
      : run_([f = std::move(f)](const named_values& x) mutable { return call_with(f, x); }) {}

  named_values operator()(const named_values& x) const { return run_(x); }
  at::Tensor operator()(const at::Tensor& x) const { return run_(named_values(x)).only(); }
  explicit operator bool() const { return run_ != nullptr; }

 private:
  std::function<named_values(const named_values&)> run_;
};

/// Computes the mean loss of a micro-batch, a scalar, from the last unit's output and the batch's target or the whole
/// batch. Made from a host's function; floating-point outputs narrower than fp32 are converted to fp32 for it.
class loss_function {
 public:
  loss_function(std::nullptr_t = nullptr) {}  // NOLINT(google-explicit-constructor)
  template <class F>
  requires(!std::is_same_v<F, loss_function>) loss_function(F f)  // NOLINT(google-explicit-constructor)
      : run_([f](const named_values& y, const host_batch& batch) mutable { return call(f, y, batch); }) {
    if constexpr (std::is_same_v<F, vocabulary_cross_entropy>) of_vocabulary_ = f;
  }

  at::Tensor operator()(const named_values& output, const host_batch& batch) const { return run_(output, batch); }
  at::Tensor operator()(const at::Tensor& output, const at::Tensor& target) const {
    return run_(named_values(output), {{}, target});
  }
  explicit operator bool() const { return run_ != nullptr; }
  /// Returns the loss if it is a vocabulary_cross_entropy, which can be computed from scores whose columns are split
  /// over ranks; else nullopt.
  [[nodiscard]] const std::optional<vocabulary_cross_entropy>& of_vocabulary() const { return of_vocabulary_; }

 private:
  template <class F>
  static at::Tensor call(F& f, const named_values& y, const host_batch& batch) {
    if constexpr (std::is_invocable_v<F&, const at::Tensor&, const at::Tensor&>)
      return f(y.only(), batch.target);
    else if constexpr (std::is_invocable_v<F&, const at::Tensor&, const host_batch&>)
      return f(y.only(), batch);
    else if constexpr (std::is_invocable_v<F&, const named_values&, const at::Tensor&>)
      return f(y, batch.target);
    else
      return f(y, batch);
  }

  std::function<at::Tensor(const named_values&, const host_batch&)> run_;
  std::optional<vocabulary_cross_entropy> of_vocabulary_;
};

}  // namespace troupe::models
