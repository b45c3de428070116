// The weight part of a split backward until it runs: the gradients that it will write, and the tensors that it needs
// for that. Owns those tensors and their order; leaves forming and writing gradients to the functions.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <utility>
#include <vector>

namespace troupe::models {

struct sink_slot;

/// Returns `t`, or a copy if it is in the memory of `lent`, which the owner of that memory will reuse.
at::Tensor apart_from(const at::Tensor& t, const at::Tensor& lent);

/// Writes of gradients in the order in which backward reached them: run in that order they give the same bits as
/// backward at once, because the products and the order of contributions are the same.
class weight_work {
 public:
  using tensors = std::vector<at::Tensor>;
  /// Writes gradients to the sink of the slot, from tensors that were kept for this write. Reads no parameter.
  using write = std::function<void(const sink_slot&, const tensors&)>;

  void add(tensors kept, write w) { waiting_.push_back({std::move(kept), std::move(w)}); }
  /// Copies kept tensors that are in the memory of `lent`, so that its owner can reuse it.
  void leave(const at::Tensor& lent);
  /// Runs all writes in order; frees the tensors of one write before the next begins.
  void run(const sink_slot& slot);

 private:
  struct entry {
    tensors kept;
    write w;
  };
  std::vector<entry> waiting_;
};

}  // namespace troupe::models
