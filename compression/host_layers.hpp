// The properties of a host's model that compression uses: its table, and which of its modules may become smaller. Owns
// which types of torch::nn's modules may lose rows and columns; leaves the choice of these modules to
// job/compression/clean.hpp.
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
  std::map<std::string, std::string> rigid;  ///< reason why a layer cannot become smaller, by name of the layer

  /// Returns an error (bad_input) if `what` removes rows or columns of a layer that is in `rigid`.
  [[nodiscard]] core::result<void> may_cut(const job::cleaning& what) const;
};

/// Returns the layers of `model`. Builds units that have factories one after the other, as a run of `seed` does, and
/// drops them again; the model stays as it is. Returns every error of table_builder and of the factories.
core::result<host_layers> host_layers_of(const models::module_model& model, uint64_t seed);

/// Numbers of outputs and inputs of a module. As an argument of set_sizes, 0 leaves the number unchanged; as its
/// result, 0 means that the module does not store the number.
struct layer_sizes {
  int64_t outputs = 0, inputs = 0;
};
/// Stores the sizes `to` in the module's options and returns the previous sizes. Does not change tensors; the caller
/// must make them smaller.
layer_sizes set_sizes(torch::nn::Module& module, const layer_sizes& to);

}  // namespace troupe::compression
