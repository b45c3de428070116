// DeepSpeed's data other than tensors, as torch values: counters, parameter groups, the loss scaler, the configuration;
// and the model states, which every stage has.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/deepspeed/write/model.hpp"
#include "formats/weights/torch_file.hpp"

namespace troupe::formats {

/// The values that all model-state files of a folder have in common.
struct deepspeed_parts {
  const tensor_source& from;
  const deepspeed_write_options& options;
  const deepspeed_model& model;
  torch_value config;  ///< value of the key ds_config
  torch_value loss_scaler;
  bool dynamic_loss_scale = false;
  /// The loss scaler's values without its class, as stage 0 stores them.
  std::vector<std::pair<std::string, torch_value>> scale_keys;
  torch_value lr_scheduler;  ///< value of the key lr_scheduler: the state of the learning-rate schedule, or None
  std::vector<std::pair<std::string, torch_value>> client;
  std::vector<torch_value> groups;  ///< parameter groups as dicts without the key `params`
};

/// Reads the JSON texts of the options. Refused: text that is not an object, and keys of a client state that are
/// DeepSpeed's own.
core::result<deepspeed_parts> deepspeed_parts_of(const tensor_source& from, const deepspeed_write_options& options,
                                                 const deepspeed_model& model);

/// Returns the parameter groups; `params[g]` are the numbers of the tensors that the optimizer updates in group g.
torch_value parameter_groups(const deepspeed_parts& parts, const std::vector<std::vector<int64_t>>& params);

/// Returns the number of updates that the optimizer has counted, as a Python int or as a tensor
/// (deepspeed_write_options::integer_step); nothing if the source does not state it, as for SGD.
std::optional<torch_value> optimizer_step(const deepspeed_parts& parts, torch_file& file);

/// Fills `file` with the model states of one rank. At `stage` 3 trained parameters are empty and frozen ones are cut.
void fill_model_states(const deepspeed_parts& parts, torch_file& file, uint32_t stage, uint32_t rank);

/// Returns the optimizer in the form of the model states of stage 0: moments parameter by parameter as in torch.optim;
/// for 16-bit weights also the masters and the loss scale.
torch_value whole_optimizer(const deepspeed_parts& parts, torch_file& file);

/// Adds the keys loss_scaler, dynamic_loss_scale and overflow to the dict `to`.
void set_loss_scale(const deepspeed_parts& parts, torch_value& to);

}  // namespace troupe::formats
