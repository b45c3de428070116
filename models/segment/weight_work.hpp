// The work of the weight part of a split backward, recorded by the input part: which gradients to write, and the
// tensors that this needs. Owns those tensors and the order; functions that each layer registers compute and write the
// gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <utility>
#include <vector>

namespace troupe::models {

struct sink_slot;

/// Returns `t`, or a copy if its memory is that of `lent`, which will be reused.
at::Tensor apart_from(const at::Tensor& t, const at::Tensor& lent);

/// Writes of gradients, in the order in which backward reached them. Run in that order, they give the same bits as an
/// undivided backward, because products and the order of contributions are the same.
class weight_work {
 public:
  using tensors = std::vector<at::Tensor>;
  /// Function that computes gradients from tensors that were kept for it and writes them to the sink of the slot. Must
  /// not read parameters.
  using write = std::function<void(const sink_slot&, const tensors&)>;

  void add(tensors kept, write w) { waiting_.push_back({std::move(kept), std::move(w)}); }
  /// Copies those kept tensors that are in the memory of `lent`, so that its owner can reuse that memory; layers that
  /// kept the same elements share one copy.
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
