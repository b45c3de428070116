// Recognises weights that are codes of compression methods which Troupe does not decode (GPTQ, AWQ, bitsandbytes,
// MLX ...), by config.json or by the names and types of tensors. Owns these signs and the error that names the method,
// so that no command takes codes for values.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::formats {

struct foreign_codes {
  /// Name of the compression method for messages, such as `GPTQ`; empty if a weight only has a type that is not read.
  std::string method;
  std::string sign;  ///< evidence for the method, such as `config.json: quantization_config.quant_method 'gptq'`
};

/// Returns the compression method that a config.json names; nothing if it names none, or one that is decoded
/// (compressed-tensors, fp8).
std::optional<foreign_codes> foreign_codes_of(std::string_view config);

/// Returns the compression method that the tensors show: codes and scales under the names that the method's tool uses,
/// a weight matrix of whole numbers, or a weight of a type that is not read; nothing if there are none. Buffers and
/// moments do not count.
std::optional<foreign_codes> foreign_codes_of(const tensor_source& s);

/// Refuses a source whose weights are codes, by its tensors or by the text of config.json in source_run::model. If
/// `as_stored` is true, adds a remark about them instead.
core::result<void> judge_codes(tensor_source& s, bool as_stored);

/// Returns the error that explains why no weights can be read from `place`, and how to get whole weights.
core::error foreign_refusal(const std::string& place, const foreign_codes& codes);

}  // namespace troupe::formats
