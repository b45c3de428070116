// A host's modules as the compute lane runs them: every unit is one autograd segment.
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

/// One of the tensors that a unit takes.
struct value_info {
  std::string name;
  bool has_gradient = false;        ///< something before it is trained, of which it depends
  std::vector<int64_t> shape = {};  ///< in the dry run
};

/// Facts about a host's model beside the model itself.
struct module_facts {
  core::model_table table;
  std::vector<bool> draws;                               ///< [unit]: draws numbers from torch's generator
  std::vector<std::vector<value_info>> inputs;           ///< [unit]: in the order in which they are handed on
  std::vector<std::string> outputs;                      ///< names of what the last unit puts out
  std::vector<std::vector<int64_t>> output_shapes = {};  ///< likewise, in the dry run
  /// Ranks that compute a unit together, and how its parameters are cut; what a rank computes with is `local` then.
  core::tp_plan cut = {};
  core::model_table local = {};
  std::vector<bool> is_cut = {};    ///< [unit]: computes a summand of what it hands on
  std::vector<uint32_t> ways = {};  ///< [unit]: of injection::make
  core::tp_widths columns = {};     ///< of the last unit's output, where each coordinate has its own of them

  /// What a rank computes with.
  [[nodiscard]] const core::model_table& own_table() const { return cut.degree > 1 ? local : table; }
  core::dtype type = core::dtype::f32;
  device::device_id device = {};  ///< where the modules compute
  /// The micro-batch of a step in which a trained parameter without gradient is an error; nullopt: in none.
  std::optional<uint32_t> all_used_in = {};
};

/// Runs `model`; its parameters are bound through a binding made of `own_parameters()`. Each unit that draws random
/// numbers takes turns with the other ranks at torch's generator, seeded from (seed, step, micro-batch, rank, unit), so
/// recomputing it gives the same bits; its buffers change once, however often a micro-batch is recomputed.
/// `coordinate`: the rank's on the tensor axis.
std::unique_ptr<language_model> run_modules(module_model model, std::shared_ptr<const module_facts> facts,
                                            uint32_t coordinate = 0);

}  // namespace troupe::models
