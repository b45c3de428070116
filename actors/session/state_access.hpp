// Reads and changes weights, optimizer states and gradients between steps by the names of parameters, whatever the ZeRO
// stage and wherever they are stored: DeepSpeed's `safe_get_*` and `safe_set_*`. Owns names, sizes and which copies
// must change together; state_store.hpp finds the elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "actors/run/compression_state.hpp"
#include "core/dtype.hpp"
#include "core/error.hpp"
#include "plan/partition.hpp"

namespace troupe::actors {

struct state_access_parts;
struct state_place;

/// Values of one parameter, in the order of its elements.
struct named_values {
  std::string name;
  std::vector<float> values;
};

/// Elements of a state in the memory in which a rank trains: no copy.
struct state_view {
  std::shared_ptr<const void> memory{};  ///< keeps the bytes alive, also after the session has ended
  const std::byte* data = nullptr;       ///< the first element; null if there are none
  core::dtype type = core::dtype::f32;
  plan::slice elements{};  ///< the elements of the parameter, as state_access::local_slice() counts them
};

/// Access to states by name. `session::states` returns one, valid until the session's next call. Values are fp32 (in
/// reference mode rounded, or widened); gradients are the means of the last step, before clipping. The next step
/// computes with the values that were set and updates them, on all ranks and in every copy that the run keeps.
/// Gradients can only be read, because each step makes its own. Errors: bad_input for an unknown name (with the
/// nearest), a wrong number of values, a state that the parameter does not have, a gradient before the first step, a
/// rank that does not exist; io if states are in files.
class state_access {
 public:
  using values = core::result<std::vector<float>>;

  /// For session::states() only, which returns an object to the host program.
  explicit state_access(std::shared_ptr<const state_access_parts> parts) : parts_(std::move(parts)) {}

  /// Returns the master weights of the whole parameter; for a frozen one its weights.
  [[nodiscard]] values get_full_fp32_param(const std::string& name) const;
  /// Returns an optimizer state of the whole parameter; `key` is its name in checkpoints: `exp_avg`, `exp_avg_sq`,
  /// `momentum_buffer`, `sum` ...
  [[nodiscard]] values get_full_optimizer_state(const std::string& name, const std::string& key) const;
  [[nodiscard]] values get_full_grad(const std::string& name) const;
  core::result<void> set_full_fp32_param(const std::string& name, std::span<const float> in) const;
  core::result<void> set_full_optimizer_state(const std::string& name, const std::string& key,
                                              std::span<const float> in) const;

  /// Returns the range of elements of a parameter that `rank` updates, possibly empty; at ZeRO stage 0, all of them.
  /// For a frozen parameter, the elements that the rank holds.
  [[nodiscard]] core::result<plan::slice> local_slice(uint32_t rank, const std::string& name) const;
  /// Functions with `local` in their name read or set only the elements of local_slice().
  [[nodiscard]] values get_local_fp32_param(uint32_t rank, const std::string& name) const;
  [[nodiscard]] values get_local_optimizer_state(uint32_t rank, const std::string& name, const std::string& key) const;
  [[nodiscard]] values get_local_grad(uint32_t rank, const std::string& name) const;
  core::result<void> set_local_fp32_param(uint32_t rank, const std::string& name, std::span<const float> in) const;
  core::result<void> set_local_optimizer_state(uint32_t rank, const std::string& name, const std::string& key,
                                               std::span<const float> in) const;

  /// Return the elements of local_slice() in the memory of `rank`, without a copy and in the type in which the rank
  /// stores them. Every later step, load() and setter changes them in place; they are read between the session's calls
  /// and never written. After the session's end they keep their last values. Errors (bad_input), in addition: elements
  /// that are in a file, on a device or in another process, and so can only be copied.
  [[nodiscard]] core::result<state_view> view_local_param(uint32_t rank, const std::string& name) const;
  [[nodiscard]] core::result<state_view> view_local_optimizer_state(uint32_t rank, const std::string& name,
                                                                    const std::string& key) const;

  /// Returns the current compression of the run.
  [[nodiscard]] core::result<compression_state> compression() const;

  /// Functions with plural names access several parameters at once. Setters check all arguments before the first
  /// change.
  [[nodiscard]] core::result<std::vector<named_values>> get_full_fp32_params(std::span<const std::string> names) const;
  [[nodiscard]] core::result<std::vector<named_values>> get_full_optimizer_states(std::span<const std::string> names,
                                                                                  const std::string& key) const;
  [[nodiscard]] core::result<std::vector<named_values>> get_full_grads(std::span<const std::string> names) const;
  core::result<void> set_full_fp32_params(std::span<const named_values> all) const;
  core::result<void> set_full_optimizer_states(std::span<const named_values> all, const std::string& key) const;

 private:
  using place = state_place;  // one kind of state of a parameter, and a range of its elements
  [[nodiscard]] core::result<uint32_t> find(const std::string& name) const;
  [[nodiscard]] core::result<place> weights(const std::string& name) const;
  [[nodiscard]] core::result<place> state(const std::string& name, const std::string& key) const;
  [[nodiscard]] core::result<place> gradient(const std::string& name) const;
  [[nodiscard]] core::result<place> on_rank(core::result<place> whole, uint32_t rank) const;
  [[nodiscard]] values get(const core::result<place>& x) const;
  [[nodiscard]] core::result<state_view> view(const core::result<place>& x) const;
  core::result<void> check(const core::result<place>& x, std::span<const float> in) const;
  core::result<void> set(const core::result<place>& x, std::span<const float> in) const;
  core::result<void> put(const place& x, std::span<const float> in) const;

  std::shared_ptr<const state_access_parts> parts_;
};

}  // namespace troupe::actors
