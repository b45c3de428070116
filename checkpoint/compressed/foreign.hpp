// Weights that are codes of methods which nothing here decodes (GPTQ, AWQ, bitsandbytes, MLX ...): which method, by
// config.json or by the names and types of tensors. Owns these signs and the refusal that names the method, so that no
// command takes codes for values.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

struct foreign_codes {
  std::string method;  ///< for people: `GPTQ`
  std::string sign;    ///< what says so: `config.json: quantization_config.quant_method 'gptq'`
};

/// The method that a config.json names; nothing where it names none, or compressed-tensors or fp8, which are read.
std::optional<foreign_codes> foreign_codes_of(std::string_view config);

/// The method that the tensors show: codes and scales under the names that its tool gives them, or a weight matrix of
/// whole numbers. Buffers and moments do not count.
std::optional<foreign_codes> foreign_codes_of(const tensor_source& s);

/// Why nothing takes weights from `place`, and how a person gets whole weights.
core::error foreign_refusal(const std::string& place, const foreign_codes& codes);

}  // namespace troupe::checkpoint
