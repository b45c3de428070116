// Loads the weights of any checkpoint into memory by name, in fp32, as DeepSpeed's
// get_fp32_state_dict_from_zero_checkpoint returns them. For models that fit into memory; weights_export.hpp streams.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::formats {

/// A tensor in memory: shape and fp32 values.
struct fp32_tensor {
  std::vector<int64_t> shape;
  std::shared_ptr<const std::vector<float>> values;  ///< elements in row-major order; tied names share one vector
};

/// Returns trained parameters (their master weights if there are any), frozen parameters and floating buffers, as fp32,
/// also under their tied names. Leaves out moments, integers and booleans. Errors: limit if the tensors need more than
/// `max_bytes`, before anything is allocated, or more than the machine's memory; io.
core::result<std::map<std::string, fp32_tensor>> load_state_dict(const tensor_source& from,
                                                                 bool exclude_frozen_parameters = false,
                                                                 uint64_t max_bytes = UINT64_MAX);

}  // namespace troupe::formats
