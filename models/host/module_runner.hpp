// Computes a host's modules as a language_model, for the executor of a rank's compute instructions: every unit is one
// autograd graph.
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

/// Name and shape of one input tensor of a unit, and whether it has a gradient.
struct value_info {
  std::string name;
  bool has_gradient = false;        ///< true: the value depends on a trained parameter
  std::vector<int64_t> shape = {};  ///< shape of the value in the dry run
};

/// Facts about a host's model that its modules do not contain: names, shapes, costs and cuts, as the dry run found
/// them.
struct module_facts {
  core::model_table table;
  std::vector<bool> draws;                      ///< [unit]: true if the unit draws numbers from torch's generator
  /// [unit]: input values of the unit, in the order in which the previous unit passes them on.
  std::vector<std::vector<value_info>> inputs;
  std::vector<std::string> outputs;             ///< names of the last unit's outputs
  std::vector<std::vector<int64_t>> output_shapes = {};  ///< shapes of the last unit's outputs in the dry run
  /// Number of tensor-parallel ranks that compute a unit together, and how each parameter is split over them. With more
  /// than one such rank, a rank computes with the table `local`.
  core::tp_plan cut = {};
  core::model_table local = {};
  /// [unit]: true if the unit is split, so that a rank computes a summand or some columns of its output.
  std::vector<bool> is_cut = {};
  /// [unit]: which of several possible cuts is used, the argument `way` of injection::make.
  std::vector<uint32_t> ways = {};
  /// Columns of the last unit's output on each tensor-parallel rank; empty: ranks have whole rows.
  core::tp_widths columns = {};

  /// Returns the table with which a rank computes: `local` if units are split over ranks, else `table`.
  [[nodiscard]] const core::model_table& own_table() const { return cut.degree > 1 ? local : table; }
  core::dtype type = core::dtype::f32;
  device::device_id device = {};  ///< device on which the modules compute
  /// Number of the micro-batch of a step in which a trained parameter without a gradient is an error; nullopt: never an
  /// error.
  std::optional<uint32_t> all_used_in = {};
};

/// Returns an object that computes with `model`, whose parameters must be bound through a parameter_binding made from
/// `own_parameters()`. Units that draw random numbers use torch's generator exclusively, one rank after another, seeded
/// from (seed, step, micro-batch, rank, unit), so recomputing a unit gives the same bits; a unit's buffers change once,
/// however often a micro-batch is recomputed. `coordinate`: the rank's coordinate on the tensor-parallel axis.
std::unique_ptr<language_model> run_modules(module_model model, std::shared_ptr<const module_facts> facts,
                                            uint32_t coordinate = 0);

}  // namespace troupe::models
