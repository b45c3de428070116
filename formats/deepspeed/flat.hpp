// Flat groups of ZeRO as lists of pieces: joins the flat tensors of shard files end to end, and finds the pieces of one
// parameter in them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "formats/tensors/tensor_list.hpp"
#include "formats/torch/archive.hpp"

namespace troupe::formats {

/// A vector of elements of one dtype: tensors in files, one after the other. Stores their pieces, not their elements.
class flat_vector {
 public:
  /// Appends a tensor to the vector. Fails if its dtype differs from the vector's or if it is not contiguous.
  core::result<void> append(uint32_t file, const torch_tensor& tensor);
  void append(core::dtype type, const std::vector<piece>& pieces);

  /// Appends elements that no file stores, up to `numel` elements in total; does nothing if there are as many.
  void skip_to(uint64_t numel);
  /// True if [from, from + n) contains elements that no file stores, or reaches beyond the end.
  [[nodiscard]] bool is_skipped(uint64_t from, uint64_t n) const;

  [[nodiscard]] uint64_t numel() const { return ends_.empty() ? 0 : ends_.back(); }
  [[nodiscard]] core::dtype type() const { return type_; }

  /// Adds the pieces of the elements [from, from + n), which must be inside, to `out`.
  void cut(uint64_t from, uint64_t n, std::vector<piece>& out) const;

 private:
  core::dtype type_ = core::dtype::f32;
  bool type_known_ = false;
  std::vector<piece> pieces_;
  std::vector<uint64_t> ends_;  ///< end of each piece, counted in elements of the whole vector; ascending
};

/// One flat vector for each state: "" is the key of the fp32 master, any other key is the name of a moment.
using flat_states = std::map<std::string, flat_vector>;

}  // namespace troupe::formats
