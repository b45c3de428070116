// Plans how a trained model changes when its compression is made permanent (*cleaning*): quantised weights are rounded
// to their grids, pruned elements become 0, and modules from which rows were pruned become smaller. The plan refers to
// parameters by name; checkpoint/convert/cut_source.hpp changes the tensors, and no state is read here.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "core/model_table.hpp"
#include "job/compression/cleaned_module.hpp"
#include "job/compression/compression.hpp"
#include "job/compression/module_cuts.hpp"

namespace troupe::job {

/// The planned change of one parameter.
struct cleaned_parameter {
  std::string name;
  uint64_t rows = 0, columns = 1;  ///< numbers of rows and columns as stored in memory, before the change
  const kernels::weight_recipe* recipe = nullptr;
  /// Bit for each element, in memory order; 0: the element becomes 0; empty: all elements are kept.
  kernels::mask_bits mask;
  /// Indices of the rows and of the columns that remain, as stored in memory; empty: all remain.
  std::vector<uint64_t> kept_rows, kept_columns;
  /// True: the parameter is removed, because it holds the scores of a learned mask, which is permanent now.
  bool drops = false;
};

struct cleaning {             ///< the planned changes of a model, for all parameters that change
  chosen_compression chosen;  ///< choice of compressed modules, which owns the recipes to which `parameters` points
  /// Dtype of the run's parameters, in which weights were rounded before they were compressed.
  core::dtype used = core::dtype::f32;
  std::vector<cleaned_parameter> parameters;
  std::vector<cut_module> cuts;
  std::vector<cleaned_module> modules;
  /// New values of keys in config.json; nullopt: the key stays unchanged.
  std::optional<uint64_t> inner, heads, kv_heads, head_width;
};

/// Where the widths of a model's layers are described, which decides whether they may differ between blocks.
enum class widths_said : uint8_t {
  by_config_json,  ///< the model's config.json, which has one width for all blocks
  by_modules       ///< each module of a host program has its own width
};

/// Function that returns the mask of a pruned module; nullopt if the run has no mask for the module.
using mask_lookup = std::function<std::optional<kernels::mask_bits>(const pruned_module& m)>;

/// Plans the cleaning of the techniques that have begun after `updates` updates. `table` is the table of the whole
/// model. If a group names `related_modules`, removed rows are cut out, and also the columns of a related layer that
/// takes them as inputs, the rows of one that is parallel to it, and a norm between them. Refused (bad_input), with
/// file, line and key: a related module of another width or that is not found, blocks that would have different widths,
/// fewer heads if the family's config.json cannot express them, a module without mask, a module whose weight others
/// read.
core::result<std::shared_ptr<const cleaning>> plan_cleaning(const config::job_config& config,
                                                            const core::model_table& table, uint64_t updates,
                                                            const mask_lookup& mask,
                                                            widths_said said = widths_said::by_config_json);

/// Returns, before a run, which modules would be cut and their new widths, which do not depend on the masks' contents;
/// an empty result if no group relates modules. Refused: everything that plan_cleaning would refuse after the run.
core::result<std::shared_ptr<const cleaning>> plan_related(const config::job_config& config,
                                                           const core::model_table& table, widths_said said);
/// Checks, for a model of a family and before a run, the modules that the configuration names as `related_modules` of
/// pruned modules; refuses what plan_related refuses.
core::result<void> check_related(const config::job_config& config, const core::model_table& table);

}  // namespace troupe::job
