// A host's model as compression sees it: its table, and which of its modules may become smaller. Owns what a type of
// torch::nn's module allows; which of them should is job/compression/clean.hpp's choice.
#pragma once

#include <map>
#include <string>

#include "core/error.hpp"
#include "core/model_table.hpp"
#include "job/compression/clean.hpp"
#include "models/host/module_model.hpp"

namespace torch::nn {
class Module;
}

namespace troupe::compression {

struct host_layers {
  core::model_table table;
  std::map<std::string, std::string> rigid;  ///< by layer: why it cannot become smaller

  /// Refused (bad_input): a cut of one of these.
  [[nodiscard]] core::result<void> may_cut(const job::cleaning& what) const;
};

/// Builds units that have factories one after the other, as a run of `seed` does, and drops them again; the model stays
/// as it is. Refused: what table_builder and factories refuse.
core::result<host_layers> host_layers_of(const models::module_model& model, uint64_t seed);

/// Of a module's outputs and inputs, 0: as before. It may have no such sizes; what it holds is the caller's to cut.
struct layer_sizes {
  int64_t outputs = 0, inputs = 0;
};
/// What the module said of itself before.
layer_sizes set_sizes(torch::nn::Module& module, const layer_sizes& to);

}  // namespace troupe::compression
