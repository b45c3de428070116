// What a trained model becomes when what it was compressed with is made permanent: weights on their grids, masks
// multiplied in, related modules cut along. Owns the choice, by parameters' names; how tensors are changed is
// checkpoint/convert/cut_source.hpp's, and no state is read here.
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

/// What becomes of one parameter.
struct cleaned_parameter {
  std::string name;
  uint64_t rows = 0, columns = 1;  ///< as it lies, before
  const kernels::weight_recipe* recipe = nullptr;
  kernels::mask_bits mask;                        ///< by element as it lies; empty: all stay
  std::vector<uint64_t> kept_rows, kept_columns;  ///< as it lies; empty: all
  bool drops = false;                             ///< scores of masks, which are permanent now
};

/// A row of what is told.
struct cleaned_module {
  std::string module, what;  ///< "row_pruning, 128 of 256 rows"
};

struct cleaning {                       ///< of all parameters that change
  chosen_compression chosen;            ///< recipes point into it
  core::dtype used = core::dtype::f32;  ///< the type of the run's parameters
  std::vector<cleaned_parameter> parameters;
  std::vector<cut_module> cuts;
  std::vector<cleaned_module> modules;
  /// Keys of config.json that are other ones now.
  std::optional<uint64_t> inner, heads, kv_heads, head_width;
};

/// What says how wide a model's layers are.
enum class widths_said : uint8_t {
  by_config_json,  ///< one width for all blocks
  by_modules       ///< a host's own, each for itself
};

/// The mask of a pruned module; nothing: the run has none.
using mask_lookup = std::function<std::optional<kernels::mask_bits>(const pruned_module& m)>;

/// `table` is the whole model's. Of techniques that have begun after `updates` alone. Where a group names
/// `related_modules`, rows that go are cut out, and so are the columns of a related layer that takes them, or the rows
/// of one that stands beside it, and a norm between them. Refused (bad_input), with file, line and key: a related
/// module of another width or that is not found, blocks that would have different widths, fewer heads where the
/// family's config.json cannot say so, a module without mask, one whose weight others read.
core::result<std::shared_ptr<const cleaning>> plan_cleaning(const config::job_config& config,
                                                            const core::model_table& table, uint64_t updates,
                                                            const mask_lookup& mask,
                                                            widths_said said = widths_said::by_config_json);

/// Before a run, which modules would be cut and how narrow they would be, whatever the masks keep; of nothing where no
/// group relates modules. Refused: what plan_cleaning would refuse behind the run.
core::result<std::shared_ptr<const cleaning>> plan_related(const config::job_config& config,
                                                           const core::model_table& table, widths_said said);
/// The same of a family, for its refusals.
core::result<void> check_related(const config::job_config& config, const core::model_table& table);

}  // namespace troupe::job
