// The weights of any checkpoint in memory by name, in fp32: what DeepSpeed's get_fp32_state_dict_from_zero_checkpoint
// returns. For models that fit; what streams is weights_export.hpp's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// A tensor in memory.
struct fp32_tensor {
  std::vector<int64_t> shape;
  std::shared_ptr<const std::vector<float>> values;  ///< row-major; tied names share them
};

/// Trained parameters (the master where there is one), frozen ones and floating buffers, rounded to fp32 where they are
/// wider; tied names too. Integers and booleans are left out. Errors: limit where they take more than `max_bytes`,
/// before anything is allocated; io.
core::result<std::map<std::string, fp32_tensor>> load_state_dict(const tensor_source& from,
                                                                 bool exclude_frozen_parameters = false,
                                                                 uint64_t max_bytes = UINT64_MAX);

}  // namespace troupe::checkpoint
