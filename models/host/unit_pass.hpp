// Passes over the units of a host's model: functions that fuse, split, replace or reorder units before the model's
// table is made and anything is planned, equally on each rank. Owns their contracts, order and execution; Troupe's own
// passes have one file each and are listed in unit_pass.cpp. A program that embeds Troupe adds its own
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

/// Names of facts about a model that contracts of passes refer to; passes of a host may use any other names.
namespace unit_facts {
/// Name of the fact that a linear layer and the activation after it are separate modules; true until a pass ends it.
inline constexpr std::string_view apart = "activations stand apart";
/// Name of the fact that all activations that can be fused are computed together with their linear layer.
inline constexpr std::string_view fused = "activations are fused";
}  // namespace unit_facts

/// Contract of a pass, as names of facts: the pass runs after all passes that provide a fact that it needs, and after
/// all passes that need a fact that it ends.
struct unit_contract {
  std::vector<std::string> needs = {}, provides = {}, ends = {};
  /// Names of passes that must not be used together with this pass; it is enough if one of the two names the other.
  std::vector<std::string> conflicts = {};
};

/// Facts about one unit of the factory's model, found by a dry run with the first micro-batch of one rank.
struct unit_node {
  struct value {
    std::string name;
    std::vector<int64_t> shape;
  };
  std::string name;
  std::vector<value> takes, gives;
  std::vector<std::string> parameters;  ///< names of the unit's parameters in the table
  double forward_flops = 0;
  /// Bytes that stay allocated from forward to backward, and bytes of the input that comes from the previous unit.
  uint64_t saved_bytes = 0, input_bytes = 0;
  bool draws = false;  ///< true: the unit draws random numbers
  /// Indices of the units that read this unit's output, and of the units that share a parameter with it. Only the loss
  /// reads the last unit's output.
  std::vector<uint32_t> users, sharers;
};

struct unit_surroundings {  ///< facts about the run that a unit pass receives together with the model
  /// Facts about each unit of the factory's model, in order; empty if no pass has `reads_nodes`
  std::vector<unit_node> nodes;
  uint32_t tensor = 1;  ///< number of tensor-parallel ranks that compute a unit together
  /// True: the configuration names units by position or type, so passes must not change the list.
  bool units_are_numbered = false;
  bool recomputes = false;          ///< true: units may keep only their inputs, and recompute the rest in backward
};

/// A pass: a function that changes a host's units, with its name and its contract.
struct unit_pass {
  std::string name;
  unit_contract promise{};
  /// Changes the model; must depend on the two arguments alone, because it runs on each rank's instance. Units that
  /// have factories are not built yet. Returns the reason in a few words; empty if it changed nothing. An exception
  /// makes the session fail to open.
  std::function<std::string(module_model& m, const unit_surroundings& s)> run;
  /// True: the pass reads unit_surroundings::nodes; the model is then made and run once more to find them.
  bool reads_nodes = false;
  bool keeps_bits = false;   ///< true: losses, gradients and weights have the same bits with the pass
};

struct unit_account {  ///< what one pass did: numbers of units before and after it, and its reason
  std::string name;
  size_t units_before = 0, units_after = 0;
  std::string why;
};

/// Returns Troupe's own passes; passes run in this order where their contracts allow several orders.
std::span<const unit_pass> all_unit_passes();

using unit_pass_order = std::vector<const unit_pass*>;
/// Returns the given passes in an order in which every contract holds. Errors (bad_input): those of plan::in_order.
core::result<unit_pass_order> in_order(const unit_pass_order& passes);

/// Runs the passes in order on `m`, and returns what each did. Units keep the number from which their random numbers
/// are seeded. Errors (bad_input): a pass that throws, or that leaves units that no run accepts.
core::result<std::vector<unit_account>> run_unit_passes(module_model& m, const unit_surroundings& s,
                                                        const unit_pass_order& passes);

/// Returns the facts about each unit of a model that was prepared, for passes that read them.
std::vector<unit_node> nodes_of(const prepared_modules& made);

/// Returns what all passes did as text, one line for each pass.
std::string text_of(const std::vector<unit_account>& accounts);

}  // namespace troupe::models
