// What DeepSpeed's files say beside tensors, as torch values: counters, parameter groups, the loss scaler, the
// configuration; and the model states, which every stage has.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/deepspeed/model.hpp"
#include "checkpoint/source/torch_file.hpp"

namespace troupe::checkpoint {

/// What every file of a folder is made from.
struct deepspeed_parts {
  const tensor_source& from;
  const deepspeed_write_options& options;
  const deepspeed_model& model;
  torch_value config;  ///< ds_config
  torch_value loss_scaler;
  bool dynamic_loss_scale = false;
  std::vector<std::pair<std::string, torch_value>> scale_keys;  ///< the same without its class, as stage 0 has it
  torch_value lr_scheduler;                                     ///< or None
  std::vector<std::pair<std::string, torch_value>> client;
  std::vector<torch_value> groups;  ///< dicts without `params`
};

/// Reads the options' JSON. Refused: what is no object where one is wanted, keys of a client state that are DeepSpeed's
/// own.
core::result<deepspeed_parts> deepspeed_parts_of(const tensor_source& from, const deepspeed_write_options& options,
                                                 const deepspeed_model& model);

/// `params[g]`: what group g's optimizer steps, numbered.
torch_value parameter_groups(const deepspeed_parts& parts, const std::vector<std::vector<int64_t>>& params);

/// Optimizer steps done, in the form that the options want.
torch_value optimizer_step(const deepspeed_parts& parts, torch_file& file);

/// Fills `file` with one rank's model states. `stage` 3: parameters are empty here, frozen ones are cut.
void fill_model_states(const deepspeed_parts& parts, torch_file& file, uint32_t stage, uint32_t rank);

/// The optimizer as it stands in the model states of stage 0: moments as torch.optim has them, parameter by parameter;
/// for 16-bit weights the masters too, and the loss scale.
torch_value whole_optimizer(const deepspeed_parts& parts, torch_file& file);

/// Adds loss_scaler, dynamic_loss_scale and overflow.
void set_loss_scale(const deepspeed_parts& parts, torch_value& to);

}  // namespace troupe::checkpoint
