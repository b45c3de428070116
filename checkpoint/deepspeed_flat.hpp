// Flat groups of ZeRO: stretches of files laid end to end, and the cutting of parameters out of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/deepspeed_folder.hpp"
#include "checkpoint/torch_archive.hpp"

namespace troupe::checkpoint {

/// Contiguous tensors of one type, one behind the other.
class flat_vector {
 public:
  /// Fails where types differ or the tensor is not contiguous.
  core::result<void> append(uint32_t file, const torch_tensor& tensor);

  [[nodiscard]] uint64_t numel() const { return ends_.empty() ? 0 : ends_.back(); }
  [[nodiscard]] core::dtype type() const { return type_; }

  /// Adds the pieces of the elements [from, from + n), which lie inside.
  void cut(uint64_t from, uint64_t n, std::vector<file_piece>& out) const;

 private:
  core::dtype type_ = core::dtype::f32;
  std::vector<file_piece> pieces_;
  std::vector<uint64_t> ends_;  ///< in elements, rising
};

/// One flat vector for each kind of state: "fp32" and the moments.
using flat_states = std::map<std::string, flat_vector>;

}  // namespace troupe::checkpoint
