// Passes over a host's units: functions that fuse, split, replace or reorder what a host's factory gives, before the
// model's table is made and anything is planned, on each rank alike. Owns their contracts, order and running; ours are
// one file each, listed in unit_pass.cpp. A program that embeds Troupe brings its own (actors/session/host_model.hpp).
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

/// Facts that contracts name; a host's own may be any others.
namespace unit_facts {
/// A linear layer and the activation behind it are modules of their own, as the factory gave them: at the beginning.
inline constexpr std::string_view apart = "activations stand apart";
/// Those that can be are computed as one.
inline constexpr std::string_view fused = "activations are fused";
}  // namespace unit_facts

/// A pass runs behind all that provide what it needs, and behind all that need what it ends.
struct unit_contract {
  std::vector<std::string> needs = {}, provides = {}, ends = {};
  /// Names of passes that it may not share a model with; one of the two says it.
  std::vector<std::string> conflicts = {};
};

/// A unit as the dry run of the factory's model saw it, with the first micro-batch of one rank.
struct unit_node {
  struct value {
    std::string name;
    std::vector<int64_t> shape;
  };
  std::string name;
  std::vector<value> takes, gives;
  std::vector<std::string> parameters;  ///< their names in the table
  double forward_flops = 0;
  uint64_t saved_bytes = 0, input_bytes = 0;  ///< what forward leaves allocated; what it takes from the unit before
  bool draws = false;                         ///< random numbers
  /// Places in the list of the units that read what it gives, and of those that share a parameter with it. The last
  /// unit's output is read by the loss alone.
  std::vector<uint32_t> users, sharers;
};

struct unit_surroundings {          ///< what a pass may go by beside the model
  std::vector<unit_node> nodes;     ///< of the factory's model, in its order; empty where no pass asks for them
  uint32_t tensor = 1;              ///< ranks that compute a unit together
  bool units_are_numbered = false;  ///< the configuration names units by place or type: the list shall stay as it is
  bool recomputes = false;          ///< units may keep their inputs alone, and compute the rest again in backward
};

/// A change of a host's units, with its name and its contract.
struct unit_pass {
  std::string name;
  unit_contract promise{};
  /// Changes the model; depends on the two alone, since it runs on each rank's instance. Units that have factories are
  /// not built yet. Returns the reason in a few words; empty if it had none to change anything. What it throws refuses
  /// the session.
  std::function<std::string(module_model& m, const unit_surroundings& s)> run;
  bool reads_nodes = false;  ///< asks for `nodes`: the model is made and run once more
  bool keeps_bits = false;   ///< losses, gradients and weights have the same bits with it
};

struct unit_account {  ///< what a pass did
  std::string name;
  size_t units_before = 0, units_after = 0;
  std::string why;
};

/// Ours, in the order that decides if contracts leave a choice.
std::span<const unit_pass> all_unit_passes();

using unit_pass_order = std::vector<const unit_pass*>;
/// The passes in an order in which every contract is kept. Fails (bad_input) as plan::in_order.
core::result<unit_pass_order> in_order(const unit_pass_order& passes);

/// Runs them, one account each; units keep the place that the factory gave them for their random numbers. Fails
/// (bad_input) where one throws, or leaves units that no run takes.
core::result<std::vector<unit_account>> run_unit_passes(module_model& m, const unit_surroundings& s,
                                                        const unit_pass_order& passes);

/// The units of a model that was made ready.
std::vector<unit_node> nodes_of(const prepared_modules& made);

/// A line for each pass.
std::string text_of(const std::vector<unit_account>& accounts);

}  // namespace troupe::models
