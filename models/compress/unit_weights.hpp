// Reads the parameters of one unit (embedding, block, head) of a model from a checkpoint when they are needed, and
// binds them for a forward pass, so that a model larger than memory is processed unit by unit. Owns the memory; leaves
// the computation to the families.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/model_table.hpp"
#include "formats/source/source_reader.hpp"
#include "formats/source/tensor_source.hpp"
#include "models/segment/parameter_binding.hpp"

namespace troupe::models {

/// Holds the parameters of one unit at a time, in fp32. `table`, `source` and `binding` must outlive this object.
class unit_weights {
 public:
  /// Finds all parameters of `table` in `source`. Errors (mismatch): a parameter that the source lacks, or has in
  /// another shape or type.
  static core::result<unit_weights> open(const core::model_table& table, const formats::tensor_source& source,
                                         parameter_binding& binding);

  /// Reads all parameters of `unit`, converts them to fp32 and binds them; frees the parameters of the unit that was
  /// loaded before.
  core::result<void> load(uint32_t unit);
  [[nodiscard]] std::optional<uint32_t> loaded() const { return unit_; }

  /// Returns the tensor of a parameter of the loaded unit. Values that are written to it are used by later forward
  /// passes.
  [[nodiscard]] at::Tensor tensor(uint32_t parameter) const { return memory_.at(parameter); }
  /// Returns the name of the parameter's tensor in the source.
  [[nodiscard]] const std::string& name_in_source(uint32_t parameter) const { return entries_[parameter]->name; }

 private:
  unit_weights(const core::model_table& table, const formats::tensor_source& source, parameter_binding& binding)
      : table_(table), binding_(binding), reader_(source) {}

  const core::model_table& table_;
  parameter_binding& binding_;
  formats::source_reader reader_;
  std::vector<const formats::tensor_entry*> entries_;  ///< [parameter]: entry of the parameter in the source
  std::map<uint32_t, at::Tensor> memory_;
  std::optional<uint32_t> unit_;
};

}  // namespace troupe::models
