// Runs a host's modules for the compute lane: every unit is one autograd segment.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/dtype.hpp"
#include "core/tp_plan.hpp"
#include "device/device_id.hpp"
#include "models/families/language_model.hpp"
#include "models/host/module_model.hpp"

namespace troupe::models {

/// Name and shape of one of a unit's input tensors, and whether it has a gradient.
struct value_info {
  std::string name;
  bool has_gradient = false;        ///< true: the value depends on something that is trained
  std::vector<int64_t> shape = {};  ///< shape of the value in the dry run
};

/// Facts about a host's model that its modules do not contain: names, shapes and costs from the dry run.
struct module_facts {
  core::model_table table;
  std::vector<bool> draws;                      ///< [unit]: true if the unit draws numbers from torch's generator
  std::vector<std::vector<value_info>> inputs;  ///< [unit]: inputs of the unit in the order in which they are passed on
  std::vector<std::string> outputs;             ///< names of the last unit's outputs
  std::vector<std::vector<int64_t>> output_shapes = {};  ///< shapes of the last unit's outputs in the dry run
  /// Number of tensor-parallel ranks that compute a unit together, and the cut of each parameter. With more than one
  /// such rank, a rank computes with the table `local`.
  core::tp_plan cut = {};
  core::model_table local = {};
  std::vector<bool> is_cut = {};    ///< [unit]: true if a rank computes a summand of the unit's output
  std::vector<uint32_t> ways = {};  ///< [unit]: `way` of injection::make
  core::tp_widths columns = {};     ///< columns of the last unit's output on each coordinate, if each has its own

  /// Returns the table that a rank computes with.
  [[nodiscard]] const core::model_table& own_table() const { return cut.degree > 1 ? local : table; }
  core::dtype type = core::dtype::f32;
  device::device_id device = {};  ///< device on which the modules compute
  /// Micro-batch of a step in which a trained parameter without gradient is an error; nullopt: in none.
  std::optional<uint32_t> all_used_in = {};
};

/// Returns a runner of `model`, whose parameters are bound through a binding made from `own_parameters()`. Units that
/// draw random numbers use torch's generator in turns with other ranks, seeded from (seed, step, micro-batch, rank,
/// unit), so recomputing a unit gives the same bits; its buffers change once, however often a micro-batch is
/// recomputed. `coordinate`: the rank's coordinate on the tensor axis.
std::unique_ptr<language_model> run_modules(module_model model, std::shared_ptr<const module_facts> facts,
                                            uint32_t coordinate = 0);

}  // namespace troupe::models
