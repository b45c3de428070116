// Plans how a trained model changes when its compression is made permanent: weights are rounded to their grids, masks
// are multiplied in, related modules become smaller. Owns the choice, by parameters' names;
// checkpoint/convert/cut_source.hpp changes the tensors, and no state is read here.
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
#include "job/compression/compression.hpp"
#include "job/compression/module_cuts.hpp"

namespace troupe::job {

/// The planned change of one parameter.
struct cleaned_parameter {
  std::string name;
  uint64_t rows = 0, columns = 1;  ///< size in memory order, before the change
  const kernels::weight_recipe* recipe = nullptr;
  kernels::mask_bits mask;                        ///< kept elements in memory order; empty: all are kept
  std::vector<uint64_t> kept_rows, kept_columns;  ///< remaining indices in memory order; empty: all remain
  bool drops = false;                             ///< true: removed, as scores of a mask that is permanent now
};

/// A line of the report about cleaned modules.
struct cleaned_module {
  std::string module, what;  ///< name, and change such as "row_pruning, 128 of 256 kept"
};

struct cleaning {                       ///< the changes of all parameters that change
  chosen_compression chosen;            ///< owns the recipes to which `parameters` point
  core::dtype used = core::dtype::f32;  ///< the type of the run's parameters
  std::vector<cleaned_parameter> parameters;
  std::vector<cut_module> cuts;
  std::vector<cleaned_module> modules;
  /// New values of keys in config.json; nullopt: the key stays unchanged.
  std::optional<uint64_t> inner, heads, kv_heads, head_width;
};

/// Says from which source the widths of a model's layers are read, and so which widths may differ between blocks.
enum class widths_said : uint8_t {
  by_config_json,  ///< config.json has one width for all blocks
  by_modules       ///< a host's own modules, each with its own width
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
/// Checks the related modules of a model family; refuses what plan_related refuses.
core::result<void> check_related(const config::job_config& config, const core::model_table& table);

}  // namespace troupe::job
