// Flat groups of ZeRO: stretches of files laid end to end, and the cutting of parameters out of them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/native/manifest.hpp"
#include "checkpoint/torch/archive.hpp"

namespace troupe::checkpoint {

/// Tensors of one type, one behind the other.
class flat_vector {
 public:
  /// Fails where types differ or the tensor is not contiguous.
  core::result<void> append(uint32_t file, const torch_tensor& tensor);
  void append(core::dtype type, const std::vector<piece>& pieces);

  /// Elements that nobody stored, up to place `numel`; nothing where there are as many.
  void skip_to(uint64_t numel);
  /// Whether [from, from + n) reaches into such elements or beyond the end.
  [[nodiscard]] bool is_skipped(uint64_t from, uint64_t n) const;

  [[nodiscard]] uint64_t numel() const { return ends_.empty() ? 0 : ends_.back(); }
  [[nodiscard]] core::dtype type() const { return type_; }

  /// Adds the pieces of the elements [from, from + n), which lie inside.
  void cut(uint64_t from, uint64_t n, std::vector<piece>& out) const;

 private:
  core::dtype type_ = core::dtype::f32;
  bool type_known_ = false;
  std::vector<piece> pieces_;
  std::vector<uint64_t> ends_;  ///< in elements, rising
};

/// One flat vector for each state: "" is the fp32 master, else the moment's own key.
using flat_states = std::map<std::string, flat_vector>;

}  // namespace troupe::checkpoint
