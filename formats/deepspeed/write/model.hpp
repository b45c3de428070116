// Sorts the tensors of a source into DeepSpeed's categories: parameter groups in the model's order, frozen parameters,
// buffers and tied names, all under the names that are written.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "formats/deepspeed/write/writer.hpp"

namespace troupe::formats {

struct deepspeed_parameter {
  std::string name;                      ///< name of the parameter as it is written
  const tensor_entry* master = nullptr;  ///< fp32 master of the parameter
  const tensor_entry* weight = nullptr;  ///< weight in the written type; null: the master is the weight
  /// moments, ascending by name; all parameters of a group have moments of the same names
  std::vector<const tensor_entry*> moments;
  [[nodiscard]] const tensor_entry& value() const { return weight != nullptr ? *weight : *master; }
};

struct deepspeed_named {
  std::string name;
  const tensor_entry* tensor = nullptr;
};

/// The tensors of a model in the arrangement in which DeepSpeed stores them. Refers to entries of the source.
struct deepspeed_model {
  std::vector<std::vector<deepspeed_parameter>> groups;  ///< parameters by group, in the model's order
  std::vector<deepspeed_named> module;           ///< every parameter's weight, frozen or not, in the model's order
  std::vector<deepspeed_named> frozen, buffers;  ///< frozen parameters, in the model's order; buffers
  std::map<std::string, std::string> shared;     ///< tied names: alias -> parameter

  [[nodiscard]] std::vector<uint64_t> numels(size_t group) const;
};

/// Says what happens if neither the source nor the options state the order of parameters.
enum class unknown_order : uint8_t { refuse, by_name };

/// Arranges the tensors of `from` by parameter and group. Refuses the sources that write_deepspeed_folder() refuses.
core::result<deepspeed_model> deepspeed_model_of(const tensor_source& from, const deepspeed_write_options& options,
                                                 unknown_order without);

}  // namespace troupe::formats
