// Passes over a host's units: functions that fuse, split, replace or reorder the units of a host's factory, before the
// model's table is made and anything is planned, on each rank alike. Owns their contracts, order and execution;
// Troupe's own passes have one file each and are listed in unit_pass.cpp. A program that embeds Troupe adds its own
// (actors/session/host_model.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "models/host/module_model.hpp"

namespace troupe::models {

class prepared_modules;

/// Names of the facts that contracts of passes refer to; passes of a host may use any other names.
namespace unit_facts {
/// A linear layer and the activation after it are separate modules, as the factory made them: true at the beginning.
inline constexpr std::string_view apart = "activations stand apart";
/// All activations that can be fused are computed together with their linear layer.
inline constexpr std::string_view fused = "activations are fused";
}  // namespace unit_facts

/// Contract of a pass: it runs after all passes that provide what it needs, and after all passes that need what it
/// ends.
struct unit_contract {
  std::vector<std::string> needs = {}, provides = {}, ends = {};
  /// Names of passes that it may not share a model with; naming one of the two in the other is enough.
  std::vector<std::string> conflicts = {};
};

/// Facts about one unit that the dry run of the factory's model has found, with the first micro-batch of one rank.
struct unit_node {
  struct value {
    std::string name;
    std::vector<int64_t> shape;
  };
  std::string name;
  std::vector<value> takes, gives;
  std::vector<std::string> parameters;  ///< names of the unit's parameters in the table
  double forward_flops = 0;
  /// Bytes that remain allocated after forward, and bytes of the input from the unit before.
  uint64_t saved_bytes = 0, input_bytes = 0;
  bool draws = false;  ///< true: the unit draws random numbers
  /// Positions in the list of the units that read its output, and of those that share a parameter with it. Only the
  /// loss reads the last unit's output.
  std::vector<uint32_t> users, sharers;
};

struct unit_surroundings {          ///< facts that a pass may use besides the model
  std::vector<unit_node> nodes;     ///< units of the factory's model, in its order; empty if no pass requests them
  uint32_t tensor = 1;              ///< number of ranks that compute a unit together
  bool units_are_numbered = false;  ///< true: the configuration names units by position or type, so the list must stay
                                    ///< as it is
  bool recomputes = false;          ///< true: units may keep only their inputs, and recompute the rest in backward
};

/// A pass over a host's units: a function that changes them, with its name and its contract.
struct unit_pass {
  std::string name;
  unit_contract promise{};
  /// Changes the model; must depend on the two arguments alone, because it runs on each rank's instance. Units that
  /// have factories are not built yet. Returns the reason in a few words; empty if it changed nothing. An exception
  /// makes the session fail to open.
  std::function<std::string(module_model& m, const unit_surroundings& s)> run;
  bool reads_nodes = false;  ///< true: requests `nodes`, for which the model is made and run once more
  bool keeps_bits = false;   ///< true: losses, gradients and weights have the same bits with the pass
};

struct unit_account {  ///< report of one pass
  std::string name;
  size_t units_before = 0, units_after = 0;
  std::string why;
};

/// Returns Troupe's own passes, in the order that is used if contracts leave a choice.
std::span<const unit_pass> all_unit_passes();

using unit_pass_order = std::vector<const unit_pass*>;
/// Returns the passes in an order in which every contract holds. Errors (bad_input): those of plan::in_order.
core::result<unit_pass_order> in_order(const unit_pass_order& passes);

/// Runs the passes, and returns the statistics of each. Units keep the position that the factory assigned for their
/// random numbers. Errors (bad_input): a pass that throws, or that leaves units that no run accepts.
core::result<std::vector<unit_account>> run_unit_passes(module_model& m, const unit_surroundings& s,
                                                        const unit_pass_order& passes);

/// Returns the units of a model that was prepared.
std::vector<unit_node> nodes_of(const prepared_modules& made);

/// Returns the statistics of all passes as text, one line for each pass.
std::string text_of(const std::vector<unit_account>& accounts);

}  // namespace troupe::models
