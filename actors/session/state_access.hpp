// Reads and changes weights, optimizer states and gradients by parameters' names between steps, at every stage and
// tier: DeepSpeed's `safe_get_*` and `safe_set_*`. Owns names, sizes and what has to change together; state_store.hpp
// knows where elements lie.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "plan/partition.hpp"

namespace troupe::actors {

struct compression_state;
struct state_access_parts;
struct state_place;

/// Values of one parameter, in the order of its elements.
struct named_values {
  std::string name;
  std::vector<float> values;
};

/// Made by `session::states`, good until the session's next call. Values are fp32 (in reference mode rounded, or
/// widened); the mean gradient is that of the last step, before clipping. What is set is what the next step computes
/// with and updates, on all ranks and in every copy that the run keeps. A gradient is only read: a step makes its own.
/// Errors: bad_input for an unknown name (with the nearest), a wrong number of values, a state that the parameter does
/// not have, a gradient before the first step, a rank that is none; io where states lie in files.
class state_access {
 public:
  using values = core::result<std::vector<float>>;

  /// Hosts are given one by their session.
  explicit state_access(std::shared_ptr<const state_access_parts> parts) : parts_(std::move(parts)) {}

  /// Master weights of the whole parameter; of a frozen one, its weights.
  [[nodiscard]] values get_full_fp32_param(const std::string& name) const;
  /// `key` as in checkpoints: `exp_avg`, `exp_avg_sq`, `momentum_buffer`, `sum` ...
  [[nodiscard]] values get_full_optimizer_state(const std::string& name, const std::string& key) const;
  [[nodiscard]] values get_full_grad(const std::string& name) const;
  core::result<void> set_full_fp32_param(const std::string& name, std::span<const float> in) const;
  core::result<void> set_full_optimizer_state(const std::string& name, const std::string& key,
                                              std::span<const float> in) const;

  /// The elements of a parameter that `rank` updates, maybe none; all of them at stage 0. Of a frozen one, those that
  /// it holds.
  [[nodiscard]] core::result<plan::slice> local_slice(uint32_t rank, const std::string& name) const;
  /// The same of these elements alone.
  [[nodiscard]] values get_local_fp32_param(uint32_t rank, const std::string& name) const;
  [[nodiscard]] values get_local_optimizer_state(uint32_t rank, const std::string& name, const std::string& key) const;
  [[nodiscard]] values get_local_grad(uint32_t rank, const std::string& name) const;
  core::result<void> set_local_fp32_param(uint32_t rank, const std::string& name, std::span<const float> in) const;
  core::result<void> set_local_optimizer_state(uint32_t rank, const std::string& name, const std::string& key,
                                               std::span<const float> in) const;

  /// What the run is compressed with now (actors/session/compression_state.hpp).
  [[nodiscard]] core::result<compression_state> compression() const;

  /// Several parameters at once. Everything is checked before the first is changed.
  [[nodiscard]] core::result<std::vector<named_values>> get_full_fp32_params(std::span<const std::string> names) const;
  [[nodiscard]] core::result<std::vector<named_values>> get_full_optimizer_states(std::span<const std::string> names,
                                                                                  const std::string& key) const;
  [[nodiscard]] core::result<std::vector<named_values>> get_full_grads(std::span<const std::string> names) const;
  core::result<void> set_full_fp32_params(std::span<const named_values> all) const;
  core::result<void> set_full_optimizer_states(std::span<const named_values> all, const std::string& key) const;

 private:
  using place = state_place;  // a part of one parameter, or a slice of it
  [[nodiscard]] core::result<uint32_t> find(const std::string& name) const;
  [[nodiscard]] core::result<place> weights(const std::string& name) const;
  [[nodiscard]] core::result<place> state(const std::string& name, const std::string& key) const;
  [[nodiscard]] core::result<place> gradient(const std::string& name) const;
  [[nodiscard]] core::result<place> on_rank(core::result<place> whole, uint32_t rank) const;
  [[nodiscard]] values get(const core::result<place>& x) const;
  core::result<void> check(const core::result<place>& x, std::span<const float> in) const;
  core::result<void> set(const core::result<place>& x, std::span<const float> in) const;
  core::result<void> put(const place& x, std::span<const float> in) const;

  std::shared_ptr<const state_access_parts> parts_;
};

}  // namespace troupe::actors
